"""Data from tables and folders, gates and schemas, from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pipelines.lineage.store import Store
from tests import stores

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def photos(tmp_path_factory, png) -> Path:
    """Two classes of small noise images, in class folders, with some surprises."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(8)
    for number in range(60):
        path = root / ("cat" if number % 2 else "dog") / f"{number:03d}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png(rng.integers(0, 256, (16, 16, 3))))
    (root / "cat" / "notes.txt").write_text("not an image")
    return root


def test_a_folder_of_images_is_checked(headrace, photos, tmp_path) -> None:
    done = headrace("data", "check", str(photos), "--workspace", str(tmp_path))
    assert done.code == 0, done.err
    sizes = re.search(r"Examples +(\d+) test, (\d+) train, (\d+) validation", done.out)
    assert sizes and sum(map(int, sizes.groups())) == 60
    assert re.search(r"Classes +cat 30, dog 30\n", done.out)
    assert re.search(r"Anomalies +none\n", done.out)
    assert "Pushed" not in done.out
    with Store(tmp_path / "metadata.db") as store:
        nodes = {node.node: node for node in store.nodes(store.find_run("latest").run_id)}
    report = json.loads(Path(nodes["ExampleGen"].outputs["report"][0].uri, "report.json").read_text())
    assert report["ignored"] == ["cat/notes.txt"]
    assert len(report["files"]) == 60


def test_the_data_of_an_experiment_is_checked(headrace, photos, tmp_path) -> None:
    (tmp_path / "pets.yaml").write_text(f"data: {{path: {photos}}}\n")
    done = headrace("data", "check", "pets.yaml", "--workspace", str(tmp_path / "w"), cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("Run pets-")
    assert re.search(r"Classes +cat 30, dog 30\n", done.out)


def test_bad_images_are_quarantined_and_counted(headrace, photos, tmp_path) -> None:
    bad = photos / "cat" / "broken.png"
    bad.write_bytes(b"\x89PNG rubbish")
    try:
        failed = headrace("data", "check", str(photos), "--workspace", str(tmp_path))
        assert failed.code == 2
        assert f"{bad}, record 0" in failed.err
        done = headrace(
            *("data", "check", str(photos), "--workspace", str(tmp_path)),
            *("--set", "data.on_bad_record=quarantine", "--set", "data.max_bad_fraction=0.05"),
        )
        assert done.code == 0, done.err
        assert "1 record could not be used" in done.out
    finally:
        bad.unlink()


@pytest.mark.slow
def test_images_from_the_web_lead_back_to_it(headrace, photos, tmp_path) -> None:
    place = ("--workspace", str(tmp_path))
    with stores.web(photos) as url:
        check = ("data", "check", f"{url}/", *place)
        done = headrace(*check)
        assert done.code == 0, done.err
        again = headrace(*check)
        assert "0 executed, 5 cached" in again.out, again.out
        listed = headrace(*check, "--output", "csv")
        assert (listed.code, listed.out) == (0, "split,feature,anomaly\n")
        origin = f"{url}/cat/001.png"
        found = headrace("lineage", origin, *place)
        assert found.code == 0 and "what came of it" in found.out
        bad = photos / "cat" / "broken.png"
        bad.write_bytes(b"\x89PNG rubbish")
        try:
            failed = headrace(*check)
        finally:
            bad.unlink()
        assert failed.code == 2
        assert f"{url}/cat/broken.png, record 0" in failed.err
    gone = headrace(*check)
    assert gone.code == 2 and "It cannot be reached" in gone.err


def test_a_schema_is_frozen_broken_and_accepted(headrace, photos, tmp_path) -> None:
    """init, an edit that the data breaks, the stop with its remedy, accept, and a run that goes on."""
    schema = tmp_path / "schema.pbtxt"
    workspace = ("--workspace", str(tmp_path / "w"))
    assert headrace("data", "check", str(photos), *workspace).code == 0
    assert headrace("schema", "init", "latest", "-o", str(schema), *workspace).code == 0
    again = headrace("schema", "init", "latest", "-o", str(schema), *workspace)
    assert again.code == 2 and "is there already" in again.err
    text = schema.read_text()
    schema.write_text(text.replace('value: "dog"', ""))
    assert headrace("schema", "diff", str(schema), "latest", *workspace).out.count("dog") == 1
    use = ("--set", f"validation.schema_file={schema}")
    stopped = headrace("data", "check", str(photos), *workspace, *use)
    assert stopped.code == 2
    assert "feature 'label': Examples contain values missing from the schema: dog" in stopped.err
    assert f"headrace schema accept {schema} latest" in stopped.err
    accepted = headrace("schema", "accept", str(schema), "latest", *workspace)
    assert accepted.code == 0 and '+  value: "dog"' in accepted.out.replace("    ", "  ")
    # Of few photos the schema lists the paths; another photo is none the less no anomaly.
    another = photos / "dog" / "another.png"
    another.write_bytes((photos / "cat" / "001.png").read_bytes())
    try:
        done = headrace("data", "check", str(photos), *workspace, *use)
    finally:
        another.unlink()
    assert done.code == 0, done.err


def test_drift_against_earlier_data_stops_the_run(headrace, tmp_path) -> None:
    """The same experiment on a second span of a table whose categories have moved."""
    rng = np.random.default_rng(6)
    for span, share in ((1, 0.9), (2, 0.1), (3, 0.1)):
        kinds = rng.choice(["a", "b"], 600, p=[share, 1 - share])
        rows = [f"{kind},{number % 7},{'yn'[number % 2]}" for number, kind in enumerate(kinds)]
        (tmp_path / f"day-{span}.csv").write_text("\n".join(["kind,size,label", *rows]) + "\n")
    experiment = tmp_path / "own.yaml"
    experiment.write_text(f"data: {{path: '{tmp_path}/day-{{SPAN}}.csv'}}\nmodel: {{family: tabular}}\n")
    command = ("run", str(experiment), "--workspace", str(tmp_path / "w"), "--to", "DataGate")
    first = headrace(*command, "--set", "data.span=1")
    second = headrace(*command, "--set", "data.span=2")
    # As the second, which was refused, and is nothing to go by.
    third = headrace(*command)
    assert first.code == 0, first.err
    for stopped in (second, third):
        assert stopped.code == 2
        assert re.search(r"drift: feature 'kind' has moved by 0\.[78]", stopped.err)
    meant = headrace(*command, "--set", "validation.drift.default=1", "--set", "data.span=2")
    assert meant.code == 0, meant.err
    assert headrace(*command).code == 0
