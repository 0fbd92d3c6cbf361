"""What a run would take from the cache, and why not the rest.

    for verdict in explain(experiment, workspace, loading): ...

The look-up is that of a real run, on a copy of the record, so that the two
cannot disagree and nothing is changed. Reasons come from comparing what a node
would be registered with now with its latest execution that ended well.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines import compiling, digests, fingerprint, plans
from pipelines.compiling import Options
from pipelines.config import Experiment
from pipelines.lineage import copying
from pipelines.lineage.database import Database
from pipelines.lineage.records import NodeRecord, RunRecord
from pipelines.lineage.store import Store
from pipelines.run import template_of
from pipelines.runners import cached, look, payloads
from pipelines.runners.files import RunFiles
from pipelines.summary import RESOLVERS
from pipelines.workspace import Workspace

_RUN_ID = "explain-cache"
_SHOWN = 60


@dataclass(frozen=True)
class Verdict:
    """What a run would do with a node.

    Attributes:
        node: its id.
        hit: whether its outputs would be taken from the cache; None for one that
            looks something up in every run.
        reasons: which parts of its key have changed, in words; empty for a hit.
    """

    node: str
    hit: bool | None
    reasons: Sequence[str]


def explain(
    experiment: Experiment, workspace: Workspace, options: Options, loading: Callable[[], None]
) -> list[Verdict]:
    """A verdict for each node, in topological order. Runs nothing, and records nothing.

    Args:
        experiment: what would be run.
        workspace: where.
        options: how.
        loading: called before TFX is imported, where it must be.
    """
    _, template = template_of(experiment, workspace, options, loading)
    ir = compiling.for_run(template, _RUN_ID)
    with tempfile.TemporaryDirectory(prefix="headrace-") as scratch:
        files = RunFiles(Path(scratch), Database(Path(scratch, "metadata.db")))
        copying.copy_to_file(workspace.database, files.database.path)
        # Whatever TFX makes for executions goes there too; it is no part of a key.
        ir.runtime_spec.pipeline_root.field_value.string_value = scratch
        found = cached.looked_up(ir, files, (), lambda: None)
        if not found:
            raise RuntimeError((files.folder / "look.log").read_text()[-2000:])
        with Store(files.database) as store:
            history = _History(store, experiment, workspace, template)
            return [_verdict(item.pipeline_node, found, history) for item in ir.nodes]


class _History:
    """What nodes were registered with: now, and when they last ended well."""

    def __init__(self, store: Store, experiment: Experiment, workspace: Workspace, template: Any) -> None:
        self.template, self.workspace = template, workspace
        self.now = {node.node: node for node in store.nodes(_RUN_ID)}
        self.runs = {run.run_id: run for run in store.runs() if run.experiment == experiment.name}
        self._store = store
        self._by_run: dict[str, dict[str, NodeRecord]] = {}

    def latest(self, name: str) -> tuple[RunRecord, NodeRecord] | None:
        """The latest run in which a node was executed and ended well, and its execution."""
        for run in self.runs.values():
            if run.run_id not in self._by_run:
                self._by_run[run.run_id] = {node.node: node for node in self._store.nodes(run.run_id)}
            node = self._by_run[run.run_id].get(name)
            if node is not None and node.state in ("complete", "cached"):
                return run, node
        return None


def _verdict(node: Any, found: Mapping[str, str], history: _History) -> Verdict:
    name, state = node.node_info.id, found[node.node_info.id]
    if state == look.WAITS:
        before = [item for item in node.upstream_nodes if found[item] in (look.MISS, look.WAITS)]
        return Verdict(name, None if name in RESOLVERS else False, [f"after {item}" for item in before])
    if name in RESOLVERS:
        return Verdict(name, None, [])
    if state in look.FINISHED:
        return Verdict(name, True, [])
    return Verdict(name, False, list(_reasons(name, history)) or ["nothing that is recorded has changed"])


def _reasons(name: str, history: _History) -> Iterator[str]:
    latest = history.latest(name)
    now = history.now.get(name)
    if latest is None or now is None:
        yield "it has not ended well before"
        return
    run, before = latest
    for key in sorted({*before.properties, *now.properties}):
        old, new = before.properties.get(key), now.properties.get(key)
        if old == new or new is None:
            continue
        if key == fingerprint.PROPERTY:
            yield from _code(name, run, history)
        else:
            yield from _differences(key, old, new)
    yield from _inputs(before, now)
    yield from _damage(before)


def _code(name: str, run: RunRecord, history: _History) -> Iterator[str]:
    """Which packages and modules are not what they were in a run."""
    packages, installed = run.details.get("packages", {}), fingerprint.environment()
    for package in sorted({*packages, *installed}):
        if packages.get(package) != installed.get(package):
            yield f"package {package}: {packages.get(package, 'none')} -> {installed.get(package, 'none')}"
    old = plans.recorded_sources(history.workspace, str(run.details.get("compiled", ""))).get(name)
    if old is None:
        yield "code (which modules is no longer known)"
        return
    new = plans.sources_of(history.template)[name]
    for module in sorted({*old, *new}):
        if old.get(module) != new.get(module):
            what = "new" if module not in old else "gone" if module not in new else "changed"
            yield f"code: {module} ({what})"


def _differences(key: str, old: Any, new: Any) -> Iterator[str]:
    """One line a changed value; settings that are JSON are compared inside."""
    before, after = _flat(key, old), _flat(key, new)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"{name}: {_short(before.get(name))} -> {_short(after.get(name))}"


def _flat(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            return {key: value}
    if isinstance(value, dict):
        return {name: item for k, v in value.items() for name, item in _flat(f"{key}.{k}", v).items()}
    return {key: value}


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _inputs(before: NodeRecord, now: NodeRecord) -> Iterator[str]:
    for key, artifacts in now.inputs.items():
        if [item.id for item in artifacts] != [item.id for item in before.inputs.get(key, ())]:
            yield f"input {key} is another artifact"


def _damage(before: NodeRecord) -> Iterator[str]:
    for key, artifacts in before.outputs.items():
        for artifact in artifacts:
            try:
                sound = digests.of_tree(Path(artifact.uri)) == artifact.properties.get(payloads.PROPERTY)
            except OSError:
                yield f"output {key} is gone: {artifact.uri}"
                continue
            if not sound:
                yield f"output {key} is not what was published: {artifact.uri}"
