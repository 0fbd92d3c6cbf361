"""What makes two trainings the same: digests of model, data and settings.

identity = {"model": digest(...), "data": files_digest(paths), "settings": settings_digest(hparams)}
folder = f"{state_root}/{combined(identity)}"
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

import tensorflow as tf

from modules.hparams.train import TrainHparams

_SAMPLE_BYTES = 64 << 10

# What may change between a run that was killed and the one that goes on.
_WITHOUT_EFFECT = (
    "checkpoint", "tensorboard", "histograms", "profile", "worker_timeout_s", "steps_per_call",
    "intra_op_threads", "inter_op_threads", "devices", "onednn", "cache",
)  # fmt: skip


def digest(value: Any) -> str:
    """Hex digest of a JSON-like value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def settings_digest(hparams: TrainHparams) -> str:
    """Digest of the settings that the result of a training depends on."""
    values = {name: value for name, value in asdict(hparams).items() if name not in _WITHOUT_EFFECT}
    return digest(values)


def files_digest(patterns: Iterable[str]) -> str:
    """Digest of files by name, size, and their first and last 64 KiB.

    Not of the whole, which would read a large data set once more; not of
    folders or times, which differ between copies.
    """
    files = sorted(path for pattern in patterns for path in tf.io.gfile.glob(pattern))
    return digest([_file_facts(path) for path in files])


def _file_facts(path: str) -> list[Any]:
    size = tf.io.gfile.stat(path).length
    with tf.io.gfile.GFile(path, "rb") as file:
        head = file.read(_SAMPLE_BYTES)
        file.seek(max(size - _SAMPLE_BYTES, 0))
        tail = file.read(_SAMPLE_BYTES)
    return [PurePath(path).name, size, hashlib.sha256(head + tail).hexdigest()]


def combined(identity: Mapping[str, str]) -> str:
    """A folder's name for an identity: 16 hex digits."""
    return digest(dict(identity))[:16]
