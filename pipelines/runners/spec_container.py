"""One container of a pipeline: Kubeflow's driver and launcher around a subprocess.

    output = Container(...).run()

The image is replaced by this machine's environment: `python` is the one that
runs this, our packages are on its path, and the command sees the machine's
file system. Everything else is as on a cluster: a folder of its own that
stands for `/`, nothing from the caller's environment but what a container
has, inputs copied in and outputs copied out by the launcher's rules.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from pipelines import fingerprint
from pipelines.errors import ConfigError
from pipelines.runners import spec_values
from pipelines.runners.kfp_facts import SQLITE
from pipelines.runners.spec_store import ObjectStore, local_path
from pipelines.runners.spec_values import ResolutionError
from pipelines.runners.spec_warm import Process

_KEPT = ("HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
"""Of the environment: what an image has too, or what a machine's devices need."""

_GRACE_S = 5.0


class ContainerFailedError(Exception):
    """A container ended with an error, or could not be started."""


@dataclass(frozen=True)
class Retry:
    """A task's retry policy, as Argo takes it.

    Attributes:
        count: tries beside the first.
        wait_s: before the first retry.
        factor: of each later wait.
        within_s: since the first try's beginning; no retry is begun later. 0 for no limit.
    """

    count: int = 0
    wait_s: float = 0.0
    factor: float = 1.0
    within_s: float = 0.0

    @classmethod
    def of(cls, task: Any) -> Retry:
        policy = task.retry_policy
        return cls(
            policy.max_retry_count,
            policy.backoff_duration.ToTimedelta().total_seconds(),
            policy.backoff_factor or 1.0,
            policy.backoff_max_duration.ToTimedelta().total_seconds(),
        )


@dataclass(frozen=True)
class Place:
    """Where containers run.

    Attributes:
        folder: of the run; each task has one inside it.
        store: the object store.
        metadata_path: SQLite file that containers may read.
    """

    folder: Path
    store: ObjectStore
    metadata_path: Path


