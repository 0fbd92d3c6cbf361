"""Which versions are loaded: follows the version folders, and never lets go of the last good one.

    manager = ModelManager([ModelConfig("digits", Path("serving/digits"), latest(1))], load)
    await manager.reconcile()                     # once per polling interval
    with manager.lease("digits") as version:      # stays loaded until the block ends
        version.model.run(call)

All state is read and changed on one event loop; only loading leaves it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.logs import extra
from components.serving import signature
from components.serving.server.loading import Model
from components.serving.server.status import Code, RequestError, as_request_error, invalid
from components.serving.server.text_protos import ModelConfig

_log = logging.getLogger(__name__)


class State(enum.IntEnum):
    """States of a version, with TensorFlow Serving's names and numbers."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass
class Version:
    """One version of a model.

    Attributes:
        error: why it failed to load; while LOADING, why the last attempt did.
        model: there while it is AVAILABLE or UNLOADING.
    """

    name: str
    number: int
    folder: Path
    state: State = State.START
    error: RequestError | None = None
    model: Model | None = None
    attempts: int = 0
    retry_at: float = 0.0
    seen: object = None
    leases: int = 0
    drained: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def failed(self) -> bool:
        return self.error is not None and self.state in (State.LOADING, State.END)


@dataclass
class _Entry:
    config: ModelConfig
    versions: dict[int, Version] = field(default_factory=dict)
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    def available(self) -> list[int]:
        return sorted(number for number, item in self.versions.items() if item.state == State.AVAILABLE)


@dataclass(frozen=True)
class Retries:
    """How often, and how far apart, a version that fails is tried again."""

    count: int = 5
    interval_s: float = 60.0


