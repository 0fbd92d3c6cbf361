"""A compiled pipeline, read and refused as Kubeflow Pipelines' API server and compiler do.

    pipeline = load(text)           # SpecRefusedError says which part, and why

Follows what kubeflow/pipelines does before it starts anything: the template
reader (apiserver/template), the visitor (v2/compiler) and the Argo compiler
(v2/compiler/argocompiler). Where this runner can do less than a cluster
(loops), it refuses too; it accepts nothing that a cluster would not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from google.protobuf import json_format

from pipelines.errors import ConfigError

SCHEMA_VERSION = "2.1.0"
ROOT = "root"
EXIT_STRATEGY = "ALL_UPSTREAM_TASKS_COMPLETED"

_PIPELINE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ARGO_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]{0,127}")
_QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(([numkMGTPE]|[KMGTPE]i)|[eE][+-]?\d+)?")
_QUANTITIES = tuple(f"resource_{what}_{kind}" for what in ("cpu", "memory") for kind in ("limit", "request"))
PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\['(.+?)'\]")
"""A placeholder for an input parameter, as the driver finds one in an image or a resource."""


class SpecRefusedError(ConfigError):
    """Kubeflow Pipelines would not run this pipeline."""


def refuse(part: str, why: str, remedy: str = "") -> SpecRefusedError:
    """The error for one part of a pipeline."""
    return SpecRefusedError(
        f"Kubeflow Pipelines would refuse this pipeline: {why}", place=part, remedy=remedy
    )


@dataclass(frozen=True)
class Pipeline:
    """A pipeline that passed.

    Attributes:
        spec: PipelineSpec.
        executors: executor label -> ExecutorSpec.
        kubernetes: executor label -> KubernetesExecutorConfig.
    """

    spec: Any
    executors: Mapping[str, Any]
    kubernetes: Mapping[str, Any] = field(default_factory=dict)

    def component(self, name: str) -> Any:
        return self.spec.root if name == ROOT else self.spec.components[name]


def load(text: str) -> Pipeline:
    """Reads and checks a compiled pipeline.

    Raises:
        SpecRefusedError: Kubeflow Pipelines would refuse it, or this runner knows no way.
        ConfigError: the text is no YAML.
    """
    spec, platform = _documents(text)
    executors = _deployment(spec)
    pipeline = Pipeline(spec, executors, _kubernetes(platform))
    _check_info(spec)
    _Visit(pipeline).component(ROOT, spec.root, ())
    _check_shared_containers(pipeline)
    return pipeline


def _documents(text: str) -> tuple[Any, Any]:
    from kfp.pipeline_spec import pipeline_spec_pb2 as pb

    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise ConfigError(f"The pipeline is no YAML: {error}", place="pipeline file") from error
    found: dict[str, list[Any]] = {"spec": [], "platform": []}
    for document in documents:
        if not isinstance(document, dict):
            raise refuse("document", "a document holds no keys and values")
        if "pipelineInfo" in document or "pipeline_info" in document:
            found["spec"].append(_parse(document, pb.PipelineSpec(), "pipeline spec"))
        elif "platforms" in document:
            found["platform"].append(_parse(document, pb.PlatformSpec(), "platform spec"))
    for kind, items in found.items():
        if len(items) > 1:
            raise refuse(kind, f"there are {len(items)} {kind} documents")
    if not found["spec"]:
        raise refuse("document", "no pipeline spec is provided")
    return found["spec"][0], found["platform"][0] if found["platform"] else None


def _parse(document: dict[str, Any], message: Any, part: str) -> Any:
    try:
        return json_format.ParseDict(document, message)
    except json_format.ParseError as error:
        raise refuse(part, f"it does not follow the schema: {error}") from error


def _deployment(spec: Any) -> Mapping[str, Any]:
    from kfp.pipeline_spec import pipeline_spec_pb2 as pb

    raw = json_format.MessageToDict(spec.deployment_spec)
    try:
        # Unknown keys pass here, as in the backend.
        config = json_format.ParseDict(raw, pb.PipelineDeploymentConfig(), ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise refuse("deploymentSpec", f"it does not follow the schema: {error}") from error
    return dict(config.executors)


def _kubernetes(platform: Any) -> dict[str, Any]:
    from kfp.kubernetes import kubernetes_executor_config_pb2 as pb

    if platform is None or "kubernetes" not in platform.platforms:
        return {}
    found = {}
    for label, raw in platform.platforms["kubernetes"].deployment_spec.executors.items():
        config = _parse(json_format.MessageToDict(raw), pb.KubernetesExecutorConfig(), f"kubernetes, {label}")
        if config.image_pull_policy not in ("", "Always", "IfNotPresent", "Never"):
            raise refuse(f"kubernetes, {label}", f"imagePullPolicy is {config.image_pull_policy!r}")
        found[label] = config
    return found


def _check_info(spec: Any) -> None:
    if spec.schema_version != SCHEMA_VERSION:
        raise refuse(
            "schemaVersion", f"it reads {SCHEMA_VERSION} only. Received: {spec.schema_version or 'none'}"
        )
    if not spec.pipeline_info.name:
        raise refuse("pipelineInfo", "the name is empty")
    if not _PIPELINE_NAME.fullmatch(spec.pipeline_info.name):
        raise refuse(
            "pipelineInfo",
            f"a name has lower-case letters, digits, '-' and '.'. Received: {spec.pipeline_info.name!r}",
        )
    if not spec.HasField("root"):
        raise refuse("root", "the root component is empty")
    if ROOT in spec.components:
        raise refuse("components", "the component name 'root' is reserved")


class _Visit:
    """Depth first, as the backend's visitor; each component once."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._done: set[str] = set()

    def component(self, name: str, component: Any, path: tuple[str, ...]) -> None:
        if name in path:
            raise refuse(name, f"components refer to each other in a circle: {' -> '.join([*path, name])}")
        if name in self._done:
            return
        self._done.add(name)
        _check_artifact_types(name, component)
        kind = component.WhichOneof("implementation")
        if kind == "dag":
            self._dag(name, component, (*path, name))
        elif kind == "executor_label":
            self._executor(name, component)
        else:
            raise refuse(name, "the component has neither a DAG nor an executor")

    def _executor(self, name: str, component: Any) -> None:
        label = component.executor_label
        executor = self._pipeline.executors.get(label)
        if executor is None:
            raise refuse(name, f"the executor {label!r} is not in the deployment config")
        kind = executor.WhichOneof("spec")
        if kind == "container":
            _check_container(name, executor.container)
        elif kind == "importer":
            _check_importer(name, component, executor.importer)
        elif kind == "resolver":
            raise refuse(name, "resolvers are not implemented")
        elif kind == "custom_job":
            raise refuse(name, "custom jobs are Google Cloud's only")
        else:
            raise refuse(name, "neither a container nor an importer")

    def _dag(self, name: str, component: Any, path: tuple[str, ...]) -> None:
        tasks = component.dag.tasks
        for task_name, task in sorted(tasks.items()):
            part = f"{name}, task {task_name}"
            reference = task.component_ref.name
            if not reference:
                raise refuse(part, "it refers to no component")
            if reference not in self._pipeline.spec.components:
                raise refuse(part, f"there is no component {reference!r}")
            self.component(reference, self._pipeline.component(reference), path)
            _check_task(part, task_name, task, tasks, self._pipeline)
        if all(is_exit(task) for task in tasks.values()):
            raise refuse(name, "a DAG must have a task that is no exit handler")
        _check_no_circle(name, tasks)


