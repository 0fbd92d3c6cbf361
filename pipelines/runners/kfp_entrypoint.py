"""The command of every container that Kubeflow Pipelines starts for a node.

    python -m pipelines.runners.kfp_entrypoint --executor CLASS --executor_input '{{$}}' \\
        --component '{...}' --path inputs.model=/minio/... --path outputs.blessing=/minio/...

TFX has an entry point of its own, for Vertex. It asks each input for its type,
which open-source KFP leaves empty, and reads object stores itself by URI,
where KFP's launcher copies inputs to a local folder and outputs from one. This
one takes types from the component and folders from placeholders. It writes what
Kubeflow's backend does not record (costs, figures, surroundings) into the
metadata of the node's output artifacts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines import errors
from pipelines.runners.costs import Meter
from pipelines.runners.kfp_facts import FACTS

if TYPE_CHECKING:
    from tfx import types

WORKSPACE = "$HEADRACE_WORKSPACE"

ArtifactDict = dict[str, list["types.Artifact"]]


@dataclass(frozen=True)
class Call:
    """What one container is asked to do.

    Attributes:
        node: task name.
        executor: dotted path of the executor's class.
        executor_input: KFP's ExecutorInput, as JSON.
        component: KFP's ComponentSpec of the node, as JSON: input and output definitions.
        paths: `inputs.<key>` or `outputs.<key>` -> the launcher's local path.
        overrides: `<property>:<key.in.its.JSON>` -> value.
        workspace: folder that `$HEADRACE_WORKSPACE` stands for.
        beam_args: options for Beam components.
    """

    node: str
    executor: str
    executor_input: Mapping[str, Any]
    component: Mapping[str, Any]
    paths: Mapping[str, str]
    overrides: Mapping[str, str]
    workspace: str
    beam_args: Sequence[str]


def parse(arguments: Sequence[str]) -> Call:
    """The call that a command line describes; unknown arguments are Beam's."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.runners.kfp_entrypoint",
        description="Runs one node of a compiled pipeline inside a Kubeflow Pipelines container.",
        allow_abbrev=False,
    )
    parser.add_argument("--node", required=True, help="The task's name.")
    parser.add_argument("--executor", required=True, help="Dotted path of the executor's class.")
    parser.add_argument("--executor_input", required=True, help="KFP's ExecutorInput as JSON.")
    parser.add_argument("--component", required=True, help="KFP's ComponentSpec as JSON.")
    parser.add_argument("--path", action="append", default=[], metavar="KEY=PATH", help="Of an artifact.")
    parser.add_argument("--override", action="append", default=[], metavar="PROPERTY:KEY=VALUE")
    parser.add_argument("--workspace", default="", help="Folder for serving, checkpoints and data.")
    known, beam_args = parser.parse_known_args(list(arguments))
    return Call(
        node=known.node,
        executor=known.executor,
        executor_input=json.loads(known.executor_input),
        component=json.loads(known.component),
        paths=dict(item.split("=", 1) for item in known.path),
        overrides=dict(item.split("=", 1) for item in known.override),
        workspace=known.workspace,
        beam_args=beam_args,
    )


def exec_properties(call: Call) -> dict[str, Any]:
    """Execution properties as executors take them.

    Kubeflow knows numbers only; integers are those that the component declares.
    Pipeline parameters are put where they belong inside JSON properties.
    """
    declared = call.component.get("inputDefinitions", {}).get("parameters", {})
    given = call.executor_input.get("inputs", {}).get("parameterValues", {})
    found: dict[str, Any] = {}
    for name, value in given.items():
        kind = declared.get(name, {}).get("parameterType")
        found[name] = int(value) if kind == "NUMBER_INTEGER" else value
        if isinstance(found[name], str):
            found[name] = found[name].replace(WORKSPACE, call.workspace)
    for target, text in call.overrides.items():
        name, _, key = target.partition(":")
        found[name] = _with_key(str(found[name]), key.split("."), text)
    return found


def _with_key(document: str, keys: Sequence[str], text: str) -> str:
    """A JSON document with one value replaced, which is read as the type it had."""
    root = json.loads(document)
    *parents, last = keys
    target = root
    for parent in parents:
        target = target[parent]
    target[last] = type(target[last])(float(text)) if isinstance(target[last], (int, float)) else text
    return json.dumps(root)


def run_id(call: Call) -> str:
    """The run's id, from where KFP puts outputs: `<root>/<pipeline>/<run>/<task>/...`.

    The placeholder for it would be a parameter, and with it a part of the cache key.
    """
    for artifact in _outputs(call).values():
        parts = artifact["artifacts"][0]["uri"].split("/")
        if call.node in parts:
            return str(parts[len(parts) - parts[::-1].index(call.node) - 2])
    return ""


def _outputs(call: Call) -> Mapping[str, Any]:
    """Output artifacts that the component declares; KFP adds one for logs."""
    declared = call.component.get("outputDefinitions", {}).get("artifacts", {})
    given = call.executor_input.get("outputs", {}).get("artifacts", {})
    return {key: value for key, value in given.items() if key in declared}


def artifacts(call: Call, kind: str, given: Mapping[str, Any]) -> ArtifactDict:
    """Artifacts as executors take them: local paths, and types from the component.

    Args:
        call: of this container.
        kind: `inputs` or `outputs`.
        given: key -> KFP's ArtifactList, as JSON.
    """
    from pipelines.runners import kfp_artifacts
    from pipelines.runners.kfp_executors import KFP_URI

    definitions = call.component.get(f"{kind[:-1]}Definitions", {}).get("artifacts", {})
    found: ArtifactDict = {}
    for key, items in given.items():
        title = kfp_artifacts.title_of(definitions[key]["artifactType"])
        found[key] = []
        for runtime in items.get("artifacts", []):
            if kfp_artifacts.is_nothing(runtime):
                continue
            artifact = kfp_artifacts.from_runtime(runtime, title, call.paths[f"{kind}.{key}"])
            if kind == "inputs":
                artifact.set_string_custom_property(KFP_URI, runtime["uri"])
            found[key].append(artifact)
    return found


