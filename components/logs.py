"""Structured logs: one JSON object a line, with keys that stay.

    line("node.ended", "Trainer complete", at=time.time(), node="Trainer", seconds=12.5)
    write_json_logs()               # what goes through `logging` becomes such lines

Every line has `time` (UTC, RFC 3339), `level` (debug, info, warning or error),
`event` (a dotted name) and `message` (for people); what else it has goes by
its event, and is listed in docs/watching.md.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

LOG = "log"
"""The event of a line that came through `logging` and names none."""


def line(event: str, message: str, *, at: float, level: str = "info", **facts: Any) -> str:
    """One line, without its end.

    Args:
        event: what kind of thing happened.
        message: the same in words.
        at: seconds since the epoch.
        level: debug, info, warning or error.
        facts: what JSON can hold; numbers that are not finite become null.
    """
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = {"time": moment, "level": level, "event": event, "message": message, **facts}
    return json.dumps(_plain(told), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


def extra(event: str, **facts: Any) -> dict[str, Any]:
    """What gives a record of `logging` an event and facts: `_log.info(text, extra=extra(...))`."""
    return {"event": event, "facts": facts}


class JsonFormatter(logging.Formatter):
    """Makes lines of log records; see `extra` for those with events of their own."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {"logger": record.name, **getattr(record, "facts", {})}
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        event = getattr(record, "event", LOG)
        level = "error" if record.levelno >= logging.ERROR else record.levelname.lower()
        return line(event, record.getMessage(), at=record.created, level=level, **facts)


def write_json_logs(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Sends everything that goes through `logging` to a stream (standard error) as such lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
