"""Compiled pipelines, kept: a run that is configured as an earlier one does not import TFX to compile.

    key = key_of(experiment, workspace, cache=True)
    template = load(workspace, key) or save(workspace, key, compile_template(...))

The key covers all that compiling reads: the configuration, the bytes of every
source file of ours and of the user's modules, the versions of all packages,
the digests of data and of models to begin with or learn from, the place of the
workspace. Nodes have keys of their own; a kept pipeline that is missing costs
time only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipelines import fingerprint, inputs, leases, teachers
from pipelines.config import Experiment
from pipelines.located import FIELDS, located
from pipelines.located import value as _at
from pipelines.workspace import Workspace

KEPT = 50
"""Compiled pipelines that are kept; the longest unused go first."""


def key_of(experiment: Experiment, workspace: Workspace, *, cache: bool) -> str:
    """SHA-256 over all that the compiled pipeline depends on, in hex.

    Raises:
        InputError: the experiment's data, or a model that it learns from, is not there.
    """
    total = hashlib.sha256()
    for part in _parts(experiment, workspace, cache):
        total.update(f"{len(part)}:".encode() + part)
    return total.hexdigest()


def _parts(experiment: Experiment, workspace: Workspace, cache: bool) -> Iterator[bytes]:
    resolved = inputs.resolve(experiment, workspace)
    told = experiment.model_dump(mode="json")
    yield json.dumps(told, sort_keys=True).encode()
    yield json.dumps([str(workspace.root), str(Path.cwd()), cache, sys.version]).encode()
    yield json.dumps([asdict(resolved.request), resolved.digest], sort_keys=True, default=str).encode()
    yield fingerprint.environment_digest().encode()
    yield json.dumps(fingerprint.hardware()).encode()
    yield from _sources(told)
    here = located(experiment, workspace.fetched)
    yield json.dumps([_at(here, field) for field in FIELDS]).encode()
    if here.validation.schema_file is not None:
        yield inputs.digest([here.validation.schema_file]).encode()
    yield from _models(here, workspace)


def _sources(told: Any) -> Iterator[bytes]:
    for package in fingerprint.OWN_PACKAGES:
        for path in sorted((fingerprint.PROJECT / package).rglob("*.py")):
            yield str(path).encode()
            yield path.read_bytes()
    yield fingerprint.of_modules(fingerprint.named_modules(told)).encode()


def _models(here: Experiment, workspace: Workspace) -> Iterator[bytes]:
    """Digests of models that training begins with or learns from: another may lie under the same name."""
    weights = Path(_at(here, ("model", "weights")) or "").expanduser()
    # What names no file is a name that is known, or refused when it is compiled.
    yield inputs.digest_of_tree(weights).encode() if weights.name and weights.exists() else b""
    if here.train.distill is not None:
        told = here.train.distill
        path = teachers.teacher_path(told.teacher, workspace, features=told.feature_weight > 0)
        yield json.dumps([str(path), inputs.digest_of_tree(path)]).encode()


def load(workspace: Workspace, key: str) -> Any:
    """The compiled pipeline of a key; None where it is not kept, or was damaged."""
    from tfx.proto.orchestration import pipeline_pb2

    path = _path(workspace, key)
    try:
        text = path.read_bytes()
    except OSError:
        return None
    digest, _, data = text.partition(b"\n")
    if digest.decode(errors="replace") != hashlib.sha256(data).hexdigest():
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return pipeline_pb2.Pipeline.FromString(data)


def save(workspace: Workspace, key: str, template: Any) -> Any:
    """Keeps a compiled pipeline, and returns it."""
    path = _path(workspace, key)
    data = template.SerializeToString(deterministic=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    Path(file.name).rename(path)
    path.with_suffix(".json").write_text(json.dumps(sources_of(template), sort_keys=True))
    for old in sorted(path.parent.glob("*.pb"), key=_used)[:-KEPT]:
        old.unlink(missing_ok=True)
        old.with_suffix(".json").unlink(missing_ok=True)
    _remove_locks(path.parent)
    return template


def _remove_locks(folder: Path) -> None:
    """Takes away locks of pipelines that are no longer kept, but for those that a run holds."""
    for lock in folder.glob("*.lock"):
        descriptor = None if lock.with_suffix(".pb").exists() else leases.try_lock(lock)
        if descriptor is not None:
            # While it is held: whoever waits for it finds that the path names another file, or none.
            lock.unlink(missing_ok=True)
            os.close(descriptor)


def sources_of(template: Any) -> dict[str, dict[str, str]]:
    """Node -> module -> digest, of the code that the node's fingerprint covers."""
    found: dict[str, dict[str, str]] = {}
    for name, roots in roots_of(template).items():
        modules = fingerprint.closure(roots)
        found[name] = {module: fingerprint.source_digest(path) for module, path in modules.items()}
    return found


def roots_of(template: Any) -> dict[str, list[str]]:
    """Node -> the modules it begins from: its executor's, and those named in its parameters."""
    from tfx.proto.orchestration import executable_spec_pb2 as specs
    from tfx.proto.orchestration import pipeline_pb2

    deployment = pipeline_pb2.IntermediateDeploymentConfig()
    template.deployment_config.Unpack(deployment)
    found = {}
    for item in template.nodes:
        node = item.pipeline_node
        spec = deployment.executor_specs.get(node.node_info.id)
        if spec is None:
            continue
        kind = specs.PythonClassExecutableSpec()
        if spec.Is(specs.BeamExecutableSpec.DESCRIPTOR):
            beam = specs.BeamExecutableSpec()
            spec.Unpack(beam)
            kind = beam.python_executor_spec
        else:
            spec.Unpack(kind)
        texts = [value.field_value.string_value for value in node.parameters.parameters.values()]
        found[node.node_info.id] = [kind.class_path.rpartition(".")[0], *fingerprint.named_modules(texts)]
    return found


def recorded_sources(workspace: Workspace, key: str) -> dict[str, dict[str, str]]:
    """What `sources_of` found when a pipeline was kept; empty where that is gone."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(_path(workspace, key).with_suffix(".json").read_text()))
    return {}


@contextlib.contextmanager
def one_at_a_time(workspace: Workspace, key: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Lets runs of the very same pipeline in one after another: the later find all in the cache.

    Runs that differ in anything go on side by side. The lock goes with the
    last process of the run that holds it.

    Args:
        workspace: where they run.
        key: of the pipeline.
        waiting: called ten times a second while another run has the lock.
    """
    path = _path(workspace, key).with_suffix(".lock")
    path.parent.mkdir(exist_ok=True)
    while (descriptor := leases.try_lock(path)) is None:
        waiting()
        time.sleep(0.1)
    try:
        yield
    finally:
        # For forked children that still have the descriptor, too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _path(workspace: Workspace, key: str) -> Path:
    return workspace.root / "compiled" / f"{key}.pb"


def settings_of(template: Any) -> dict[str, str]:
    """Node -> digest of what it is told and runs, without marks of partial runs."""
    found = {}
    for item in template.nodes:
        node = item.pipeline_node
        total = hashlib.sha256()
        for part in (node.node_info, node.parameters, node.inputs):
            total.update(part.SerializeToString(deterministic=True))
        found[node.node_info.id] = total.hexdigest()
    return found