def run(call: Call) -> None:
    """Runs the executor and writes KFP's ExecutorOutput.

    Raises:
        Exception: whatever the executor raises.
    """
    from tfx.orchestration.portable import outputs_utils
    from tfx.utils import import_utils

    from components import beam_worker

    meter = Meter()
    beam_worker.prepare()
    inputs = artifacts(call, "inputs", call.executor_input.get("inputs", {}).get("artifacts", {}))
    outputs = artifacts(call, "outputs", _outputs(call))
    properties = exec_properties(call)
    _make_places(outputs)
    executor = import_utils.import_class_by_path(call.executor)
    with tempfile.TemporaryDirectory(prefix="headrace-") as scratch:
        executor(_context(executor, call, scratch)).Do(inputs, outputs, properties)
    outputs_utils.tag_output_artifacts_with_version(outputs)
    _write_output(call, outputs, _facts(call, inputs, outputs, properties, meter))


def _make_places(outputs: ArtifactDict) -> None:
    """The launcher makes the parents; executors expect folders, but for values, which are files."""
    from tfx.types import value_artifact

    for items in outputs.values():
        for artifact in items:
            path = Path(artifact.uri)
            folder = path.parent if isinstance(artifact, value_artifact.ValueArtifact) else path
            folder.mkdir(parents=True, exist_ok=True)


def _context(executor: type, call: Call, scratch: str) -> Any:
    from tfx.dsl.components.base import base_beam_executor, base_executor

    from pipelines.runners.beam_pipelines import DEFAULTS, pipeline_maker

    common = {"tmp_dir": scratch, "unique_id": call.node, "pipeline_run_id": run_id(call)}
    if issubclass(executor, base_beam_executor.BaseBeamExecutor):
        make = pipeline_maker([*DEFAULTS, *call.beam_args])
        return base_beam_executor.BaseBeamExecutor.Context(make_beam_pipeline_fn=make, **common)
    return base_executor.BaseExecutor.Context(**common)


def _facts(
    call: Call, inputs: ArtifactDict, outputs: ArtifactDict, properties: dict[str, Any], meter: Meter
) -> dict[str, Any]:
    """What a local runner writes to the execution."""
    from pipelines.lineage import record
    from pipelines.lineage.records import NodeRecord

    node = NodeRecord(call.node, 0, "complete", properties, _records(inputs), _records(outputs))
    costs = meter.costs()
    return {**record.surroundings(), **costs, **record.facts(node, costs["wall_s"])}


def _records(items: ArtifactDict) -> dict[str, list[Any]]:
    from pipelines.lineage.records import ArtifactRecord
    from pipelines.runners.kfp_artifacts import metadata_of

    return {
        key: [ArtifactRecord(0, found.type_name, found.uri, metadata_of(found)) for found in artifacts]
        for key, artifacts in items.items()
    }


def _write_output(call: Call, outputs: ArtifactDict, facts: Mapping[str, Any]) -> None:
    """Writes the file that the launcher reads; URIs stay what KFP made them."""
    from tfx.types import value_artifact

    from pipelines.runners.kfp_artifacts import metadata_of

    given, values = _outputs(call), {}
    listed: dict[str, Any] = {}
    wanted = call.executor_input["outputs"].get("parameters", {})
    for key, (artifact,) in outputs.items():
        metadata = {name: _outside(call, name, value) for name, value in metadata_of(artifact).items()}
        metadata[FACTS] = json.dumps(facts, sort_keys=True)
        runtime = given[key]["artifacts"][0]
        listed[key] = {"artifacts": [{"uri": runtime["uri"], "metadata": metadata}]}
        if key in wanted and isinstance(artifact, value_artifact.ValueArtifact):
            values[key] = artifact.read()
    path = Path(call.executor_input["outputs"]["outputFile"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"artifacts": listed, "parameterValues": values}))


def _outside(call: Call, key: str, value: Any) -> Any:
    """A property as it is understood outside of this container: by URIs, not paths, and names, not ids."""
    if not isinstance(value, str):
        return _named(call, value) if key.endswith("_id") else value
    for kind in ("inputs", "outputs"):
        for key, items in call.executor_input.get(kind, {}).get("artifacts", {}).items():
            path = call.paths.get(f"{kind}.{key}")
            for runtime in items.get("artifacts", []):
                value = value.replace(path, runtime["uri"]) if path else value
    return value


def _named(call: Call, value: Any) -> Any:
    """The name of the input that TFX gave this id; Vertex's resolvers look for it. Open-source ids stay."""
    from pipelines.runners.kfp_artifacts import id_of

    for items in call.executor_input.get("inputs", {}).get("artifacts", {}).values():
        for runtime in items.get("artifacts", []):
            name = str(runtime.get("name", ""))
            if name and not name.isdigit() and id_of(name) == value:
                return name
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point: 0, or 1 with the error's headline, place and remedy on standard error."""
    call = parse(sys.argv[1:] if arguments is None else arguments)
    began = time.time()
    try:
        run(call)
    except Exception as error:
        fields = errors.user_fields(error)
        if fields is None:
            raise
        for label, text in fields.items():
            print(f"{label}: {text}", file=sys.stderr)
        return 1
    print(f"headrace: {call.node} ended after {time.time() - began:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    import os

    # TensorFlow's libraries have crashed in the interpreter's shutdown.
    os._exit(code)