def is_exit(task: Any) -> bool:
    """Whether a task is an exit handler: it runs when another has ended, however that ended."""
    return bool(task.trigger_policy.TriggerStrategy.Name(task.trigger_policy.strategy) == EXIT_STRATEGY)


def dependencies(task: Any) -> set[str]:
    """The tasks that must have succeeded: those it names, and those whose outputs it takes."""
    found = set(task.dependent_tasks)
    for given in task.inputs.parameters.values():
        if given.WhichOneof("kind") == "task_output_parameter":
            found.add(given.task_output_parameter.producer_task)
    for given in task.inputs.artifacts.values():
        if given.WhichOneof("kind") == "task_output_artifact":
            found.add(given.task_output_artifact.producer_task)
    return found


def _check_task(part: str, name: str, task: Any, tasks: Mapping[str, Any], pipeline: Pipeline) -> None:
    if not _ARGO_NAME.fullmatch(name):
        raise refuse(part, "Argo takes letters, digits and '-' in the name of a task")
    if task.HasField("artifact_iterator"):
        raise refuse(part, "artifact iterators are not implemented")
    if task.HasField("parameter_iterator"):
        raise SpecRefusedError(
            "This runner runs no loops (parameterIterator); a cluster would",
            place=part,
            remedy="Run the tasks one by one, or on a cluster.",
        )
    if not task.task_info.name:
        raise refuse(part, "the driver needs taskInfo.name")
    for producer in sorted(dependencies(task)):
        if producer not in tasks:
            raise refuse(part, f"unknown producer task {producer!r} in DAG")
    if is_exit(task) and not task.dependent_tasks:
        raise refuse(part, "an exit handler has no dependent task")
    _check_inputs(part, task, pipeline.component(task.component_ref.name))
    executor = pipeline.executors.get(pipeline.component(task.component_ref.name).executor_label)
    if executor is not None and executor.WhichOneof("spec") == "importer":
        if task.trigger_policy.condition:
            raise refuse(part, "a condition on an importer is not supported")
        _check_importer_uri(part, task, executor.importer)
    factor = task.retry_policy.backoff_factor
    if factor != int(factor):
        raise refuse(part, f"Argo takes whole back-off factors only. Received: {factor}")


