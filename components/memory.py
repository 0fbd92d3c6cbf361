"""How much memory this process and its children may still take. Standard library only.

    available_mb()              # of the machine, or of the control group where that has less
    share_mb(0.4, least=2048)

A control group's limit is that of a container or of a service; all groups
above ours count as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_MIB = 2**20
_UNLIMITED = 2**60
"""What version 1 says where there is no limit is about as many bytes as 64 bits can name."""


def share_mb(share: float, *, least: float) -> float:
    """A share of what is available, in MiB.

    Args:
        share: in (0, 1].
        least: MiB that are given however little is available.
    """
    return max(least, share * available_mb())


def available_mb(root: Path = _ROOT) -> float:
    """MiB that can be taken before the system swaps or ends a process.

    Args:
        root: where `proc` and `sys` lie.
    """
    return min([_of_machine(root), *_of_groups(root)]) / _MIB


def _of_machine(root: Path) -> float:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return float(value.split()[0]) * 1024
    return float(_UNLIMITED)


def _of_groups(root: Path) -> Iterator[float]:
    """What each control group that this process is in leaves, where it has a limit."""
    for controllers, path in _groups(root):
        if controllers == "":  # version 2
            names = ("memory.max", "memory.current", "inactive_file")
            base = root / "sys/fs/cgroup"
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            base = root / "sys/fs/cgroup/memory"
        else:
            continue
        own = base / path.lstrip("/")
        # In a container the path is often that of the host, and the group is seen at the top.
        for folder in (own, *own.parents):
            left = _left(folder, *names)
            if left is not None:
                yield left
            if folder == base:
                break


def _groups(root: Path) -> list[tuple[str, str]]:
    """Controllers and path of each group of this process."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    return [(parts[1], parts[2]) for line in lines if len(parts := line.split(":", 2)) == 3]


def _left(folder: Path, limit: str, used: str, cached: str) -> float | None:
    most, taken = _number(folder / limit), _number(folder / used)
    if most is None or taken is None or most >= _UNLIMITED:
        return None
    # Files that were read count as taken, but make room for whoever needs it.
    return max(0.0, most - max(0.0, taken - _statistic(folder / "memory.stat", cached)))


def _number(path: Path) -> float | None:
    try:
        return float(int(path.read_text()))
    except (OSError, ValueError):  # no such group, or "max"
        return None


def _statistic(path: Path, name: str) -> float:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0.0)
