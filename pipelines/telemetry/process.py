"""A process beside a run that serves its metrics and sends its traces.

    with watcher(Settings(metrics=("127.0.0.1", 9400)), log) as tell: ...

It is forked before anything heavy is imported, and gets notices over a socket.
The run's own process forks its nodes, so it must have no threads, which both a
metrics server and a sender of traces want; and a slow collector, or one that is
away, costs a run nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from pipelines.errors import ConfigError
from pipelines.runners import processes
from pipelines.telemetry import traces
from pipelines.telemetry.notices import Notice

_MAX_BYTES = 1 << 17
_LOOK_S = 1.0
_READY_S = 60.0
_FLUSH_S = 8.0
"""How long the end of a command waits for traces to be sent."""


@dataclass(frozen=True)
class Settings:
    """What to do with notices.

    Attributes:
        metrics: host and port to serve metrics on; port 0 takes any that is free.
        traced: whether traces are sent.
    """

    metrics: tuple[str, int] | None = None
    traced: bool = False

    @property
    def nothing(self) -> bool:
        return self.metrics is None and not self.traced


class Receiver(Protocol):
    """Takes notices in the watcher's process."""

    def take(self, notice: Notice) -> None: ...
    def close(self) -> bool:
        """Does what is left; False where something was lost."""
        ...


class Watcher:
    """The run's end: gives notices to the process, and never waits for it."""

    def __init__(self, settings: Settings, log: Path) -> None:
        """Starts the process, and waits until it serves.

        Raises:
            ConfigError: the port cannot be had, or OpenTelemetry's variables name what is not there.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        log.parent.mkdir(parents=True, exist_ok=True)

        def work() -> bool:
            ours.close()
            return _serve(theirs, settings, parent)

        self._pid = processes.fork(work, log, dies_with_parent=False)
        theirs.close()
        self._channel = ours
        self._log = log
        self.lost = 0
        self.url = self._ready()

    def _ready(self) -> str:
        self._channel.settimeout(_READY_S)
        try:
            said = json.loads(self._channel.recv(_MAX_BYTES) or b"{}")
        except TimeoutError:
            said = {}
        if "url" not in said:
            self._stop()
            told = said.get("error") or {
                "headline": "The process that serves metrics and sends traces did not start",
                "place": str(self._log),
                "remedy": "Its log says why.",
            }
            raise ConfigError(**told)
        self._channel.setblocking(False)
        return str(said["url"])

    def tell(self, notice: Notice) -> None:
        """Passes a notice on; one that cannot be taken now is counted as lost."""
        try:
            self._channel.send(notice.to_json())
        except OSError:
            self.lost += 1

    def close(self) -> bool:
        """Lets the process send what it has, and ends it; False where something may be missing."""
        with contextlib.suppress(OSError):
            # For all who hold it, not for this process alone.
            self._channel.shutdown(socket.SHUT_WR)
        self._channel.close()
        deadline = time.monotonic() + _FLUSH_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status == 0 and not self.lost
            time.sleep(0.02)
        processes.terminate([self._pid], grace_s=1.0)
        return False

    def _stop(self) -> None:
        self._channel.close()
        processes.terminate([self._pid], grace_s=1.0)


@contextlib.contextmanager
def watcher(settings: Settings, log: Path) -> Iterator[Watcher | None]:
    """A watcher while the block runs; None where there is nothing to do."""
    if settings.nothing:
        yield None
        return
    made = Watcher(settings, log)
    try:
        yield made
    finally:
        if not made.close():
            made.lost += 1


def _serve(channel: socket.socket, settings: Settings, parent: int) -> bool:
    """The process: answers once it serves, then takes notices until the other end is gone."""
    try:
        receivers, url = _receivers(settings, os.environ)
    except ConfigError as error:
        told = {"headline": error.headline, "place": error.place, "remedy": error.remedy}
        channel.send(json.dumps({"error": told}).encode())
        return False
    channel.send(json.dumps({"url": url}).encode())
    for notice in _notices(channel, parent):
        for receiver in receivers:
            receiver.take(notice)
    whole = [receiver.close() for receiver in receivers]
    return all(whole)


def _notices(channel: socket.socket, parent: int) -> Iterator[Notice]:
    """Until the other end is closed; nodes hold it too, so a parent that died is looked for as well."""
    while True:
        if select.select([channel], [], [], _LOOK_S)[0]:
            text = channel.recv(_MAX_BYTES)
            if not text:
                return
            yield Notice.from_json(text)
        elif os.getppid() != parent:
            return


def _receivers(settings: Settings, environment: Mapping[str, str]) -> tuple[list[Receiver], str]:
    made: list[Receiver] = []
    url = ""
    if settings.traced:
        made.append(_traces(environment))
    if settings.metrics is not None:
        metrics, url = _metrics(*settings.metrics)
        made.append(metrics)
    return made, url


def _traces(environment: Mapping[str, str]) -> Receiver:
    exporter = traces.exporter(environment)
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from pipelines.telemetry.exporting import Watched

    watched = Watched(exporter)
    return traces.Traces(BatchSpanProcessor(watched), environment, lambda: watched.lost)


def _metrics(host: str, port: int) -> tuple[Receiver, str]:
    from prometheus_client import disable_created_metrics, start_http_server

    from pipelines.telemetry.metrics import Metrics

    # Else each counter has a second series, which Prometheus has no use for.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    metrics = Metrics(metadata.version("headrace"))
    try:
        server: Any = start_http_server(port, host, metrics.registry)[0]
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"Metrics cannot be served there: {getattr(error, 'strerror', None) or error}",
            place=f"{host}:{port}",
            remedy="Name another --metrics-port; 0 takes any that is free.",
        ) from error
    shown = f"[{host}]" if ":" in host else host
    return metrics, f"http://{shown}:{server.server_port}/metrics"
