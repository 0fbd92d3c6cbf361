"""What resolvers find in a metadata store as Kubeflow writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tfx.types import standard_artifacts

from pipelines.errors import WorkspaceError
from pipelines.runners import kfp_store
from pipelines.runners.kfp_artifacts import NOTHING, from_runtime
from pipelines.runners.kfp_executors import KFP_URI, ResolveBaseline, ResolveStatistics
from pipelines.runners.kfp_facts import FACTS, SQLITE
from pipelines.runners.spec_records import COMPLETE, CONTAINER, FAILED, Records

Runtime = dict[str, Any]


class Recorded:
    """A store in which nodes have made artifacts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = Records(path, "digits")
        self.records.begin("run-1", "minio://mlpipeline/v2/artifacts/digits/run-1")

    def make(self, kind: str, name: str, records: Records | None = None, **metadata: Any) -> Runtime:
        """An artifact that a node of a pipeline made."""
        store = records or self.records
        uri = f"minio://mlpipeline/v2/artifacts/digits/run-1/Node/salt/{name}"
        made = store.record_artifact("out", f"title: tfx.{kind}", uri, {FACTS: "{}", **metadata})
        execution = store.create(CONTAINER, "Node", None, {}, {})
        store.publish(execution, COMPLETE, {}, {"out": [int(made["name"])]})
        return made

    def copy(self, kind: str, made: Runtime) -> Runtime:
        """What an importer records of it."""
        found = self.records.import_artifact(f"title: tfx.{kind}", made["uri"], {}, reimport=False)
        execution = self.records.create(CONTAINER, "Importer", None, {}, {})
        self.records.publish(execution, COMPLETE, {}, {"result": [int(found["name"])]})
        return found

    def gate(self, made: Runtime, state: str = COMPLETE) -> None:
        """What the gate records of statistics."""
        report = self.records.record_artifact("report", "title: tfx.ValidationReport", "minio://report", {})
        execution = self.records.create(CONTAINER, "datagate", None, {}, {"statistics": [int(made["name"])]})
        self.records.publish(
            execution, state, {}, {"report": [int(report["name"])]} if state == COMPLETE else {}
        )


@pytest.fixture
def recorded(tmp_path, monkeypatch) -> Recorded:
    path = tmp_path / "metadata.db"
    monkeypatch.setenv(SQLITE, str(path))
    return Recorded(path)


def resolved(executor: type, kind: str, current: Runtime, folder: Path) -> str:
    artifact = from_runtime(current, f"tfx.{kind}", "/minio/somewhere")
    artifact.set_string_custom_property(KFP_URI, current["uri"])
    answer = standard_artifacts.String()
    answer.uri = str(folder / "uri")
    executor().Do({"current": [artifact]}, {"uri": [answer]}, {})
    return str(answer.read())


def test_earlier_statistics_are_the_latest_that_passed_the_gate_before(recorded, tmp_path) -> None:
    oldest = recorded.make("ExampleStatistics", "oldest")
    before = recorded.make("ExampleStatistics", "before")
    refused = recorded.make("ExampleStatistics", "refused")
    # Imported by the run of `before`, so it has a later id; it is not what was made last.
    recorded.copy("ExampleStatistics", oldest)
    current = recorded.make("ExampleStatistics", "current")
    later = recorded.make("ExampleStatistics", "later")
    for made in (oldest, before, later):
        recorded.gate(made)
    recorded.gate(refused, FAILED)
    assert resolved(ResolveStatistics, "ExampleStatistics", current, tmp_path) == before["uri"]


def test_nothing_is_found_in_a_first_run_and_nothing_of_other_pipelines(recorded, tmp_path) -> None:
    other = Records(recorded.path, "other")
    other.begin("run-2", "minio://mlpipeline/v2/artifacts/other/run-2")
    recorded.gate(recorded.make("ExampleStatistics", "of-another", other))
    current = recorded.make("ExampleStatistics", "current")
    uri = resolved(ResolveStatistics, "ExampleStatistics", current, tmp_path)
    assert uri == f"minio://mlpipeline/v2/artifacts/digits/{NOTHING}"


def test_the_baseline_is_blessed_and_of_another_trained_model(recorded, tmp_path) -> None:
    good = recorded.make("Model", "good", trained_model_id=1.0)
    bad = recorded.make("Model", "bad", trained_model_id=2.0)
    current = recorded.make("Model", "current", trained_model_id=3.0)
    assert resolved(ResolveBaseline, "Model", current, tmp_path).endswith(NOTHING)
    for model, blessed in ((good, 1.0), (bad, 0.0), (current, 1.0)):
        recorded.make(
            "ModelBlessing", f"of-{model['name']}", blessed=blessed, current_model_id=float(model["name"])
        )
    assert resolved(ResolveBaseline, "Model", current, tmp_path) == good["uri"]


def test_a_container_that_was_told_of_no_store(monkeypatch) -> None:
    monkeypatch.delenv(SQLITE, raising=False)
    monkeypatch.delenv(kfp_store.HOST, raising=False)
    with pytest.raises(WorkspaceError, match="where the metadata store is"):
        kfp_store.connect()
