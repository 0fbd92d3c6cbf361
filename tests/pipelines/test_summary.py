"""What a summary says of a push, and of what has become of it since."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from components.serving_pusher import root as serving_root
from pipelines.cli.tables import print_summary
from pipelines.lineage.records import ArtifactRecord, NodeRecord
from pipelines.summary import Summary, _infra, _push


def node(root: Path, state: str, **properties: str | int) -> NodeRecord:
    artifact = ArtifactRecord(1, "PushedModel", "/pushed", properties)
    return NodeRecord("Pusher", 1, state, {"serving_root": str(root)}, {}, {"pushed_model": [artifact]})


def pushed(root: Path, version: int, state: str = "cached") -> Summary:
    destination = str(root / str(version))
    return Summary(
        **_push(node(root, state, pushed=1, pushed_version=str(version), pushed_destination=destination))
    )


def printed(summary: Summary) -> str:
    screen = io.StringIO()
    print_summary(Console(file=screen, width=200), summary)
    return screen.getvalue()


@pytest.fixture
def root(tmp_path) -> Path:
    for number in (1, 2, 3):
        (tmp_path / str(number)).mkdir()
    return tmp_path


def test_what_is_in_service_needs_no_more_words(root) -> None:
    text = printed(pushed(root, 3, "complete"))
    assert f"Pushed      version 3 in {root}/3\n" in text
    assert "In service  version 3\n" in text


def test_a_cached_push_that_was_withdrawn_is_not_claimed_to_serve(root) -> None:
    serving_root.put_in_service(root, 2, serving_root.Withdrawal("rollback", "slow", 1.0))
    text = printed(pushed(root, 3))
    assert "pushed before); not in service: withdrawn by a rollback (slow)" in text
    assert "In service  version 2" in text


def test_other_ends_of_a_push(root) -> None:
    assert pushed(root, 1).pushed_state == "superseded by a newer version"
    serving_root.remove(root, [1])
    assert pushed(root, 1).pushed_state == "removed since"


def test_a_refused_model_and_what_serves_on(root) -> None:
    summary = Summary(**_push(node(root, "complete", pushed=0, reason="infra validation: too slow")))
    text = printed(summary)
    assert "Pushed      no; refused by infra validation: too slow" in text
    assert "In service  version 3" in text


def test_infra_figures_and_reasons() -> None:
    figures = {
        "server": "embedded server",
        "cold_load_s": 4.94,
        "p50_ms": 1.25,
        "p95_ms": 2.0,
        "p99_ms": 3.0,
        "requests": 300,
        "memory_mb": 612.4,
    }
    properties = {"blessed": 0, "message": "too slow", "figures": json.dumps(figures)}
    artifact = ArtifactRecord(1, "InfraBlessing", "/blessing", properties)
    summary = Summary(**_infra(NodeRecord("InfraValidator", 1, "complete", {}, {}, {"blessing": [artifact]})))
    assert summary.infra_blessed is False
    text = printed(summary)
    assert "in embedded server: cold load 4.9 s, one example 1.2 / 2.0 / 3.0 ms" in text
    assert "not blessed: too slow" in text
