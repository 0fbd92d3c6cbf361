"""What a piece of work costs: time, processor time and memory.

meter = Meter()
...
meter.costs()           # {"wall_s": ..., "cpu_s": ..., "peak_memory_mb": ...}
"""

from __future__ import annotations

import resource
import time

from components import subprocesses

_PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


class Meter:
    """Time and memory from its making on, of this process and those it waited for."""

    def __init__(self) -> None:
        self._began = time.time()
        self._cpu_s = self._used()

    def costs(self) -> dict[str, float]:
        """`wall_s`, `cpu_s` and `peak_memory_mb` (of the largest process, from its start)."""
        peaks = [resource.getrusage(who).ru_maxrss for who in _PROCESSES]
        return {
            "wall_s": time.time() - self._began,
            "cpu_s": self._used() - self._cpu_s,
            "peak_memory_mb": max(max(peaks) / 1024, subprocesses.spent().peak_memory_mb),
        }

    def _used(self) -> float:
        usages = [resource.getrusage(who) for who in _PROCESSES]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages) + subprocesses.spent().cpu_s
