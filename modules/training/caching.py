"""Whether examples are kept as the model takes them, and where.

    cache = choose("auto", needed_bytes, work_folder)
    dataset = cache.apply(dataset)          # filled on return

Kept in memory where they take a quarter of what is free at most, else on disk
where they take half of what is free there, else made anew in every epoch.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

_OF_MEMORY = 0.25
_OF_DISK = 0.5
_WINDOW = 64
"""Elements that are counted at once while a cache is filled."""
_UNKNOWN_BYTES = 256
"""Counted for a value whose size is not known before it is read."""

_CONTROL_GROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Cache:
    """A decision.

    Attributes:
        kind: memory, disk or off.
        folder: for disk, removed when the process ends.
    """

    kind: str
    folder: str = ""

    def apply(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """The data set with its elements kept; reads it once, so that training finds them there."""
        if self.kind == "off":
            return dataset
        place = tempfile.mkdtemp(dir=self.folder) + "/elements" if self.kind == "disk" else ""
        kept = dataset.cache(place)
        # In the graph, since elements need not come to Python; and by windows, which hold elements
        # without copying them, since a function for each element takes more than reading a row does.
        kept.window(_WINDOW).reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1)
        return kept


def choose(wanted: str, needed_bytes: int, work_folder: str) -> Cache:
    """The cache that is wanted, or with `auto` the fastest that has room.

    Args:
        wanted: auto, memory, disk or off.
        needed_bytes: of all elements.
        work_folder: for the disk; empty for the system's temporary folder.
    """
    kind = wanted
    if wanted == "auto":
        kind = _with_room(needed_bytes, work_folder or tempfile.gettempdir())
    return Cache(kind, _temporary(work_folder) if kind == "disk" else "")


def _with_room(needed_bytes: int, folder: str) -> str:
    if needed_bytes <= _OF_MEMORY * free_memory():
        return "memory"
    Path(folder).mkdir(parents=True, exist_ok=True)
    return "disk" if needed_bytes <= _OF_DISK * shutil.disk_usage(folder).free else "off"


def _temporary(work_folder: str) -> str:
    if work_folder:
        Path(work_folder).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="cache-", dir=work_folder or None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def element_bytes(spec: Any) -> int:
    """Bytes of one element of a data set, from its `element_spec`."""
    return sum(_tensor_bytes(item) for item in tf.nest.flatten(spec))


def _tensor_bytes(spec: Any) -> int:
    shape = getattr(spec, "shape", tf.TensorShape(None))
    if spec.dtype == tf.string or not shape.is_fully_defined():
        return _UNKNOWN_BYTES
    return int(shape.num_elements()) * int(spec.dtype.size)


def free_memory() -> int:
    """Bytes that this process may take without swapping, limits of its control group included."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) << 10
    limit = _control_group("memory.max")
    used = _control_group("memory.current")
    return free if limit is None or used is None else max(min(free, limit - used), 0)


def _control_group(name: str) -> int | None:
    try:
        return int((_CONTROL_GROUP / name).read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return None
