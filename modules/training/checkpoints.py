"""The state of a training on disk, complete enough to go on bit for bit.

    store = CheckpointStore(folder, identity={"model": ..., "data": ...}, keep=2)
    latest = store.latest()             # None, or a Checkpoint; refuses another training's
    store.save(Checkpoint(step=120, arrays=..., position=...))     # returns at once
    store.wait()

A checkpoint is a folder `step-<n>` with `arrays.npz` and `position.json`; the
latter is written last, so a folder without it was cut short and is not used.
Arrays are copied in memory by the caller and written by a thread.
"""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from modules.errors import TrainingError

_ARRAYS, _POSITION, _CHOICES = "arrays.npz", "position.json", "choices.json"
_PREFIX = "step-"
SEARCH_PREFIX = "search-"
"""What folders of a search for hyperparameters begin with."""


@dataclass(frozen=True)
class Checkpoint:
    """One moment of a training.

    Attributes:
        step: optimizer steps done.
        arrays: name -> value, of all variables.
        position: JSON-like; where in the epochs, history, generators, choices.
    """

    step: int
    arrays: Mapping[str, np.ndarray]
    position: Mapping[str, Any]


class CheckpointStore:
    """Writes and finds the checkpoints of one training in one folder."""

    def __init__(self, folder: str, *, identity: Mapping[str, str], keep: int = 2) -> None:
        """Opens a folder, which need not exist yet.

        Args:
            folder: local, or anything that TensorFlow's file systems know.
            identity: digests of what makes two trainings the same, by a word for each.
            keep: latest checkpoints that are kept.
        """
        self._folder = folder
        self._identity = dict(identity)
        self._keep = keep
        self._parts: dict[str, CheckpointStore] = {}
        self._writer: threading.Thread | None = None
        self._failure: BaseException | None = None

    def part(self, name: str) -> CheckpointStore:
        """A store of its own for one part of the training, in a folder inside; cleared with this one."""
        if name not in self._parts:
            self._parts[name] = CheckpointStore(
                self._path(name), identity={**self._identity, "part": name}, keep=self._keep
            )
        return self._parts[name]

    def latest(self) -> Checkpoint | None:
        """The latest whole checkpoint, or None.

        Raises:
            TrainingError: it belongs to another model, other data or other settings.
        """
        for step in reversed(self._steps()):
            position = self._read_json(f"{_PREFIX}{step:010d}/{_POSITION}")
            if position is None:
                continue
            self._check_identity(position["identity"], step)
            arrays = self._read_arrays(step)
            if arrays is not None:
                return Checkpoint(step, arrays, position["position"])
        return None

    def _check_identity(self, found: Mapping[str, str], step: int) -> None:
        for word, digest in self._identity.items():
            if found.get(word) != digest:
                raise TrainingError(
                    f"A checkpoint was written by a training with another {word}",
                    place=self._path(f"{_PREFIX}{step:010d}"),
                    remedy="Remove the folder to train from the start, set "
                    "train.checkpoint.resume: false, or undo the change.",
                )

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint in the background, after the one before it.

        Raises:
            OSError: an earlier one could not be written.
        """
        self.wait()
        self._writer = threading.Thread(target=self._write_guarded, args=(checkpoint,), daemon=True)
        self._writer.start()

    def wait(self) -> None:
        """Waits until everything is on disk.

        Raises:
            OSError: it could not be written.
        """
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _write_guarded(self, checkpoint: Checkpoint) -> None:
        try:
            self._write(checkpoint)
        except BaseException as error:  # handed to the thread that waits
            self._failure = error

    def _write(self, checkpoint: Checkpoint) -> None:
        name = f"{_PREFIX}{checkpoint.step:010d}"
        tf.io.gfile.makedirs(self._path(name))
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **checkpoint.arrays)
        self._write_bytes(f"{name}/{_ARRAYS}", buffer.getvalue())
        content = {"identity": self._identity, "position": dict(checkpoint.position)}
        self._write_bytes(f"{name}/{_POSITION}", json.dumps(content).encode())
        for step in self._steps()[: -self._keep]:
            tf.io.gfile.rmtree(self._path(f"{_PREFIX}{step:010d}"))

    def clear(self) -> None:
        """Removes all checkpoints; what was chosen by measuring stays.

        Those of parts too that an earlier process opened: one that went on behind a part never does.
        """
        self.wait()
        for name in self._inside():
            if not name.startswith(_PREFIX) and tf.io.gfile.isdir(self._path(name)):
                self.part(name)
        for part in self._parts.values():
            part.clear()
        for step in self._steps():
            tf.io.gfile.rmtree(self._path(f"{_PREFIX}{step:010d}"))

    def choices(self) -> dict[str, Any]:
        """What earlier trainings of this identity chose by measuring; empty at first."""
        found = self._read_json(_CHOICES)
        return dict(found["choices"]) if found and found["identity"] == self._identity else {}

    def save_choices(self, choices: Mapping[str, Any]) -> None:
        """Keeps what was chosen by measuring, for resuming and reproducing."""
        tf.io.gfile.makedirs(self._folder)
        self._write_bytes(
            _CHOICES, json.dumps({"identity": self._identity, "choices": dict(choices)}).encode()
        )

    def _inside(self) -> list[str]:
        if not tf.io.gfile.isdir(self._folder):
            return []
        return [name.rstrip("/") for name in tf.io.gfile.listdir(self._folder)]

    def _steps(self) -> list[int]:
        found = [name.removeprefix(_PREFIX) for name in self._inside() if name.startswith(_PREFIX)]
        return sorted(int(step) for step in found if step.isdigit())

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _write_bytes(self, name: str, content: bytes) -> None:
        """Under another name first, so that what has the name is whole."""
        path = self._path(name)
        with tf.io.gfile.GFile(f"{path}.part", "wb") as file:
            file.write(content)
        tf.io.gfile.rename(f"{path}.part", path, overwrite=True)

    def _read_json(self, name: str) -> Any:
        path = self._path(name)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path, "rb") as file:
            return json.loads(file.read())

    def _read_arrays(self, step: int) -> dict[str, np.ndarray] | None:
        """The arrays, or None where the file is damaged, so that an older one is taken."""
        with tf.io.gfile.GFile(self._path(f"{_PREFIX}{step:010d}/{_ARRAYS}"), "rb") as file:
            try:
                with np.load(io.BytesIO(file.read()), allow_pickle=False) as loaded:
                    return {name: loaded[name] for name in loaded.files}
            except (zipfile.BadZipFile, ValueError, EOFError, OSError):
                return None


def collect(root: str, max_age_days: float, now_s: float) -> list[str]:
    """Removes checkpoints and searches that nobody has written to for long.

    What was chosen by measuring stays, so that a later training takes it again.

    Args:
        root: of all trainings of an experiment; `<root>/<code>/<identity>/step-<n>`.
        max_age_days: since the last write.
        now_s: seconds since the epoch.

    Returns:
        The folders that were removed.
    """
    removed = []
    for code in _folders(root):
        for identity in _folders(code):
            steps = [step for step in _folders(identity) if step.rpartition("/")[2].startswith(_PREFIX)]
            is_search = identity.rpartition("/")[2].startswith(SEARCH_PREFIX)
            written = [_written_s(path) for path in _files([identity] if is_search else steps)]
            if written and now_s - max(written) > max_age_days * 86_400:
                removed += [identity] if is_search else steps
    for folder in removed:
        tf.io.gfile.rmtree(folder)
    return removed


def _folders(root: str) -> list[str]:
    if not tf.io.gfile.isdir(root):
        return []
    paths = [f"{root}/{name.rstrip('/')}" for name in tf.io.gfile.listdir(root)]
    return [path for path in paths if tf.io.gfile.isdir(path)]


def _files(folders: Sequence[str]) -> list[str]:
    walks = [entry for folder in folders for entry in tf.io.gfile.walk(folder)]
    return [f"{folder}/{name}" for folder, _, names in walks for name in names]


def _written_s(path: str) -> float:
    return float(tf.io.gfile.stat(path).mtime_nsec) / 1e9


def to_arrays(groups: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
    """Copies variables: group name -> variables becomes `group/0`, `group/1`, ..."""
    return {
        f"{group}/{index}": np.array(variable.numpy())
        for group, variables in groups.items()
        for index, variable in enumerate(variables)
    }


def assign(groups: Mapping[str, Sequence[Any]], arrays: Mapping[str, np.ndarray], place: str) -> None:
    """Puts arrays of `to_arrays` into variables.

    Raises:
        TrainingError: a variable is missing, or has another shape.
    """
    for group, variables in groups.items():
        for index, variable in enumerate(variables):
            value = arrays.get(f"{group}/{index}")
            expected = tuple(variable.shape)
            if value is None or tuple(value.shape) != expected:
                found = "nothing" if value is None else f"shape {tuple(value.shape)}"
                raise TrainingError(
                    "A checkpoint does not fit the model",
                    place=place,
                    remedy=f"For {getattr(variable, 'path', variable.name)} of shape {expected} it holds "
                    f"{found}. Remove the folder to train from the start.",
                )
            variable.assign(value)