class ModelManager:
    """Loads, swaps and unloads the versions of several models.

    Args:
        configs: the models.
        load: loads and warms the version in a folder; runs in a thread.
        retries: for versions that fail to load.
        threads: versions loaded at a time.
        labels_anywhere: accept labels on versions that are not loaded.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        configs: Sequence[ModelConfig],
        load: Callable[[Path], Model],
        *,
        retries: Retries = Retries(),
        threads: int = 1,
        labels_anywhere: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries = {config.name: _Entry(config) for config in configs}
        self._labels: dict[str, dict[str, int]] = {}
        self._load = load
        self._retries = retries
        self._labels_anywhere = labels_anywhere
        self._clock = clock
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="load")
        self._draining: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def lease(self, name: str, number: int | None = None, label: str = "") -> Iterator[Version]:
        """The version that a request asks for, kept loaded for the length of a block.

        Raises:
            RequestError: NOT_FOUND, or INVALID_ARGUMENT for an unknown label.
        """
        version = self._find(name, self._numbered(name, label) if label else number)
        version.leases += 1
        try:
            yield version
        finally:
            version.leases -= 1
            if version.state == State.UNLOADING and not version.leases:
                version.drained.set()

    def _numbered(self, name: str, label: str) -> int:
        if label not in self._labels.get(name, {}):
            raise invalid(f"Unrecognized servable version label: {label}")
        return self._labels[name][label]

    def _find(self, name: str, number: int | None) -> Version:
        if not name:
            raise invalid("ModelSpec has no name specified.")
        entry = self._entries.get(name)
        available = entry.available() if entry else []
        wanted = max(available, default=None) if number is None else number
        if entry is None or wanted not in available:
            which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise RequestError(Code.NOT_FOUND, f"Servable not found for request: {which}")
        return entry.versions[wanted]

    def knows(self, name: str) -> bool:
        """Whether a model of that name is configured."""
        return name in self._entries

    def versions(self, name: str, number: int | None = None, label: str = "") -> list[Version]:
        """Every version that was ever seen, newest first; or the one asked for.

        Raises:
            RequestError: NOT_FOUND, or INVALID_ARGUMENT for an unknown label.
        """
        known = self._entries[name].versions if name in self._entries else {}
        if label:
            number = self._numbered(name, label)
        if number is not None and number not in known:
            raise RequestError(Code.NOT_FOUND, f"Could not find version {number} of model {name}")
        if not known:
            raise RequestError(Code.NOT_FOUND, f"Could not find any versions of model {name}")
        return [known[item] for item in sorted(known, reverse=True) if number in (None, item)]

    async def apply(self, configs: Sequence[ModelConfig]) -> None:
        """Replaces the whole list of models, loads what is new, then sets the labels.

        Raises:
            RequestError: a new model did not become available, or a label names a
                version that is not; the list is then in force all the same.
        """
        added = [config.name for config in configs if config.name not in self._entries]
        removed = self._entries.keys() - {config.name for config in configs}
        for name in removed:
            for version in self._entries.pop(name).versions.values():
                self._unload(version)
            self._labels.pop(name, None)
        for config in configs:
            self._entries.setdefault(config.name, _Entry(config)).config = config
        await self.reconcile()
        missing = [name for name in added if name in self._entries and not self._entries[name].available()]
        if missing:
            raise RequestError(Code.UNKNOWN, f"Some models did not become available: {', '.join(missing)}")
        self.set_labels()

    def set_labels(self) -> None:
        """Takes over the labels of the configuration.

        Raises:
            RequestError: FAILED_PRECONDITION, a label names a version that is not available.
        """
        for name, entry in self._entries.items():
            unavailable = set(entry.config.labels.values()) - set(entry.available())
            if unavailable and not self._labels_anywhere:
                raise RequestError(
                    Code.FAILED_PRECONDITION,
                    f"Request to assign label to {name} version {min(unavailable)}, which is not currently "
                    "available for inference",
                )
            self._labels[name] = dict(entry.config.labels)

    async def reconcile(self) -> None:
        """One round: loads what is wanted and missing, then lets go of what is not wanted."""
        await asyncio.gather(*(self._reconcile_model(entry) for entry in list(self._entries.values())))

    async def _reconcile_model(self, entry: _Entry) -> None:
        async with entry.busy:
            try:
                # In a thread: a network file system may take its time, and requests must not.
                folders = await asyncio.to_thread(version_folders, entry.config.base_path)
            except OSError as error:
                # A file system that is away for a moment is no reason to stop serving.
                _log.warning("The versions of %s cannot be listed: %s", entry.config.name, error)
                return
            for number in self._due(entry, folders):
                await self._try_to_load(entry, number, folders[number])
                if self._entries.get(entry.config.name) is not entry:
                    # Removed from the list in the meantime.
                    self._unload(entry.versions[number])
                    return
            self._release(entry, folders)

    def _wanted(self, entry: _Entry, folders: dict[int, Path]) -> list[int]:
        """Versions that the policy chooses among those that load.

        A version that fails does not count, so that an older one stays, or is
        loaded after a restart, in its place.
        """
        failed = {number for number, version in entry.versions.items() if version.failed}
        return entry.config.choose(sorted(folders.keys() - failed))

    def _due(self, entry: _Entry, folders: dict[int, Path]) -> Iterator[int]:
        """Versions to load now, highest first; looks again after each, since it may have failed."""
        for number in sorted(folders, reverse=True):
            others = {item for item, version in entry.versions.items() if version.failed} - {number}
            if number in entry.config.choose(sorted(folders.keys() - others)) and self._retry_is_due(
                entry.versions.get(number), folders[number]
            ):
                yield number
        while missing := set(self._wanted(entry, folders)) - set(entry.available()):
            yield max(missing)

    def _retry_is_due(self, version: Version | None, folder: Path) -> bool:
        if version is None or not version.failed:
            return False
        if version.seen != _fingerprint(folder):
            # Somebody has completed or repaired it: as good as new.
            version.attempts = 0
            return True
        return version.state == State.LOADING and self._clock() >= version.retry_at

    async def _try_to_load(self, entry: _Entry, number: int, folder: Path) -> None:
        version = entry.versions.get(number)
        if version is None or not version.failed:
            # Also where the number is still being unloaded: that one ends on its own.
            version = entry.versions[number] = Version(entry.config.name, number, folder)
        version.state = State.LOADING
        version.seen = _fingerprint(folder)
        began = self._clock()
        try:
            model = await asyncio.get_running_loop().run_in_executor(self._pool, self._load, folder)
        except Exception as error:
            self._note_failure(version, error)
            return
        version.model, version.error, version.state = model, None, State.AVAILABLE
        seconds = self._clock() - began
        told = extra("model.available", model=version.name, version=number, seconds=seconds)
        _log.info("%s version %d is available (%.1f s)", version.name, number, seconds, extra=told)

    def _note_failure(self, version: Version, error: Exception) -> None:
        version.attempts += 1
        version.error = as_request_error(error)
        version.retry_at = self._clock() + self._retries.interval_s
        if version.attempts > self._retries.count:
            version.state = State.END
        told = extra(
            "model.failed",
            model=version.name,
            version=version.number,
            attempt=version.attempts,
            error=str(error),
        )
        _log.error(
            "%s version %d does not load (attempt %d of %d) [%s]: %s",
            version.name, version.number, version.attempts, self._retries.count + 1, version.folder, error,
            extra=told,
        )  # fmt: skip

    def _release(self, entry: _Entry, folders: dict[int, Path]) -> None:
        wanted = set(self._wanted(entry, folders))
        available = set(entry.available())
        # Availability preserving: the old one goes when a new one serves, or when all are taken away.
        if wanted & available or not folders:
            for number in available - wanted:
                self._unload(entry.versions[number])
        for number, version in entry.versions.items():
            if version.state == State.LOADING and number not in folders:
                version.state = State.END

    def _unload(self, version: Version) -> None:
        if version.state != State.AVAILABLE:
            return
        version.state = State.UNLOADING
        if not version.leases:
            version.drained.set()
        task = asyncio.get_running_loop().create_task(self._close_when_drained(version))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _close_when_drained(self, version: Version) -> None:
        await version.drained.wait()
        model, version.model = version.model, None
        if model is not None:
            await asyncio.get_running_loop().run_in_executor(self._pool, model.close)
        version.state = State.END
        told = extra("model.unloaded", model=version.name, version=version.number)
        _log.info("%s version %d is unloaded", version.name, version.number, extra=told)

    async def close(self) -> None:
        """Unloads everything, each version after its last request."""
        for entry in self._entries.values():
            for version in entry.versions.values():
                self._unload(version)
        await asyncio.gather(*self._draining)
        # Not waited for: a load of minutes may be under way, which nobody wants any more.
        self._pool.shutdown(wait=False, cancel_futures=True)


def version_folders(base_path: Path) -> dict[int, Path]:
    """Version number -> folder; names that are no number are left out.

    Raises:
        OSError: the base path cannot be listed.
    """
    return {
        int(path.name): path
        for path in base_path.iterdir()
        # Like isdigit, but for ASCII only: int() would read other digits too.
        if path.name.isascii() and path.name.isdigit() and int(path.name) < 1 << 63 and path.is_dir()
    }


def _fingerprint(folder: Path) -> object:
    """Changes when the model file of a version, or its signature, is written or replaced."""
    stats: list[tuple[str, int, int]] = []
    for name in ("saved_model.pb", "saved_model.pbtxt", "model.tflite", signature.FILE):
        with contextlib.suppress(OSError):
            stat = (folder / name).stat()
            stats.append((name, stat.st_mtime_ns, stat.st_size))
    return stats


async def every(seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Awaits `work` again and again, with a pause between; a failure is logged and does not end it."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except Exception:
            _log.exception("A polling round failed; the next one is in %g s", seconds)
