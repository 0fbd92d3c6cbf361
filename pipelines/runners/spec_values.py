"""Parameters and placeholders, resolved as Kubeflow Pipelines' driver and launcher do.

    values = runtime_parameters(pipeline, {"epochs": "3"})
    inputs = task_parameters(task, component, scope, run)
    command = fill(["python", "{{$.inputs.parameters['x']}}"], placeholders(executor_input, local_path))

Values are JSON's; numbers are floats, as in the backend.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from google.protobuf import json_format

from pipelines.errors import ConfigError, nearest
from pipelines.runners.spec_load import PARAMETER, Pipeline, SpecRefusedError, refuse

_KINDS = {
    "NUMBER_DOUBLE": (int, float),
    "NUMBER_INTEGER": (int, float),
    "STRING": (str,),
    "BOOLEAN": (bool,),
    "LIST": (list,),
    "STRUCT": (dict,),
    "TASK_FINAL_STATUS": (dict,),
}


class ResolutionError(Exception):
    """The driver could not resolve a task's inputs; on a cluster the run fails there."""


class NullParameterError(ResolutionError):
    """A parameter of the DAG has no value; allowed where the task's own is optional."""


@dataclass(frozen=True)
class RunInfo:
    """What placeholders of a run stand for.

    Attributes:
        run_id: the run's id.
        name: its display name.
        created: ISO time, UTC.
    """

    run_id: str
    name: str
    created: str


@dataclass(frozen=True)
class Scope:
    """What a task of one DAG can refer to.

    Attributes:
        parameters: of the DAG.
        artifacts: of the DAG: key -> runtime artifacts as JSON.
        output_parameter: (task, key) -> value.
        output_artifact: (task, key) -> runtime artifacts.
        final_state: task -> MLMD's state of its execution.
    """

    parameters: Mapping[str, Any]
    artifacts: Mapping[str, list[dict[str, Any]]]
    output_parameter: Callable[[str, str], Any]
    output_artifact: Callable[[str, str], list[dict[str, Any]]]
    final_state: Callable[[str], str]


def type_name(number: int) -> str:
    """`STRING`, `NUMBER_INTEGER` and so on."""
    from kfp.pipeline_spec import pipeline_spec_pb2 as pb

    return str(pb.ParameterType.ParameterTypeEnum.Name(number))


def plain(value: Any) -> Any:
    """A google.protobuf.Value as JSON; numbers as floats."""
    found = json_format.MessageToDict(value)
    return float(found) if isinstance(found, int) and not isinstance(found, bool) else found


def runtime_parameters(pipeline: Pipeline, given: Mapping[str, Any]) -> dict[str, Any]:
    """The pipeline's parameters: those given, then defaults.

    Text from a command line is read as the parameter's type.

    Raises:
        ConfigError: an unknown name, a missing value, or one of another type.
    """
    declared = pipeline.spec.root.input_definitions.parameters
    for name in given:
        if name not in declared:
            raise ConfigError(
                f"The pipeline has no parameter {name!r}", place="parameters", remedy=nearest(name, declared)
            )
    found: dict[str, Any] = {}
    for name, parameter in declared.items():
        kind = type_name(parameter.parameter_type)
        if kind not in _KINDS:
            raise refuse(f"root, {name}", "the parameter has an unspecified type")
        if name in given:
            found[name] = _of_kind(name, kind, given[name])
        elif parameter.HasField("default_value"):
            found[name] = plain(parameter.default_value)
        elif parameter.is_optional:
            found[name] = None
        else:
            raise ConfigError(
                f"The parameter {name!r} has neither a value nor a default",
                place="parameters",
                remedy=f"Give it: --parameter {name}=VALUE.",
            )
    return found


def _of_kind(name: str, kind: str, value: Any) -> Any:
    if isinstance(value, str) and kind != "STRING":
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ConfigError(f"Expected {kind}. Received: {name}={value!r}", place="parameters") from error
    wrong = not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "BOOLEAN")
    if wrong or (kind == "NUMBER_INTEGER" and float(value) != int(value)):
        raise ConfigError(f"Expected {kind}. Received: {name}={value!r}", place="parameters")
    return float(value) if kind.startswith("NUMBER") else value


def task_parameters(task: Any, component: Any, scope: Scope, run: RunInfo) -> dict[str, Any]:
    """A task's input parameters, as the driver hands them to the launcher.

    Raises:
        ResolutionError: a value is missing or of another type.
    """
    declared = component.input_definitions.parameters
    found: dict[str, Any] = {}
    for name, given in sorted(task.inputs.parameters.items()):
        try:
            value = _parameter(name, given, task, scope, run)
        except NullParameterError:
            if name in declared and declared[name].is_optional:
                continue  # the launcher fills in the component's default
            raise
        literals = [plain(item) for item in declared[name].literals] if name in declared else []
        if literals and value not in literals:
            raise ResolutionError(f"the parameter {name!r} must be one of {literals}. Received: {value!r}")
        found[name] = value
    return {**found, **_checked(found, declared)}


def _parameter(name: str, given: Any, task: Any, scope: Scope, run: RunInfo) -> Any:
    kind = given.WhichOneof("kind")
    if kind == "component_input_parameter":
        source = given.component_input_parameter
        if source not in scope.parameters:
            raise ResolutionError(f"parent DAG does not have input parameter {source!r} (for {name!r})")
        if scope.parameters[source] is None:
            raise NullParameterError(f"the parameter {source!r} of the parent DAG is null (for {name!r})")
        return scope.parameters[source]
    if kind == "task_output_parameter":
        output = given.task_output_parameter
        return scope.output_parameter(output.producer_task, output.output_parameter_key)
    if kind == "task_final_status":
        producer = task.dependent_tasks[0]
        return {
            "state": scope.final_state(producer),
            "pipelineJobResourceName": run.name,
            "pipelineTaskName": producer,
            "error": {},
        }
    return _constant(plain(given.runtime_value.constant), task, run)


