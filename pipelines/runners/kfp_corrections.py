"""The one step between TFX's compiled pipeline and what open-source Kubeflow Pipelines runs.

    spec = correct(spec, bindings)          # a PipelineSpec as JSON, changed in place

Each function mends one thing and says why. `docs/kubeflow.md` lists what KFP
does with every part of the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.errors import ConfigError

Spec = dict[str, Any]

ENTRYPOINT = ("python", "-m", "pipelines.runners.kfp_entrypoint")
ROOT = "root"
INNER = "tfx-dag"
"""TFX's name for the DAG that an exit handler waits for."""

RESOLVED = "headrace-resolved:"
URI = "uri"
IMAGE, WORKSPACE = "image", "workspace"


@dataclass(frozen=True)
class Parameter:
    """A parameter of the pipeline.

    Attributes:
        kind: `STRING` or `NUMBER_INTEGER`.
        default: its value where a run gives none.
        description: for people.
    """

    kind: str
    default: str | int
    description: str


@dataclass(frozen=True)
class Bindings:
    """What the pipeline's parameters change.

    Attributes:
        parameters: name -> parameter of the pipeline.
        overrides: task -> (property and key in its JSON) -> parameter.
    """

    parameters: Mapping[str, Parameter]
    overrides: Mapping[str, Mapping[str, str]]


def correct(spec: Spec, bindings: Bindings) -> Spec:
    """Everything below, in the order in which it depends on each other."""
    producers(spec)
    values_as_parameters(spec)
    own_entry_point(spec)
    imported_by_uri(spec)
    pipeline_parameters(spec, bindings)
    inner_parameters(spec)
    default_caching(spec)
    return spec


