"""One task of one DAG: what Kubeflow's driver resolves, and what is then run.

outcome = Step(surroundings, name, path, task, parent, scope).leaf()
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from pipelines.runners import spec_conditions, spec_records, spec_values
from pipelines.runners.spec_container import Container, ContainerFailedError, Place, Retry, container_root
from pipelines.runners.spec_load import Pipeline
from pipelines.runners.spec_records import Records
from pipelines.runners.spec_store import local_path
from pipelines.runners.spec_values import ResolutionError, RunInfo, Scope
from pipelines.runners.spec_warm import Process

SUCCEEDED, SKIPPED, FAILED, OMITTED = "succeeded", "skipped", "failed", "omitted"


@dataclass
class TaskOutcome:
    """How a task ended.

    Attributes:
        state: `succeeded`, `skipped` (a condition), `failed`, `omitted` (behind one of these).
        cached: whether outputs were taken over.
        parameters: output parameters.
        artifacts: output key -> runtime artifacts as JSON.
        execution_id: MLMD's; 0 where there is none.
        attempts: how often its container was started.
        error: why it failed.
    """

    state: str
    cached: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    execution_id: int = 0
    attempts: int = 0
    error: str = ""


Artifacts = Mapping[str, list[dict[str, Any]]]
"""Key -> runtime artifacts, as JSON."""


@dataclass(frozen=True)
class Surroundings:
    """What all steps of a run share.

    Attributes:
        pipeline: what is run.
        info: the run's names.
        place: its folders.
        records: its metadata.
        root_uri: where its artifacts go.
        cache: whether earlier outputs count.
        sleep: waits between retries.
        slot: held while a container runs.
        start: starts a container's command.
        stopped: whether the run was ended from outside.
        run_dag: runs a DAG inside a DAG: component, path, execution, parameters, artifacts.
    """

    pipeline: Pipeline
    info: RunInfo
    place: Place
    records: Records
    root_uri: str
    cache: bool
    sleep: Callable[[float], None]
    slot: Any
    start: Callable[[Sequence[str], Path, Mapping[str, str], Path], Process]
    stopped: Callable[[], bool]
    run_dag: Callable[[str, str, int, Mapping[str, Any], Artifacts], tuple[str, dict[str, TaskOutcome]]]


class Step:
    """One task of one DAG: what the driver resolves, and what is then run."""

    def __init__(self, run: Surroundings, name: str, path: str, task: Any, parent: int, scope: Scope) -> None:
        self._run, self._name, self._path = run, name, path
        self._task, self._parent = task, parent
        component = self._component = run.pipeline.component(task.component_ref.name)
        self._scope = scope
        self._parameters = spec_values.task_parameters(task, component, scope, run.info)
        self._artifacts = {key: self._artifact(given) for key, given in task.inputs.artifacts.items()}

    def _artifact(self, given: Any) -> list[dict[str, Any]]:
        if given.WhichOneof("kind") == "component_input_artifact":
            key = given.component_input_artifact
            if key not in self._scope.artifacts:
                raise ResolutionError(f"parent DAG does not have input artifact {key!r}")
            return [
                {name: value for name, value in item.items() if name != "type"}
                for item in self._scope.artifacts[key]
            ]
        output = given.task_output_artifact
        found = self._scope.output_artifact(output.producer_task, output.output_artifact_key)
        # The store does not know the schema it was written with; the driver fills in an empty one.
        return [{**item, "type": {"instanceSchema": ""}} for item in found]

    def _triggered(self) -> bool:
        condition = self._task.trigger_policy.condition
        return not condition or spec_conditions.holds(condition, {"inputs": self._inputs()})

    def _inputs(self) -> dict[str, Any]:
        listed = {key: {"artifacts": items} for key, items in self._artifacts.items()}
        return {"parameterValues": dict(self._parameters), "artifacts": listed}

    def _ids(self) -> dict[str, list[int]]:
        return {key: [int(item["name"]) for item in items] for key, items in self._artifacts.items()}

    def _create(self, kind: str, **extra: str | int) -> int:
        return self._run.records.create(
            kind, self._name, self._parent, self._parameters, self._ids(), extra=extra
        )

    def dag(self) -> TaskOutcome:
        """A DAG in a DAG."""
        if not self._triggered():
            return self._skip(spec_records.DAG)
        parameters = {**self._dag_defaults(), **self._parameters}
        execution = self._create(spec_records.DAG, total_dag_tasks=len(self._component.dag.tasks))
        state, ended = self._run.run_dag(
            self._task.component_ref.name, self._path, execution, parameters, self._artifacts
        )
        self._run.records.publish(execution, mlmd_state(state))
        outputs = self._component.dag.outputs
        found = TaskOutcome(state, execution_id=execution)
        if state == SUCCEEDED:
            found.parameters = {key: _selected(ended, spec) for key, spec in outputs.parameters.items()}
            found.artifacts = {
                key: output_of(
                    ended,
                    spec.artifact_selectors[-1].producer_subtask,
                    spec.artifact_selectors[-1].output_artifact_key,
                    "artifacts",
                )
                for key, spec in outputs.artifacts.items()
            }
        return found

    def _dag_defaults(self) -> dict[str, Any]:
        declared = self._component.input_definitions.parameters
        return {
            name: spec_values.plain(parameter.default_value) if parameter.HasField("default_value") else None
            for name, parameter in declared.items()
            if parameter.is_optional or parameter.HasField("default_value")
        }

    def _skip(self, kind: str) -> TaskOutcome:
        execution = self._run.records.create(
            kind, self._name, self._parent, self._parameters, self._ids(), state=spec_records.CANCELED
        )
        return TaskOutcome(SKIPPED, execution_id=execution)

    def leaf(self) -> TaskOutcome:
        """A container or an importer."""
        executor = self._run.pipeline.executors[self._component.executor_label]
        if executor.WhichOneof("spec") == "importer":
            return self._import(executor.importer)
        if not self._triggered():
            return self._skip(spec_records.CONTAINER)
        return self._container(executor.container)

    def _import(self, importer: Any) -> TaskOutcome:
        uri = self._imported_uri(importer)
        local_path(Path("/"), uri)
        schema = _schema(importer.type_schema)
        execution = self._create(spec_records.IMPORTER)
        metadata = json_format.MessageToDict(importer.metadata)
        artifact = self._run.records.import_artifact(schema, uri, metadata, reimport=importer.reimport)
        (key,) = self._component.output_definitions.artifacts
        ids = {key: [int(artifact["name"])]}
        self._run.records.publish(execution, spec_records.COMPLETE, None, ids)
        return TaskOutcome(SUCCEEDED, artifacts={key: [artifact]}, execution_id=execution)

    def _imported_uri(self, importer: Any) -> str:
        name = importer.artifact_uri.runtime_parameter
        if not name:
            return str(importer.artifact_uri.constant.string_value)
        source = self._task.inputs.parameters[name].component_input_parameter
        uri = self._scope.parameters.get(source)
        if not isinstance(uri, str) or not uri:
            raise ResolutionError(f"empty artifact URI runtime value for parameter {name!r}")
        return uri

    def _container(self, container: Any) -> TaskOutcome:
        kubernetes = self._run.pipeline.kubernetes.get(self._component.executor_label)
        image = spec_values.image_of(container, self._parameters, self._path)
        executor_input = {"inputs": self._inputs(), "outputs": self._outputs()}
        key = _cache_key(executor_input, self._component, container, kubernetes)
        caches = self._task.caching_options.enable_cache and self._run.cache
        cached = self._run.records.find_cached(key) if caches else None
        extra: dict[str, str | int] = {"image": image, "pod_name": "", "pod_uid": "", "namespace": "local"}
        if caches:
            extra["cache_fingerprint"] = key
        if cached is not None:
            extra["cached_execution_id"] = str(cached.execution_id)
        execution = self._create(spec_records.CONTAINER, **extra)
        if cached is not None:
            return self._reuse(execution, cached)
        return self._launch(execution, container, kubernetes, executor_input)

    def _reuse(self, execution: int, cached: spec_records.Cached) -> TaskOutcome:
        ids = {key: [int(item["name"]) for item in items] for key, items in cached.artifacts.items()}
        self._run.records.publish(execution, spec_records.CACHED, cached.parameters, ids)
        return TaskOutcome(SUCCEEDED, True, cached.parameters, cached.artifacts, execution)

    def _outputs(self) -> dict[str, Any]:
        definitions = self._component.output_definitions
        salt = str(uuid.uuid4())
        root = container_root(self._run.place, self._path)
        task_name = self._task.task_info.name
        return {
            "artifacts": {
                key: {
                    "artifacts": [
                        {
                            "type": json_format.MessageToDict(artifact.artifact_type),
                            "uri": f"{self._run.root_uri}/{task_name}/{salt}/{key}",
                            "metadata": json_format.MessageToDict(artifact.metadata),
                        }
                    ]
                }
                for key, artifact in definitions.artifacts.items()
            },
            "parameters": {
                key: {"outputFile": str(root / "tmp/kfp/outputs" / key)} for key in definitions.parameters
            },
            "outputFile": str(root / "tmp/kfp_outputs/output_metadata.json"),
        }

    def _launch(
        self, execution: int, container: Any, kubernetes: Any, executor_input: dict[str, Any]
    ) -> TaskOutcome:
        run = self._run
        folder = run.place.folder / self._path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "executor_input.json").write_text(json.dumps(executor_input, indent=1))
        job = Container(
            self._path,
            container,
            self._component,
            kubernetes,
            executor_input,
            run.place,
            run.start,
            run.stopped,
        )
        attempts = 0
        try:
            output, attempts = self._tries(job)
        except (ContainerFailedError, ResolutionError) as error:
            run.records.publish(execution, spec_records.FAILED)
            return TaskOutcome(FAILED, execution_id=execution, attempts=attempts, error=str(error))
        (folder / "executor_output.json").write_text(json.dumps(output, indent=1))
        artifacts = self._record(executor_input, output)
        ids = {key: [int(item["name"]) for item in items] for key, items in artifacts.items()}
        run.records.publish(execution, spec_records.COMPLETE, output["parameterValues"], ids)
        return TaskOutcome(
            SUCCEEDED, False, output["parameterValues"], artifacts, execution, attempts=attempts
        )

    def _tries(self, job: Container) -> tuple[dict[str, Any], int]:
        """Runs a container until it goes well or its retries are used up."""
        retry, began = Retry.of(self._task), time.monotonic()
        for attempt in range(retry.count + 1):
            try:
                with self._run.slot:
                    return job.run(f"log-{attempt}.txt"), attempt + 1
            except (ContainerFailedError, ResolutionError) as error:
                late = retry.within_s and time.monotonic() - began > retry.within_s
                if attempt == retry.count or late or self._run.stopped():
                    tried = f" (tried {attempt + 1} times)" if attempt else ""
                    raise ContainerFailedError(f"{error}{tried}") from error
                self._run.sleep(retry.wait_s * retry.factor**attempt)
        raise AssertionError("a container is tried at least once")

    def _record(
        self, executor_input: Mapping[str, Any], output: Mapping[str, Any]
    ) -> dict[str, list[dict[str, Any]]]:
        """Records output artifacts: URI and metadata of the output file count over those asked for."""
        found: dict[str, list[dict[str, Any]]] = {}
        for key, artifact in self._component.output_definitions.artifacts.items():
            asked = executor_input["outputs"]["artifacts"][key]["artifacts"][0]
            said = (output["artifacts"].get(key, {}).get("artifacts") or [{}])[0]
            metadata = {**asked["metadata"], **said.get("metadata", {})}
            uri = said.get("uri") or asked["uri"]
            recorded = self._run.records.record_artifact(key, _schema(artifact.artifact_type), uri, metadata)
            found[key] = [recorded]
        return found


def mlmd_state(state: str) -> str:
    """MLMD's name for how a task ended."""
    return {SUCCEEDED: spec_records.COMPLETE, FAILED: spec_records.FAILED}.get(state, spec_records.CANCELED)