@dataclass(frozen=True)
class Container:
    """A container that is to run.

    Attributes:
        task: name, for messages and folders.
        spec: PipelineContainerSpec.
        component: ComponentSpec.
        kubernetes: KubernetesExecutorConfig, or None.
        executor_input: as JSON; its output files lie below `root`.
        place: where it runs.
        start: starts a command in a folder, with an environment and a log.
        stopped: whether the run was ended meanwhile.
    """

    task: str
    spec: Any
    component: Any
    kubernetes: Any
    executor_input: Mapping[str, Any]
    place: Place
    start: Callable[[Sequence[str], Path, Mapping[str, str], Path], Process]
    stopped: Callable[[], bool]

    @property
    def root(self) -> Path:
        return container_root(self.place, self.task)

    def run(self, log_name: str) -> dict[str, Any]:
        """Runs it once; ExecutorOutput as JSON, with all output parameters.

        Raises:
            ContainerFailedError: the command failed, or did not end in time.
            ResolutionError: what it left cannot be read.
        """
        shutil.rmtree(self.root, ignore_errors=True)
        for items in self.executor_input["inputs"].get("artifacts", {}).values():
            for artifact in items["artifacts"][:1]:
                self.place.store.download(self.root, artifact["uri"])
        self._make_places()
        command = self._command()
        self._execute(command, self.root.parent / log_name)
        output = self._output()
        self._collect_parameters(output)
        for items in self.executor_input["outputs"].get("artifacts", {}).values():
            for artifact in items["artifacts"]:
                self.place.store.upload(self.root, artifact["uri"])
        shutil.rmtree(self.root, ignore_errors=True)
        return output

    def _make_places(self) -> None:
        """Parents of outputs are there when a command starts; the outputs themselves are not."""
        outputs = self.executor_input["outputs"]
        self.root.mkdir(parents=True, exist_ok=True)
        for items in outputs.get("artifacts", {}).values():
            for artifact in items["artifacts"]:
                local_path(self.root, artifact["uri"]).parent.mkdir(parents=True, exist_ok=True)
        for parameter in outputs.get("parameters", {}).values():
            Path(parameter["outputFile"]).parent.mkdir(parents=True, exist_ok=True)

    def _command(self) -> list[str]:
        filled = spec_values.with_defaults(self.executor_input, self.component)
        known = spec_values.placeholders(filled, lambda uri: str(local_path(self.root, uri)))
        return spec_values.fill([*self.spec.command, *self.spec.args], known, self.task)

    def environment(self) -> dict[str, str]:
        """What the command's environment holds."""
        found = {name: os.environ[name] for name in _KEPT if name in os.environ}
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        found |= {"PATH": path, "PYTHONPATH": str(fingerprint.PROJECT), "TF_CPP_MIN_LOG_LEVEL": "2"}
        found |= {"KFP_POD_NAME": f"local-{self.task}".lower(), "KFP_POD_UID": "local"}
        found[SQLITE] = str(self.place.metadata_path)
        found |= {variable.name: variable.value for variable in self.spec.env}
        return found | self._secrets()

    def _secrets(self) -> dict[str, str]:
        found = {}
        for secret in self.kubernetes.secret_as_volume if self.kubernetes is not None else ():
            if not secret.optional and not Path(secret.mount_path).is_dir():
                raise ConfigError(
                    f"There is no cluster to take the secret {secret.secret_name!r} from",
                    place=f"{self.task}, {secret.mount_path}",
                    remedy="Make that folder here, with the secret's keys as files.",
                )
        for secret in self.kubernetes.secret_as_env if self.kubernetes is not None else ():
            for key in secret.key_to_env:
                if key.env_var in os.environ:
                    found[key.env_var] = os.environ[key.env_var]
                elif not secret.optional:
                    raise ConfigError(
                        f"There is no cluster to take the secret {secret.secret_name!r} from",
                        place=f"{self.task}, {key.env_var}",
                        remedy=f"Set {key.env_var} in the environment of this command.",
                    )
        return found

    def _execute(self, command: Sequence[str], log: Path) -> None:
        try:
            process = self.start(command, self.root, self.environment(), log)
        except OSError as error:
            raise ContainerFailedError(
                f"the command cannot be started: {error.strerror}: {command[0]}"
            ) from error
        code = self._wait(process)
        if code:
            raise ContainerFailedError(_describe(code, log))

    def _wait(self, process: Process) -> int:
        limit = self.kubernetes.active_deadline_seconds if self.kubernetes is not None else 0
        deadline = time.monotonic() + limit if limit else None
        while True:
            try:
                return process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                late = deadline is not None and time.monotonic() > deadline
                if late or self.stopped():
                    _end(process)
                if late:
                    raise ContainerFailedError(f"it ran longer than its {limit} s") from None

    def _output(self) -> dict[str, Any]:
        """The file that the command may leave, read as strictly as the launcher reads it."""
        from kfp.pipeline_spec import pipeline_spec_pb2 as pb

        path = Path(self.executor_input["outputs"]["outputFile"])
        if not path.exists():
            return {"artifacts": {}, "parameterValues": {}}
        try:
            message = json_format.Parse(path.read_text(), pb.ExecutorOutput())
        except json_format.ParseError as error:
            raise ResolutionError(f"failed to unmarshall ExecutorOutput: {error}") from error
        read = json_format.MessageToDict(message)
        return {"artifacts": read.get("artifacts", {}), "parameterValues": read.get("parameterValues", {})}

    def _collect_parameters(self, output: dict[str, Any]) -> None:
        declared = self.component.output_definitions.parameters
        values = output["parameterValues"]
        for name, parameter in self.executor_input["outputs"].get("parameters", {}).items():
            if name in values:
                continue  # what the output file says comes first
            path = Path(parameter["outputFile"])
            if not path.exists():
                raise ResolutionError(f"failed to read output parameter {name!r}: it wrote no {path.name}")
            values[name] = spec_values.from_text(
                path.read_text(), spec_values.type_name(declared[name].parameter_type)
            )


def container_root(place: Place, task: str) -> Path:
    """The folder that stands for a container's `/`."""
    return place.folder / task / "root"


def _describe(code: int, log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    told = {key: value for key, _, value in (line.partition(": ") for line in lines[-3:]) if value}
    if "headline" in told:
        return told["headline"]
    what = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"code {code}"
    return f"the command ended with {what}"


def _end(process: Process) -> None:
    """Ends the command and what it started."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
            process.wait(timeout=_GRACE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        else:
            return
