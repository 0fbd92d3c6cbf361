"""What must hold of a workspace after kills and resumes, whatever happened in between."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines import digests
from pipelines.lineage.database import Database
from pipelines.lineage.records import NodeRecord, RunRecord
from pipelines.lineage.store import Store
from pipelines.runners import payloads
from pipelines.summary import RESOLVERS


def runs(workspace: Path) -> list[RunRecord]:
    with Store(Database(workspace / "metadata.db")) as store:
        return store.runs()


def nodes(workspace: Path, run_id: str) -> list[NodeRecord]:
    with Store(Database(workspace / "metadata.db")) as store:
        return store.nodes(run_id)


def active_executions(workspace: Path) -> list[int]:
    """Executions of any kind that count as running."""
    with Store(Database(workspace / "metadata.db")) as store:
        active = (pb.Execution.RUNNING, pb.Execution.NEW)
        return [item.id for item in store._store.get_executions() if item.last_known_state in active]


def faults(workspace: Path, run_id: str, expected: set[str]) -> list[str]:
    """Sentences that say what is wrong with a finished run; empty where nothing is."""
    found = nodes(workspace, run_id)
    done = [node for node in found if node.state in ("complete", "cached")]
    wrong = [f"execution {number} counts as running" for number in active_executions(workspace)]
    wrong += [f"{name} was executed {times} times" for name, times in _counts(done).items() if times > 1]
    wrong += [f"{name} is missing" for name in sorted(expected - {node.node for node in done})]
    wrong += [text for node in done for text in _output_faults(node)]
    wrong += _left_over(workspace)
    wrong += _run_again(workspace / "runs" / run_id)
    if (workspace / "runs" / run_id / "lease").exists():
        wrong.append("the lease is still there")
    return wrong


def _counts(done: list[NodeRecord]) -> Counter[str]:
    return Counter(node.node for node in done)


def _output_faults(node: NodeRecord) -> list[str]:
    wrong = []
    if node.node not in RESOLVERS and "wall_s" not in node.properties:
        wrong.append(f"{node.node}: what it cost is not recorded")
    for key, artifacts in {} if node.node in RESOLVERS else node.outputs.items():
        for artifact in artifacts:
            if digests.of_tree(Path(artifact.uri)) != artifact.properties[payloads.PROPERTY]:
                wrong.append(f"{node.node}.{key}: not what was published")
    files = [artifact.uri for artifact in node.inputs.get("files", ())]
    wrong += [f"{node.node}: {uri} is linked {n} times" for uri, n in Counter(files).items() if n > 1]
    return wrong


def _left_over(workspace: Path) -> list[str]:
    """Output folders that no published artifact names."""
    with Store(Database(workspace / "metadata.db")) as store:
        known = {Path(item.uri) for item in store._store.get_artifacts()}
    folders = (workspace / "artifacts").glob("*/*/*/*")
    return [
        f"{folder} belongs to nothing"
        for folder in folders
        if folder.is_dir() and ".system" not in folder.parts and folder not in known
    ]


def _run_again(folder: Path) -> list[str]:
    """Nodes that began again after they had ended well."""
    ended: set[str] = set()
    wrong = []
    for line in (folder / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["state"] in ("complete", "cached"):
            ended.add(event["node"])
        elif event["node"] in ended:
            wrong.append(f"{event['node']} began again after it had ended")
    return wrong


def weights(workspace: Path, run_id: str) -> str:
    """Digest of what the Trainer made: its weights and graph."""
    trainer = next(node for node in nodes(workspace, run_id) if node.node == "Trainer")
    model = Path(trainer.outputs["model"][0].uri, "Format-Serving", "variables")
    return digests.of_tree(model)