def output_of(ended: Mapping[str, TaskOutcome], task: str, key: str, kind: str) -> Any:
    """An output of a task that has ended; `kind` is `parameters` or `artifacts`."""
    outputs = getattr(ended[task], kind)
    if key not in outputs:
        raise ResolutionError(f"the task {task!r} has no output {key!r} among its {kind}")
    return outputs[key]


def _selected(ended: Mapping[str, TaskOutcome], spec: Any) -> Any:
    """An output parameter of a DAG: one task's, or the first's that ran."""
    if spec.WhichOneof("kind") == "value_from_parameter":
        selector = spec.value_from_parameter
        return output_of(ended, selector.producer_subtask, selector.output_parameter_key, "parameters")
    for selector in spec.value_from_oneof.parameter_selectors:
        if ended[selector.producer_subtask].state == SUCCEEDED:
            return output_of(ended, selector.producer_subtask, selector.output_parameter_key, "parameters")
    raise ResolutionError("processing OneOf: no successful task found")


def _schema(artifact_type: Any) -> str:
    if artifact_type.WhichOneof("kind") == "schema_title":
        return f"title: {artifact_type.schema_title}"
    return str(artifact_type.instance_schema)


def _cache_key(executor_input: Mapping[str, Any], component: Any, container: Any, kubernetes: Any) -> str:
    """What the backend hashes: inputs by artifact id and value, outputs by type, image, command, volumes."""
    inputs, outputs = executor_input["inputs"], executor_input["outputs"]
    claims = [mount.constant for mount in kubernetes.pvc_mount] if kubernetes is not None else []
    declared = component.output_definitions.parameters
    key = {
        "inputArtifactNames": {
            name: [item.get("name", "") for item in items["artifacts"]]
            for name, items in inputs["artifacts"].items()
        },
        "inputParameterValues": inputs["parameterValues"],
        "outputArtifactsSpec": {
            name: {"type": items["artifacts"][0]["type"], "metadata": items["artifacts"][0]["metadata"]}
            for name, items in outputs["artifacts"].items()
        },
        "outputParametersSpec": {
            name: spec_values.type_name(declared[name].parameter_type) for name in outputs["parameters"]
        },
        "containerSpec": {
            "image": container.image,
            "cmdArgs": [*container.command, *container.args],
            "pvcNames": sorted(set(claims)),
            "env": [[variable.name, variable.value] for variable in container.env],
        },
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
