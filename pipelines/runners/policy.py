"""How often and when a failed node is tried again, and how long it may take.

policy = Policy(timeout_s=3600, count=2, backoff_s=10, factor=2, on=("crash", "UnavailableError"))
policy.delay(event, tries=1)            # seconds to wait before the next try, or None
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.runners.events import Event

CRASH, TIMEOUT, ERROR = "crash", "timeout", "error"
"""A process that ended without a word; a node that took too long; any exception but a user's mistake."""


@dataclass(frozen=True)
class Policy:
    """For one node.

    Attributes:
        timeout_s: it is ended after so long; None is never.
        count: tries after the first.
        backoff_s: before the second try.
        factor: by which each later wait is longer.
        on: `crash`, `timeout`, `error`, or names of exception classes.
    """

    timeout_s: float | None = None
    count: int = 0
    backoff_s: float = 10.0
    factor: float = 2.0
    on: Sequence[str] = (CRASH, TIMEOUT)

    def delay(self, event: Event, tries: int) -> float | None:
        """Seconds until a failed node is tried again; None where it has failed for good.

        Args:
            event: its failure.
            tries: how often it was tried.
        """
        if tries > self.count or not self._covers(event):
            return None
        return self.backoff_s * self.factor ** (tries - 1)

    def _covers(self, event: Event) -> bool:
        if any(kind in self.on for kind in event.kinds):
            return True
        return ERROR in self.on and not event.user_error and not {CRASH, TIMEOUT} & set(event.kinds)
