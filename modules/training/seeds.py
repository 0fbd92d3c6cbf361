"""Seeds of every random source, and their state for checkpoints.

set_all(17, deterministic=True)
state = capture(); restore(state)
"""

from __future__ import annotations

import random
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def set_all(seed: int, *, deterministic: bool) -> None:
    """Seeds Python, NumPy, TensorFlow and Keras.

    Args:
        seed: of all of them.
        deterministic: also makes TensorFlow's kernels give the same bits in
            every run; cannot be undone within a process, and is slower.
    """
    keras.utils.set_random_seed(seed)
    if deterministic:
        tf.config.experimental.enable_op_determinism()


def capture() -> dict[str, Any]:
    """The state of Python's and NumPy's generators, as JSON-like values.

    Layers of Keras keep theirs in variables of the model; the input pipeline
    is a function of seed, epoch and step.
    """
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [str(name), np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
    }


def restore(state: dict[str, Any]) -> None:
    """Puts back what `capture` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.asarray(keys, np.uint32), position, has_gauss, cached))
