"""Loads a version folder, whoever wrote it, behind one interface.

    model = load(Path("serving/digits/3"), LoadSettings())
    scores, = model.run(Call("serving_default", {"examples": array}, ("scores",)))

SavedModels run in a Session, as in TensorFlow Serving: that takes every
SavedModel there is (TensorFlow 1's reference variables as well, which
`tf.saved_model.load` refuses) and frees its memory when closed.
"""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from components.serving.servable import INNER_MANIFEST
from components.serving.server import litert, raw_input

_log = logging.getLogger(__name__)

TFLITE_FILE = "model.tflite"

_MAX_CALLABLES = 64
"""Prepared runs that a model keeps: signatures times the output filters in use."""


@dataclass(frozen=True)
class Call:
    """A checked request: run `signature` with `inputs`, fetch `outputs` in this order."""

    signature: str
    inputs: Mapping[str, np.ndarray]
    outputs: tuple[str, ...]


class Model(Protocol):
    """A loaded version."""

    signatures: Mapping[str, Any]
    """Name -> SignatureDef."""

    def run(self, call: Call) -> list[np.ndarray]:
        """The call's outputs; safe to call from several threads at once."""

    def close(self) -> None:
        """Frees its memory; no run may be under way."""


@dataclass(frozen=True)
class LoadSettings:
    """How version folders are loaded."""

    tags: tuple[str, ...] = ("serve",)
    prefer_tflite: bool = False


class SavedModel:
    """A SavedModel in a Session of its own."""

    def __init__(self, folder: Path, tags: tuple[str, ...]) -> None:
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph)
        try:
            with graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(self._session, tags, str(folder))
        except BaseException:
            self._session.close()
            raise
        # Copies: a signature that is part of the meta graph keeps the whole of it in memory.
        self.signatures: Mapping[str, Any] = {name: type(item).FromString(item.SerializeToString())
                           for name, item in meta_graph.signature_def.items()}  # fmt: skip
        self._prepared = functools.lru_cache(_MAX_CALLABLES)(self._prepare)
        self._prepare_ahead()

    def _prepare_ahead(self) -> None:
        """Has every signature's graph optimised now, so that no first request waits for it."""
        for name, signature in self.signatures.items():
            if name.startswith("__"):  # not for calling: TensorFlow notes its initializer like that
                continue
            try:
                self._prepared(name, tuple(sorted(signature.outputs)))
            except (tf.errors.OpError, ValueError) as error:
                # As in TensorFlow Serving the others are served, and this one answers with the error.
                _log.warning("The signature %s cannot be run: %s", name, error)

    def _prepare(self, name: str, outputs: tuple[str, ...]) -> Any:
        signature = self.signatures[name]
        options = config_pb2.CallableOptions()
        options.feed.extend(signature.inputs[alias].name for alias in sorted(signature.inputs))
        options.fetch.extend(signature.outputs[alias].name for alias in outputs)
        # Session.run and make_callable refuse feeds that do not fit the shape which
        # the placeholder declares; TensorFlow Serving leaves that to the graph.
        return self._session._make_callable_from_options(options)

    def run(self, call: Call) -> list[np.ndarray]:
        run = self._prepared(call.signature, call.outputs)
        return [np.asarray(value) for value in run(*(call.inputs[alias] for alias in sorted(call.inputs)))]

    def close(self) -> None:
        self._prepared.cache_clear()
        self._session.close()
        # A graph and its operations refer to each other, and the graph holds the
        # constants, which are the weights of a frozen model.
        del self._session
        gc.collect()


def load(folder: Path, settings: LoadSettings) -> Model:
    """Loads the version in `folder`.

    Raises:
        Exception: whatever TensorFlow raises for a folder that is no model, or
            ServableError for a TFLite model that cannot be run.
    """
    if (folder / INNER_MANIFEST).is_file():
        return raw_input.RawInputModel(folder, functools.partial(SavedModel, tags=settings.tags))
    tflite = folder / TFLITE_FILE
    if settings.prefer_tflite and tflite.is_file():
        return litert.LiteRtModel(tflite)
    return SavedModel(folder, settings.tags)
