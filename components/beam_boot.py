"""Starts a Beam worker of ours on whatever host a runner asks for one: Beam's contract of SDK containers.

    python -m components.beam_boot --id 1-1 --provision_endpoint HOST:PORT [--control_endpoint ...]

The host brings the locked packages; our own code and the user's modules come
with the job, as one wheel that its runner hands out. What is wrong with the
host, such as a missing package or a folder that it does not see, is the error
of the job's first step, so that it reaches whoever started the job.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN_PACKAGES = ("components", "modules", "pipelines")
PREFIX = "headrace_worker-"
"""Of the wheel's file name."""

CONTENTS = "headrace_worker.json"
"""In the wheel: which packages of which versions a worker must have, and our modules by top name."""

OPTION = "headrace_marker"
"""Pipeline option, repeatable: a file that a worker must see, where the job's files lie."""

SIGN = "HEADRACEWORKER"
"""Around a `WorkerError`'s fields in the text of a failed job."""


@dataclass(frozen=True)
class Call:
    """What a runner tells a worker: endpoints as host:port, of which `provision` is always there."""

    worker: str
    provision: str
    control: str = ""
    logging: str = ""
    artifact: str = ""
    folder: str = ""


class WorkerError(Exception):
    """What is wrong with this host; its text holds the fields again between two `SIGN`, see `told`."""

    def __init__(self, headline: str, *, place: str, remedy: str) -> None:
        fields = json.dumps({"headline": headline, "place": place, "remedy": remedy})
        # Runners quote and escape what they are told; letters and digits stay as they are.
        coded = base64.b16encode(fields.encode()).decode()
        super().__init__(f"{headline} [{place}] {remedy} {SIGN}{coded}{SIGN}")


def told(text: str) -> dict[str, str] | None:
    """Headline, place and remedy of a `WorkerError` in what an engine says of a failed job."""
    found = re.search(f"{SIGN}([0-9A-F]+){SIGN}", text)
    if found is None:
        return None
    fields: dict[str, str] = json.loads(base64.b16decode(found[1]))
    return fields


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of a container or a process that a runner starts."""
    parser = argparse.ArgumentParser(prog="python -m components.beam_boot")
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    for name in ("control_endpoint", "logging_endpoint", "artifact_endpoint", "semi_persist_dir"):
        parser.add_argument(f"--{name}", default="")
    given, _ = parser.parse_known_args(arguments)
    work(
        Call(
            given.id.strip("'"),  # Prism quotes it
            given.provision_endpoint,
            given.control_endpoint,
            given.logging_endpoint,
            given.artifact_endpoint,
            given.semi_persist_dir,
        )
    )


def work(call: Call) -> None:
    """Makes this process a worker, and returns when its runner needs it no more."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-worker-", dir=call.folder or None))
    try:
        _name(call.worker)
        info = _provision(call)
        problem = _problem(call, info, folder)
        _serve(_environment(call, info, folder), problem)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _name(worker: str) -> None:
    """Beam takes the name from the environment when it is imported, which a forked process is past."""
    from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor

    WorkerIdInterceptor._worker_id = worker


def _provision(call: Call) -> Any:
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc

    with _channel(call, call.provision) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        return stub.GetProvisionInfo(beam_provision_api_pb2.GetProvisionInfoRequest(), timeout=60).info


def _channel(call: Call, url: str) -> Any:
    import grpc
    from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor

    limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    return grpc.intercept_channel(
        grpc.insecure_channel(url, options=limits), WorkerIdInterceptor(call.worker)
    )


def _problem(call: Call, info: Any, folder: Path) -> Exception | None:
    """Takes up the job's code; what keeps this host from being a worker, or None."""
    try:
        wheels = fetch(call, info, folder)
        if wheels:
            check_packages(take_up(wheels[-1], folder / "code"))
        check_sight(_options(info).get(OPTION) or [])
    except Exception as error:
        return error
    return None


