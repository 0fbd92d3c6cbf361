"""Loads any servable behind one call.

    runtime = load(servable_uri)
    answer = runtime.predict([example, ...])       # serialized Examples
    answer.scores                                  # (B, C) float32
    answer.classes                                 # (B, C) string

Judging, evaluation and infra validation all go through this, so a format is
taught once: a class with this interface, and a line in RUNTIMES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow as tf

from components.errors import ServableError
from components.serving import manifest
from components.serving.servable import Servable, version_folder


@dataclass(frozen=True)
class Answer:
    """What a model said of B inputs.

    Attributes:
        scores: (B, C) float32.
        classes: (B, C) object array of str.
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
        try:
            # Kept: signatures do not keep the variables they use alive.
            self._model = tf.saved_model.load(str(folder))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ServableError(
                f"A SavedModel does not load: {error}", place=str(folder), remedy="Run the Rewriter again."
            ) from error
        self._inputs = {item.name: item.input for item in servable.signatures}
        missing = [name for name in self._inputs if name not in self._model.signatures]
        if missing:
            raise ServableError(
                f"A SavedModel lacks the signature {missing[0]!r}; it has {sorted(self._model.signatures)}",
                place=str(folder),
            )

    def predict(self, raw: Sequence[bytes], signature: str | None = None) -> Answer:
        name = signature or self.servable.signatures[0].name
        outputs = self._model.signatures[name](**{self._inputs[name]: tf.constant(list(raw), tf.string)})
        classes = outputs[self.servable.classes].numpy()
        return Answer(
            scores=outputs[self.servable.scores].numpy(),
            classes=np.array([[name.decode() for name in row] for row in classes], dtype=object),
        )


RUNTIMES: dict[str, Callable[[Path, Servable], Runtime]] = {"saved_model": SavedModelRuntime}


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
    """The scores of any number of raw inputs: (N, C) float32."""
    parts = [
        runtime.predict(raw[start : start + batch_size]).scores for start in range(0, len(raw), batch_size)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, len(runtime.servable.class_names)), np.float32)
