"""Lineages as text: whole trees, valid JSON, escaped labels."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from pipelines.lineage import query, render
from pipelines.lineage.records import ArtifactRecord
from pipelines.lineage.source import Edge, Execution

FILE = ArtifactRecord(1, "InputFile", '/d/a "b".csv', {"sha256": "f" * 64, "records": 7, "bytes": 9})
EXAMPLES = ArtifactRecord(2, "Examples", "/w/examples", {})
PUSHED = ArtifactRecord(3, "PushedModel", "/w/p", {"pushed_version": "4", "pushed_destination": "/s/m/4"})
BASE = ArtifactRecord(4, "Model", "/w/base", {"technique": "frozen"})


def execution(number: int, node: str, state: str = "complete") -> Execution:
    return Execution(number, node, "r-1", state, 0.0, {"wall_s": 1.5})


def lineage(direction: query.Direction = "up", cut: bool = False) -> query.Lineage:
    edges = [
        Edge(3, 11, "pushed_model", False),
        Edge(2, 11, "model", True),
        Edge(4, 11, "baseline_model", True),
        Edge(2, 10, "examples", False),
        Edge(1, 10, "files", True),
    ]
    start = (3,) if direction == "up" else (1,)
    return query.Lineage(
        query.Target("version", "m@4", start),
        direction,
        {artifact.id: artifact for artifact in (FILE, EXAMPLES, PUSHED, BASE)},
        {10: execution(10, "ExampleGen"), 11: execution(11, "Pusher", "failed")},
        edges,
        cut,
    )


def test_a_tree_upwards() -> None:
    moment = render.clock(0.0)
    assert render.tree(lineage()).splitlines() == [
        "m@4: what made it",
        "└─ PushedModel m@4 [artifact 3]",
        f"   └─ Pusher failed: run r-1, {moment}, 1.5 s",
        "      ├─ model: Examples [artifact 2]",
        f"      │  └─ ExampleGen: run r-1, {moment}, 1.5 s",
        '      │     └─ files: /d/a "b".csv (sha256 ffffffffffff, 7 records)',
        "      └─ baseline_model: Model frozen [artifact 4]",
    ]


def test_a_tree_downwards_names_what_most_look_for_first() -> None:
    lines = render.tree(lineage("down")).splitlines()
    assert lines[:2] == ["m@4: what came of it", "  Pushed:    m@4"]
    assert lines[-1].endswith("pushed_model: PushedModel m@4 [artifact 3]")


def test_what_was_cut_is_said() -> None:
    assert render.tree(lineage(cut=True)).splitlines()[-1] == "… and more; raise --depth"


def test_json_holds_everything() -> None:
    content = json.loads(render.as_json(lineage()))
    assert [item["id"] for item in content["artifacts"]] == [1, 2, 3, 4]
    assert content["executions"][1]["state"] == "failed"
    assert content["edges"][0] == {"artifact": 3, "execution": 11, "key": "pushed_model", "reads": False}


def test_dot_escapes_labels() -> None:
    text = render.dot(lineage())
    assert r'a1 [shape=ellipse, label="a \"b\".csv"];' in text
    assert 'e10 -> a2 [label="examples"];' in text
    assert text.startswith("digraph lineage {") and text.endswith("}")


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_reads_it() -> None:
    subprocess.run(["dot", "-Tsvg"], input=render.dot(lineage()), text=True, check=True, capture_output=True)


def test_mermaid_escapes_labels() -> None:
    text = render.mermaid(lineage())
    assert 'a1(["a #34;b#34;.csv"])' in text
    assert "  a1 -->|files| e10" in text


def test_each_format_takes_a_real_lineage(source) -> None:
    found = query.follow(source, query.resolve(source, "digits@1"), "up")
    for name, form in render.FORMATS.items():
        text = form(found)
        assert text, name
        for item in found.executions.values():
            assert item.node in text, name


def test_a_chain_of_a_thousand_versions_is_drawn() -> None:
    """Each began with the weights of the one before."""
    count = 1000
    artifacts = {n: ArtifactRecord(n, "Model", f"/w/{n}", {}) for n in range(1, count + 1)}
    edges = [Edge(n, 5000 + n, "model", False) for n in artifacts]
    edges += [Edge(n - 1, 5000 + n, "base_model", True) for n in artifacts if n > 1]
    runs = {5000 + n: execution(5000 + n, "Trainer") for n in artifacts}
    target = query.Target("version", "m@1", (count,))
    lines = render.tree(query.Lineage(target, "up", artifacts, runs, edges, False)).splitlines()
    assert len(lines) == 1 + 2 * count
    assert lines[-2].lstrip().startswith("└─ base_model: Model [artifact 1]")
