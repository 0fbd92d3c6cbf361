"""What came of seeded edits: how many of each kind, and what was stale or needless."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """What came of the edits."""

    edits: Counter[str] = field(default_factory=Counter)
    stale: list[str] = field(default_factory=list)
    needless: list[str] = field(default_factory=list)
    executed: int = 0
    cached: int = 0
    failed: list[str] = field(default_factory=list)

    def sentence(self) -> str:
        share = len(self.needless) / max(self.executed, 1)
        return (
            f"{len(self.stale)} stale hits, {len(self.needless)} needless re-runs of {self.executed} "
            f"({share:.1%}), {self.cached} hits, {len(self.failed)} failed runs"
        )

    @property
    def holds(self) -> bool:
        """Nothing stale or failed, and hardly anything needless."""
        return not self.stale and not self.failed and len(self.needless) <= 0.05 * max(self.executed, 1)