def _check_inputs(part: str, task: Any, component: Any) -> None:
    for name, given in sorted(task.inputs.parameters.items()):
        kind = given.WhichOneof("kind")
        if kind is None:
            raise refuse(part, f"the parameter {name!r} has no source")
        if kind == "runtime_value":
            value = given.runtime_value.WhichOneof("value")
            if value != "constant":
                raise refuse(
                    part,
                    f"the parameter {name!r} is given as {value}, which is not implemented (constant is)",
                )
        if given.parameter_expression_selector:
            raise SpecRefusedError(
                "This runner evaluates no parameterExpressionSelector; a cluster would",
                place=f"{part}, {name}",
            )
    definitions = component.input_definitions
    for name, declared in sorted(definitions.parameters.items()):
        missing = name not in task.inputs.parameters
        if missing and not declared.is_optional and not declared.HasField("default_value"):
            raise refuse(part, f"neither a value nor a default for the parameter {name!r}")
    for name, artifact in sorted(definitions.artifacts.items()):
        if name not in task.inputs.artifacts and not artifact.is_optional:
            raise refuse(part, f"no source for the input artifact {name!r}")


def _check_container(name: str, container: Any) -> None:
    if not container.image:
        raise refuse(name, "the container has no image")
    if not container.command and not container.args:
        raise refuse(name, "command and arguments are empty")
    if container.HasField("lifecycle"):
        raise refuse(
            name,
            "lifecycle.pre_cache_check is Vertex's; open-source Kubeflow leaves it out without a word",
            "Do what it does in a container of its own.",
        )
    resources = container.resources
    for key in _QUANTITIES:
        value = getattr(resources, key)
        if value and not PARAMETER.search(value) and not _QUANTITY.fullmatch(value):
            raise refuse(name, f"{key} is no quantity. Received: {value!r}")
    accelerator = resources.accelerator
    if accelerator.type and not accelerator.resource_type and "/" not in accelerator.type:
        raise refuse(
            name,
            f"the accelerator type {accelerator.type!r} would be asked for as a resource of that name",
            "Give accelerator.resourceType, such as nvidia.com/gpu, and the type as a node selector.",
        )


def _check_importer(name: str, component: Any, importer: Any) -> None:
    if len(component.output_definitions.artifacts) != 1:
        raise refuse(name, "an importer has exactly one output artifact")
    kind = importer.artifact_uri.WhichOneof("value")
    if kind not in ("constant", "runtime_parameter"):
        raise refuse(name, f"the artifact's URI is given as {kind}")
    if kind == "constant" and not importer.artifact_uri.constant.string_value:
        raise refuse(name, "the artifact's URI is empty")


def _check_importer_uri(part: str, task: Any, importer: Any) -> None:
    name = importer.artifact_uri.runtime_parameter
    if not name:
        return
    given = task.inputs.parameters.get(name)
    if given is None or given.WhichOneof("kind") != "component_input_parameter":
        raise refuse(
            part,
            f"an importer's URI ({name!r}) must be a parameter of its DAG, not another task's output",
            "Put the importer into a DAG of its own that takes the URI as its parameter.",
        )


def _check_artifact_types(name: str, component: Any) -> None:
    groups = (component.input_definitions.artifacts, component.output_definitions.artifacts)
    for key, artifact in [item for group in groups for item in group.items()]:
        kind = artifact.artifact_type.WhichOneof("kind")
        if kind == "schema_uri":
            raise refuse(f"{name}, {key}", "a type by schemaUri is not supported")
        if kind is None:
            raise refuse(f"{name}, {key}", "the artifact has no type")
        if kind == "instance_schema" and not _title(artifact.artifact_type.instance_schema):
            raise refuse(f"{name}, {key}", "the artifact's schema has no title")


def _title(schema: str) -> str:
    read = yaml.safe_load(schema)
    return str(read.get("title", "")) if isinstance(read, dict) else ""


def _check_no_circle(name: str, tasks: Mapping[str, Any]) -> None:
    waiting = {task: dependencies(spec) for task, spec in tasks.items()}
    while waiting:
        ready = [task for task, needed in waiting.items() if not needed & waiting.keys()]
        if not ready:
            raise refuse(name, f"tasks wait for each other: {', '.join(sorted(waiting))}")
        for task in ready:
            del waiting[task]


def _check_shared_containers(pipeline: Pipeline) -> None:
    """The compiler keeps component specs by their container's hash, so only one of two alike survives."""
    seen: dict[bytes, str] = {}
    for name, component in _with_containers(pipeline):
        container = pipeline.executors[component.executor_label].container
        key = container.SerializeToString(deterministic=True)
        other = seen.setdefault(key, name)
        if other != name and _interface(pipeline.component(other)) != _interface(component):
            raise refuse(
                f"{other}, {name}",
                "two components run the same container with different inputs or outputs; "
                "it would keep one of the two definitions for both",
                "Give one of them another argument.",
            )


def _with_containers(pipeline: Pipeline) -> Iterator[tuple[str, Any]]:
    for name, component in sorted(pipeline.spec.components.items()):
        executor = pipeline.executors.get(component.executor_label)
        if executor is not None and executor.WhichOneof("spec") == "container":
            yield name, component


def _interface(component: Any) -> tuple[bytes, bytes]:
    return (
        component.input_definitions.SerializeToString(deterministic=True),
        component.output_definitions.SerializeToString(deterministic=True),
    )
