"""Loads any servable behind one call.

    runtime = load(servable_uri)
    answer = runtime.predict([example, ...])       # serialized Examples
    answer.scores                                  # (B, C) float32; of a regression (B,)
    answer.classes                                 # (B, C) string

Judging, evaluation and infra validation all go through this, so a format is
taught once: a class with this interface, and a line in RUNTIMES. Formats that
take tensors have a core in `cores`, and a SavedModel beside it makes the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from components.errors import ServableError
from components.serving import cores, manifest
from components.serving.servable import PREPROCESSING, Servable, version_folder


@dataclass(frozen=True)
class Answer:
    """What a model said of B inputs.

    Attributes:
        scores: (B, C) float32; of a regression, which has no classes, its numbers (B,).
        classes: (B, C) object array of str; (B, 0) of a regression.
    """

    scores: np.ndarray
    classes: np.ndarray


class Runtime(Protocol):
    """A loaded servable."""

    servable: Servable

    def predict(self, raw: Sequence[bytes], signature: str | None = None) -> Answer:
        """Answers for B raw inputs: serialized Examples, or what `signature` takes."""


class SavedModelRuntime:
    """A SavedModel, in TensorFlow."""

    def __init__(self, folder: Path, servable: Servable) -> None:
        self.servable = servable
        # Kept: signatures do not keep the variables they use alive.
        self._model = _load_saved_model(folder, servable)
        self._inputs = {item.name: item.input for item in servable.signatures}

    def predict(self, raw: Sequence[bytes], signature: str | None = None) -> Answer:
        name = signature or self.servable.signatures[0].name
        outputs = self._model.signatures[name](**{self._inputs[name]: tf.constant(list(raw), tf.string)})
        scores = outputs[self.servable.scores].numpy()
        if not self.servable.class_names:
            return _numbers(scores)
        classes = outputs[self.servable.classes].numpy()
        return Answer(
            scores=scores,
            classes=np.array([[name.decode() for name in row] for row in classes], dtype=object),
        )


class TensorRuntime:
    """A model that takes tensors, behind the SavedModel that makes them."""

    def __init__(self, folder: Path, servable: Servable) -> None:
        if servable.core is None:
            raise ServableError(
                "A servable's manifest does not say what takes its tensors", place=str(folder)
            )
        self.servable = servable
        self._before = _load_saved_model(folder / PREPROCESSING, servable)
        self._inputs = {item.name: item.input for item in servable.signatures}
        self._input = servable.core.input
        self._core = cores.open_core(servable.runtime, folder / servable.core.file)

    def tensors(self, raw: Sequence[bytes], signature: str | None = None) -> np.ndarray:
        """What the core is given for B raw inputs: (B, ...)."""
        name = signature or self.servable.signatures[0].name
        made = self._before.signatures[name](**{self._inputs[name]: tf.constant(list(raw), tf.string)})
        return np.asarray(made[self._input].numpy())

    def predict(self, raw: Sequence[bytes], signature: str | None = None) -> Answer:
        scores = self._core(self.tensors(raw, signature))
        if not self.servable.class_names:
            return _numbers(scores)
        row = np.array([self.servable.class_names], dtype=object)
        return Answer(scores=scores, classes=np.repeat(row, len(scores), axis=0))


def _numbers(values: np.ndarray) -> Answer:
    flat = np.reshape(values, -1)
    return Answer(scores=flat, classes=np.empty((len(flat), 0), object))


def _load_saved_model(folder: Path, servable: Servable) -> Any:
    try:
        loaded = tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ServableError(
            f"A SavedModel does not load: {error}", place=str(folder), remedy="Run the Rewriter again."
        ) from error
    missing = [item.name for item in servable.signatures if item.name not in loaded.signatures]
    if missing:
        raise ServableError(
            f"A SavedModel lacks the signature {missing[0]!r}; it has {sorted(loaded.signatures)}",
            place=str(folder),
        )
    return loaded


RUNTIMES: dict[str, Callable[[Path, Servable], Runtime]] = {
    "saved_model": SavedModelRuntime,
    "litert": TensorRuntime,
    "onnxruntime": TensorRuntime,
    "tensorrt": TensorRuntime,
}


def load(uri: str | Path) -> Runtime:
    """Loads the servable in an artifact's folder.

    Raises:
        ServableError: it does not load, or its runtime is unknown.
    """
    return _open(version_folder(uri), Servable.read(uri))


def load_version(folder: Path) -> Runtime:
    """Loads a pushed version, as the manifest in its folder says.

    Raises:
        ServableError: it has no manifest, does not load, or its runtime is unknown.
    """
    return _open(folder, manifest.servable_of(folder))


def _open(folder: Path, servable: Servable) -> Runtime:
    if servable.runtime not in RUNTIMES:
        raise ServableError(
            f"There is no runtime {servable.runtime!r}; known: {', '.join(sorted(RUNTIMES))}",
            place=str(folder),
        )
    return RUNTIMES[servable.runtime](folder, servable)


def predict_in_batches(runtime: Runtime, raw: Sequence[bytes], batch_size: int = 64) -> np.ndarray:
    """The scores of any number of raw inputs: (N, C) float32; of a regression (N,)."""
    parts = [
        runtime.predict(raw[start : start + batch_size]).scores for start in range(0, len(raw), batch_size)
    ]
    if parts:
        return np.concatenate(parts)
    count = len(runtime.servable.class_names)
    return np.zeros((0, count) if count else 0, np.float32)
