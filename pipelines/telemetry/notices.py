"""What a long-running command tells: one vocabulary for logs, metrics and traces.

    tell(Notice("run.ended", "Run digits-... complete", at=time.time(), facts={"run": ..., "state": ...}))

Events and their facts are listed in docs/watching.md. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from components import logs

DEBUG, INFO, WARNING, ERROR = "debug", "info", "warning", "error"


@dataclass(frozen=True)
class Notice:
    """Something that happened.

    Attributes:
        event: a dotted name that stays.
        message: the same in words, which may change.
        at: seconds since the epoch.
        level: one of this module's; what is `debug` is counted, and not logged.
        facts: what JSON can hold; the keys of an event are always the same.
    """

    event: str
    message: str
    at: float
    level: str = INFO
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_line(self) -> str:
        """As a line of a structured log."""
        return logs.line(self.event, self.message, at=self.at, level=self.level, **self.facts)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Notice:
        return cls(**json.loads(text))


Tell = Callable[[Notice], None]


def tell_all(*listeners: Tell) -> Tell:
    """A listener that passes on to others."""

    def tell(notice: Notice) -> None:
        for listener in listeners:
            listener(notice)

    return tell
