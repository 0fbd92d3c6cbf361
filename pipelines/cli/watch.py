"""--log-format, --metrics-port and --metrics-host, and what comes of them.

    with telling(watch, workspace.runs / "telemetry.log") as tell:
        progress = Several(ConsoleProgress(console), Notices(tell))

Logs are lines on standard error, so that what a command answers on standard
output stays apart from them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from pipelines.telemetry.notices import Notice, Tell

TEXT, JSON = "text", "json"
VARIABLE = "HEADRACE_LOG_FORMAT"


@dataclass(frozen=True)
class Watch:
    """How a command is watched.

    Attributes:
        log_format: `text` or `json`.
        metrics_port: where metrics are served; None for nowhere.
        metrics_host: address of that.
    """

    log_format: str = TEXT
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"

    @property
    def as_json(self) -> bool:
        return self.log_format == JSON


def log_format_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--log-format text|json; the command gets `log_format`."""
    return click.option(
        "--log-format",
        type=click.Choice([TEXT, JSON]),
        default=TEXT,
        envvar=VARIABLE,
        show_envvar=True,
        show_default=True,
        help="json: what happens, as one JSON object a line on standard error; see docs/watching.md.",
    )(function)


def watch_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """All three; the command gets them as `watch`, a `Watch`."""

    @functools.wraps(function)
    def with_watch(
        *args: Any, log_format: str, metrics_port: int | None, metrics_host: str, **others: Any
    ) -> Any:
        return function(*args, watch=Watch(log_format, metrics_port, metrics_host), **others)

    port = click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        envvar="HEADRACE_METRICS_PORT",
        show_envvar=True,
        metavar="PORT",
        help="Serve Prometheus metrics while it goes on; 0: any free port.",
    )
    host = click.option(
        "--metrics-host",
        default=Watch.metrics_host,
        show_default=True,
        metavar="ADDRESS",
        help="Where to; 0.0.0.0 lets other machines in.",
    )
    return log_format_option(port(host(with_watch)))


@contextlib.contextmanager
def telling(watch: Watch, log: Path) -> Iterator[Tell]:
    """Takes notices while the block runs: to standard error, metrics and traces, as asked for.

    To be entered before standard error is redirected, before anything heavy is
    imported, and before a lease is taken.

    Args:
        watch: what was asked for.
        log: of the process that serves metrics and sends traces.

    Raises:
        ConfigError: metrics cannot be served there, or OpenTelemetry's variables name what is not there.
    """
    from pipelines.telemetry import traces
    from pipelines.telemetry.notices import Notice, tell_all
    from pipelines.telemetry.process import Settings, watcher

    port = watch.metrics_port
    settings = Settings(None if port is None else (watch.metrics_host, port), traces.wanted(os.environ))
    with lines(watch.log_format) as tell:
        with watcher(settings, log) as process:
            if process is None:
                yield tell
                return
            if process.url:
                told = {"url": process.url}
                tell(Notice("metrics.listening", f"Metrics     {process.url}", time.time(), facts=told))
            yield tell_all(tell, process.tell)
        if process.lost:
            message = f"Some metrics or traces were lost; {log} may say why"
            tell(Notice("telemetry.lost", message, time.time(), "warning", {"log": str(log)}))


@contextlib.contextmanager
def lines(log_format: str) -> Iterator[Tell]:
    """Writes notices to standard error as it is now: all as JSON, or as text what nothing else shows."""
    with os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8") as stream:
        yield functools.partial(_write_json if log_format == JSON else _write_text, stream)


def _write_json(stream: TextIO, notice: Notice) -> None:
    if notice.level != "debug":
        stream.write(notice.as_line() + "\n")


def _write_text(stream: TextIO, notice: Notice) -> None:
    if notice.event in ("metrics.listening", "telemetry.lost"):
        stream.write(notice.message + "\n")