def dags(spec: Spec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and tasks of every DAG; the root's name is `root`."""
    yield ROOT, spec["root"]["dag"]["tasks"]
    for name, component in spec["components"].items():
        if "dag" in component:
            yield name, component["dag"]["tasks"]


def tasks(spec: Spec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and task of every container or importer."""
    for _, inside in list(dags(spec)):
        for name, task in list(inside.items()):
            if "executorLabel" in spec["components"][task["componentRef"]["name"]]:
                yield name, task


def component_of(spec: Spec, task: Mapping[str, Any]) -> dict[str, Any]:
    return spec["components"][task["componentRef"]["name"]]


def executor_of(spec: Spec, task: Mapping[str, Any]) -> dict[str, Any]:
    return spec["deploymentSpec"]["executors"][component_of(spec, task)["executorLabel"]]


def producers(spec: Spec) -> None:
    """TFX names the producer of a parameter `<node>_task`, but the task is called `<node>`.

    KFP's compiler stops at it: unknown producer task in DAG.
    """
    for _, inside in dags(spec):
        for task in inside.values():
            for given in task.get("inputs", {}).get("parameters", {}).values():
                output = given.get("taskOutputParameter", {})
                name = output.get("producerTask", "")
                if name not in inside and name.removesuffix("_task") in inside:
                    output["producerTask"] = name.removesuffix("_task")


def values_as_parameters(spec: Spec) -> None:
    """Values are declared as parameters only where a node reads them; resolvers' always are.

    TFX sees no reader of a URI that goes to an importer (see `imported_by_uri`).
    """
    for _, task in tasks(spec):
        outputs = component_of(spec, task).get("outputDefinitions", {})
        for key, artifact in outputs.get("artifacts", {}).items():
            if "tfx.String" in artifact["artifactType"].get("instanceSchema", ""):
                outputs.setdefault("parameters", {})[key] = {"parameterType": "STRING"}


def own_entry_point(spec: Spec) -> None:
    """TFX's container entry point fails outside Vertex; ours takes what it lacks as arguments.

    It looks for an input's class in its type, which KFP leaves empty, reads
    minio:// and s3:// itself, for which TFX has no file system, and gives
    executors no run id. Types come from the component, folders from
    placeholders that KFP's launcher fills in.
    """
    for name, task in tasks(spec):
        container = executor_of(spec, task).get("container")
        if container is None:
            continue
        given = container["args"]
        executor = given[given.index("--executor_class_path") + 1]
        container["command"] = list(ENTRYPOINT)
        container["args"] = [
            *("--node", name, "--executor", executor, "--executor_input", "{{$}}"),
            *("--component", _definitions(component_of(spec, task))),
            *_paths(component_of(spec, task)),
            *_beam_args(given),
        ]


def _definitions(component: Mapping[str, Any]) -> str:
    """Input and output definitions as JSON: what the entry point needs of the component."""
    kept = {key: component[key] for key in ("inputDefinitions", "outputDefinitions") if key in component}
    return json.dumps(kept, sort_keys=True)


def _paths(component: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("inputs", "outputs"):
        for key in sorted(component.get(f"{kind[:-1]}Definitions", {}).get("artifacts", {})):
            yield "--path"
            yield f"{kind}.{key}={{{{$.{kind}.artifacts['{key}'].path}}}}"


def _beam_args(given: list[str]) -> list[str]:
    """What follows the last argument that TFX writes itself."""
    return given[given.index("--json_serialized_inputs_spec_args") + 2 :]


def imported_by_uri(spec: Spec) -> None:
    """An importer takes its URI from a parameter of the DAG it is in, not from another task.

    So it is put into a DAG of its own, whose parameter the resolver's output
    is. TFX's Importer knows constants only, which mark those that are meant.
    """
    for _, inside in list(dags(spec)):
        for name, task in list(inside.items()):
            label = spec["components"][task["componentRef"]["name"]].get("executorLabel")
            executor = spec["deploymentSpec"]["executors"].get(label, {})
            constant = executor.get("importer", {}).get("artifactUri", {}).get("constant", "")
            if str(constant).startswith(RESOLVED):
                inside[name] = _wrapped(spec, name, task, str(constant).removeprefix(RESOLVED))
                executor["importer"]["artifactUri"] = {"runtimeParameter": URI}


def _wrapped(spec: Spec, name: str, task: Mapping[str, Any], resolver: str) -> dict[str, Any]:
    inner = f"{name}-importer"
    component = spec["components"].pop(task["componentRef"]["name"])
    takes = {"parameters": {URI: {"parameterType": "STRING"}}}
    (output,) = component["outputDefinitions"]["artifacts"]
    spec["components"][inner] = {**component, "inputDefinitions": takes}
    spec["components"][name] = {
        "inputDefinitions": takes,
        "outputDefinitions": component["outputDefinitions"],
        "dag": {
            "tasks": {
                inner: {
                    "taskInfo": {"name": inner},
                    "componentRef": {"name": inner},
                    "inputs": {"parameters": {URI: {"componentInputParameter": URI}}},
                }
            },
            "outputs": {
                "artifacts": {
                    output: {"artifactSelectors": [{"producerSubtask": inner, "outputArtifactKey": output}]}
                }
            },
        },
    }
    source = {"taskOutputParameter": {"producerTask": resolver, "outputParameterKey": URI}}
    return {
        "taskInfo": {"name": name},
        "componentRef": {"name": name},
        "dependentTasks": [resolver],
        "inputs": {"parameters": {URI: source}},
    }


def pipeline_parameters(spec: Spec, bindings: Bindings) -> None:
    """Parameters get their defaults and reach what they change.

    TFX compiles no defaults into the spec, and knows parameters only as whole
    execution properties: not as images, nor as a key inside a property's JSON.
    """
    root = spec["root"].setdefault("inputDefinitions", {}).setdefault("parameters", {})
    for name, parameter in bindings.parameters.items():
        root[name] = {
            "parameterType": parameter.kind,
            "defaultValue": parameter.default,
            "isOptional": True,
            "description": parameter.description,
        }
    for name, task in tasks(spec):
        container = executor_of(spec, task).get("container")
        if container is None:
            continue
        _bind(spec, task, IMAGE, bindings)
        container["image"] = _placeholder(IMAGE)
        if "HEADRACE_WORKSPACE" in json.dumps(task):
            _bind(spec, task, WORKSPACE, bindings)
            container["args"] += ["--workspace", _placeholder(WORKSPACE)]
        for target, parameter_name in bindings.overrides.get(name, {}).items():
            _bind(spec, task, parameter_name, bindings)
            container["args"] += ["--override", f"{target}={_placeholder(parameter_name)}"]


def _placeholder(parameter: str) -> str:
    return f"{{{{$.inputs.parameters['{parameter}']}}}}"


def _bind(spec: Spec, task: dict[str, Any], parameter: str, bindings: Bindings) -> None:
    definitions = component_of(spec, task).setdefault("inputDefinitions", {}).setdefault("parameters", {})
    definitions[parameter] = {"parameterType": bindings.parameters[parameter].kind}
    inputs = task.setdefault("inputs", {}).setdefault("parameters", {})
    inputs[parameter] = {"componentInputParameter": parameter}


def inner_parameters(spec: Spec) -> None:
    """With an exit handler all tasks lie in an inner DAG, to which TFX hands on no parameter.

    KFP looks for a task's parameters in the DAG it is in, and finds none.
    """
    inner = spec["components"].get(INNER)
    if inner is None:
        return
    used = {
        given["componentInputParameter"]
        for task in inner["dag"]["tasks"].values()
        for given in task.get("inputs", {}).get("parameters", {}).values()
        if "componentInputParameter" in given
    }
    known = spec["root"]["inputDefinitions"]["parameters"]
    definitions = inner.setdefault("inputDefinitions", {}).setdefault("parameters", {})
    inputs = spec["root"]["dag"]["tasks"][INNER].setdefault("inputs", {}).setdefault("parameters", {})
    for name in sorted(used):
        definitions[name] = {"parameterType": known[name]["parameterType"]}
        inputs[name] = {"componentInputParameter": name}


def default_caching(spec: Spec) -> None:
    """Resolvers must look anew in every run: what they would be cached by does not change."""
    for name, task in tasks(spec):
        if name in ("ResolveData", "Baseline", "EarlierStatistics"):
            task["cachingOptions"] = {}


def check_names(nodes: Mapping[str, Any] | list[str], named: list[str], place: str) -> None:
    """Raises a ConfigError where a setting names a node that there is not."""
    from pipelines.errors import nearest

    for name in named:
        if name not in nodes:
            raise ConfigError(f"There is no node {name!r}", place=place, remedy=nearest(name, nodes))