def fetch(call: Call, info: Any, folder: Path) -> list[Path]:
    """Our wheels among what the job brings with it, as files in `folder`; nothing else is fetched."""
    from apache_beam.portability.api import (
        beam_artifact_api_pb2,
        beam_artifact_api_pb2_grpc,
        beam_runner_api_pb2,
    )

    named = {}
    for artifact in info.dependencies:
        role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
        name = Path(role.staged_name).name
        if name.startswith(PREFIX) and name.endswith(".whl"):
            named[name] = artifact
    if not named:
        return []
    with _channel(call, call.artifact or info.artifact_endpoint.url) as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        for name, artifact in named.items():
            request = beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=[artifact])
            with (folder / name).open("wb") as file:
                for resolved in stub.ResolveArtifacts(request).replacements:
                    wanted = beam_artifact_api_pb2.GetArtifactRequest(artifact=resolved)
                    file.writelines(part.data for part in stub.GetArtifact(wanted))
    return [folder / name for name in sorted(named)]


def take_up(wheel: Path, folder: Path) -> dict[str, Any]:
    """Makes a wheel's code come first; returns its `CONTENTS`.

    A wheel of pure Python is its own unpacked form. What this process has
    imported of ours, from the host's installation, is forgotten.
    """
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        contents: dict[str, Any] = json.loads(archive.read(CONTENTS))
    own = (*OWN_PACKAGES, *contents["tops"])
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    return contents


def check_packages(contents: Mapping[str, Any]) -> None:
    """Compares this host's packages with those of whoever started the job.

    Raises:
        WorkerError: one is missing, or of another version.
    """
    wrong = []
    for name, version in contents["packages"].items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "missing"
        if found != version:
            wrong.append(f"{name} {found} instead of {version}")
    if wrong:
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise WorkerError(
            f"A Beam worker has other packages than this machine: {wrong[0]}{more}",
            place=f"{_host()}, {sys.executable}",
            remedy="Install requirements.lock there, or use an image that was built from it.",
        )


def check_sight(markers: Sequence[str]) -> None:
    """That the folders in which a job's files lie are the same for this host.

    Raises:
        WorkerError: this host does not see one.
    """
    for marker in markers:
        if Path(marker).is_file():
            continue
        raise WorkerError(
            "A Beam worker does not see the folder that the job's files lie in",
            place=f"{_host()}: {Path(marker).parent}",
            remedy="Use a workspace, and a beam.temp_location, on a file system that all workers mount "
            "at the same path.",
        )


def _host() -> str:
    import socket

    return f"host {socket.gethostname()}"


def _options(info: Any) -> dict[str, Any]:
    from apache_beam.runners.worker.sdk_worker_main import _load_pipeline_options
    from google.protobuf import json_format

    return _load_pipeline_options(json_format.MessageToJson(info.pipeline_options))


def _environment(call: Call, info: Any, folder: Path) -> dict[str, str]:
    """The variables that Beam's worker reads."""
    from google.protobuf import json_format

    def descriptor(url: str) -> str:
        return f'url: "{url}"'

    found = {
        "WORKER_ID": call.worker,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "SEMI_PERSISTENT_DIRECTORY": str(folder),
        "CONTROL_API_SERVICE_DESCRIPTOR": descriptor(call.control or info.control_endpoint.url),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    logging = call.logging or info.logging_endpoint.url
    if logging:
        found["LOGGING_API_SERVICE_DESCRIPTOR"] = descriptor(logging)
    if info.status_endpoint.url:
        found["STATUS_API_SERVICE_DESCRIPTOR"] = descriptor(info.status_endpoint.url)
    return found


def _serve(environment: Mapping[str, str], problem: Exception | None) -> None:
    os.environ.update(environment)
    if problem is None:
        try:
            # Of the wheel, where the job brought one.
            from components import beam_worker

            beam_worker.prepare()
        except Exception as error:
            problem = error
    from apache_beam.runners.worker import sdk_worker_main

    handler, harness, _ = sdk_worker_main.create_harness(os.environ)
    if problem is not None:
        _answer_with(harness, problem)
    try:
        harness.run()
    finally:
        if handler:
            handler.close()


def _answer_with(harness: Any, problem: Exception) -> None:
    """Lets a worker answer every step with an error.

    Beam's own deferred error ends the process, after which one runner says no
    more than that a worker was lost, and another waits for ever.
    """

    def fail() -> None:
        raise problem

    harness._request_process_bundle = lambda request: harness._execute(fail, request)


if __name__ == "__main__":
    main()