def _constant(value: Any, task: Any, run: RunInfo) -> Any:
    """A constant; some that are placeholders as a whole stand for what the run is."""
    known = {
        "{{$.pipeline_job_name}}": run.name,
        "{{$.pipeline_job_resource_name}}": run.name,
        "{{$.pipeline_job_uuid}}": run.run_id,
        "{{$.pipeline_task_name}}": task.task_info.name,
        "{{$.pipeline_job_create_time_utc}}": run.created,
        "{{$.pipeline_job_schedule_time_utc}}": run.created,
    }
    return known.get(value, value) if isinstance(value, str) else value


def _checked(values: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Types as declared; everything may be read as text, nothing else is converted."""
    found: dict[str, Any] = {}
    for name, parameter in declared.items():
        if name not in values:
            continue
        kind, value = type_name(parameter.parameter_type), values[name]
        if kind == "STRING":
            found[name] = text_of(value)
        elif not isinstance(value, _KINDS.get(kind, ())) or (isinstance(value, bool) and kind != "BOOLEAN"):
            raise ResolutionError(
                f"input parameter {name!r} type mismatch: expect {kind}, got {type(value).__name__}"
            )
    return found


def text_of(value: Any) -> str:
    """A value as text: numbers as Go writes them without an exponent, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        if not math.isfinite(value):
            return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
        text = format(Decimal(repr(float(value))), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def from_text(text: str, kind: str) -> Any:
    """The value in a file that a container wrote for an output parameter.

    Raises:
        ResolutionError: the text is not of the declared type.
    """
    wrong = ResolutionError(f"an output parameter is not of type {kind}. Received: {text[:80]!r}")
    try:
        if kind == "STRING":
            return text
        if kind == "NUMBER_INTEGER":
            return float(int(text.strip()))
        if kind == "NUMBER_DOUBLE":
            return float(text.strip())
        if kind == "BOOLEAN":
            return {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}[
                text.strip().lower()
            ]
        value = json.loads(text)
    except (ValueError, KeyError) as error:
        raise wrong from error
    if not isinstance(value, _KINDS[kind]):
        raise wrong
    return value


def with_defaults(executor_input: Mapping[str, Any], component: Any) -> dict[str, Any]:
    """Executor input with the component's defaults for parameters that have no value."""
    copied: dict[str, Any] = json.loads(json.dumps(executor_input))
    values = copied["inputs"].setdefault("parameterValues", {})
    for name, parameter in component.input_definitions.parameters.items():
        if parameter.HasField("default_value") and name not in values:
            values[name] = plain(parameter.default_value)
    return copied


def placeholders(executor_input: Mapping[str, Any], local_path: Callable[[str], str]) -> dict[str, str]:
    """Every placeholder that the launcher replaces, and what it stands for.

    Args:
        executor_input: as JSON.
        local_path: URI -> where the launcher copies it to or from.
    """
    found = {"{{$}}": json.dumps(executor_input, separators=(",", ":"))}
    for kind in ("inputs", "outputs"):
        for name, items in executor_input[kind].get("artifacts", {}).items():
            for artifact in items.get("artifacts", [])[:1]:
                key = f"{{{{$.{kind}.artifacts['{name}']"
                found[f"{key}.uri}}}}"] = artifact["uri"]
                found[f"{key}.path}}}}"] = local_path(artifact["uri"])
    for name, value in executor_input["inputs"].get("parameterValues", {}).items():
        found[f"{{{{$.inputs.parameters['{name}']}}}}"] = text_of(value)
    for name, output in executor_input["outputs"].get("parameters", {}).items():
        found[f"{{{{$.outputs.parameters['{name}'].output_file}}}}"] = output["outputFile"]
    return found


def fill(arguments: Sequence[str], known: Mapping[str, str], part: str) -> list[str]:
    """Arguments with placeholders replaced.

    Raises:
        SpecRefusedError: a value holds another placeholder. The launcher replaces
            them in the random order of a Go map, so what comes out would be luck.
    """
    used = {key: value for key, value in known.items() if any(key in text for text in arguments)}
    for key, value in used.items():
        inside = next((other for other in known if other != key and other in value), None)
        if inside is not None:
            raise SpecRefusedError(
                f"The value of {key} holds the placeholder {inside}; "
                "Kubeflow replaces them in no certain order",
                place=part,
                remedy="Pass the value as a parameter of its own.",
            )
    filled = list(arguments)
    for key, value in used.items():
        filled = [text.replace(key, value) for text in filled]
    return filled


def image_of(container: Any, parameters: Mapping[str, Any], part: str) -> str:
    """The image's name; a parameter of the task may stand for it."""
    match = PARAMETER.search(container.image)
    if match is None:
        return str(container.image)
    if match[1] not in parameters:
        raise refuse(part, f"the image is the parameter {match[1]!r}, which the task does not have")
    value = parameters[match[1]]
    if not isinstance(value, str) or not value:
        raise refuse(part, f"the image is the parameter {match[1]!r}, which is no text. Received: {value!r}")
    return value
