"""What a rewrite technique is, and the trained model it works on.

A technique is one file with one function, a line in `techniques/__init__.py`
and one in `catalogue.py`:

    def build(trained: TrainedModel, folder: Path) -> None:
        trained.write_saved_model(folder, core=...)
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from components.rewriter import graphs
from components.rewriter.catalogue import TECHNIQUES
from components.serving import examples
from components.serving.servable import (
    CORE_FILES,
    PREPROCESSING,
    SIGNATURE_TENSORS,
    VERSION_FOLDER,
    Servable,
    Signature,
    TensorCore,
)

Core = Callable[[tf.Tensor], tf.Tensor]
"""(B, ...) to (B, C) float32."""

CORE_INPUT = "inputs"
CALIBRATION_EXAMPLES = 256
_CALIBRATION_FILES = 64
"""Of more files, so many stand for all: a split for training may be large."""

# Quantizers keep all activations of a batch.
_CALIBRATION_BATCH = 8
LABELS_FILE = "labels.txt"

_NO_GRADIENTS = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
"""A frozen function's captures are constants, of which gradients cannot be saved; servers want none."""


class CannotRun(Exception):
    """A technique that this machine or this model does not allow; the message says why."""


@dataclass(frozen=True)
class Contract:
    """The names that the trainer's export uses; an execution property of the node.

    Attributes:
        core: function of the model without preprocessing.
        class_names: function that returns the (C,) string class names.
        preprocessing: sub-module with the functions that feed the core.
        signatures: signature -> (function in `preprocessing`, input name); the
            first takes serialized Examples.
        scores: output name; of a regression the name of its numbers.
        classes: output name; empty for a regression.
        keras_model: the `.keras` file, relative to the model's artifact folder;
            empty where there is none.
        modules: modules to import before that file is read, which register its layers.
        tensors: signature, input and output name, and the output's dtype, of a signature that
            takes the core's tensor, which SavedModels keep; empty where there is none.
    """

    core: str
    class_names: str
    preprocessing: str
    signatures: Mapping[str, tuple[str, str]]
    scores: str
    classes: str
    keras_model: str = ""
    modules: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        raw["signatures"] = {name: tuple(value) for name, value in raw["signatures"].items()}
        for name in ("modules", "tensors"):
            raw[name] = tuple(raw.get(name, ()))
        return cls(**raw)


@dataclass(frozen=True)
class Calibration:
    """Where examples for calibration lie."""

    examples_uri: str
    split: str


class TrainedModel:
    """A trained SavedModel, taken apart: preprocessing, core, class names.

    Args:
        model_uri: the trained model's artifact folder.
        contract: the names that its export uses.
        calibration: examples for calibration; techniques that want them raise
            CannotRun where there are none.
    """

    def __init__(self, model_uri: str, contract: Contract, calibration: Calibration | None = None) -> None:
        self.saved_model = Path(model_uri, VERSION_FOLDER)
        self.contract = contract
        self._calibration = calibration
        self._loaded = tf.saved_model.load(str(self.saved_model))
        self.class_names = tuple(
            name.decode() for name in getattr(self._loaded, contract.class_names)().numpy()
        )

    @property
    def core(self) -> Any:
        """The core as a concrete function of one (B, ...) input."""
        return getattr(self._loaded, self.contract.core).concrete_functions[0]

    @functools.cached_property
    def frozen_core(self) -> Any:
        """The core with its variables as constants."""
        return convert_variables_to_constants_v2(self.core)

    def portable_core(self) -> tuple[Any, str, str]:
        """The frozen core's GraphDef for converters, its input's and its output's tensor name."""
        core = self.frozen_core
        return graphs.portable(core.graph.as_graph_def()), core.inputs[0].name, core.outputs[0].name

    def keras_model(self) -> Any:
        """The Keras model that was exported.

        Raises:
            CannotRun: there is none.
        """
        import keras

        path = self.saved_model.parent / self.contract.keras_model
        if not self.contract.keras_model or not path.is_file():
            raise CannotRun("there is no .keras model beside the SavedModel")
        here = str(Path.cwd())
        if here not in sys.path:  # where a user's own modules lie
            sys.path.insert(0, here)
        for name in self.contract.modules:
            importlib.import_module(name)
        return keras.models.load_model(path, compile=False)

    def calibration_batches(self) -> list[np.ndarray]:
        """Core inputs of up to 256 examples, spread over the split: batches of at most 8.

        Texts are as long as the longest of their batch, so batches differ in shape.

        Raises:
            CannotRun: there are no examples.
        """
        if self._calibration is None:
            raise CannotRun("there are no examples to calibrate on")
        chosen, _ = examples.read_spread(
            self._calibration.examples_uri,
            self._calibration.split,
            CALIBRATION_EXAMPLES,
            max_files=_CALIBRATION_FILES,
        )
        first, _ = next(iter(self.contract.signatures.values()))
        function = getattr(getattr(self._loaded, self.contract.preprocessing), first)
        starts = range(0, len(chosen), _CALIBRATION_BATCH)
        return [function(tf.constant(chosen[at : at + _CALIBRATION_BATCH])).numpy() for at in starts]

    def servable(self, technique: str) -> Servable:
        """The manifest of a candidate."""
        runtime = TECHNIQUES[technique].runtime
        return Servable(
            runtime=runtime,
            technique=technique,
            class_names=self.class_names,
            signatures=tuple(
                Signature(name, input_name) for name, (_, input_name) in self.contract.signatures.items()
            ),
            scores=self.contract.scores,
            classes=self.contract.classes,
            core=self._tensor_core(CORE_FILES[runtime]) if runtime in CORE_FILES else None,
        )

    def _tensor_core(self, file: str) -> TensorCore:
        tensor = self.core.inputs[0]
        shape = tuple(-1 if size is None else int(size) for size in tensor.shape[1:])
        return TensorCore(file, CORE_INPUT, tensor.dtype.name, shape)

    def write_saved_model(self, folder: Path, core: Core) -> None:
        """Writes a SavedModel with the original's signatures around another core."""
        module = tf.Module()
        module.core = core
        names = list(self.class_names)

        def finish(tensor: tf.Tensor) -> dict[str, tf.Tensor]:
            scores = core(tensor)
            if not names:
                return {self.contract.scores: scores}
            row = tf.constant([names], tf.string)
            return {
                self.contract.scores: scores,
                self.contract.classes: tf.tile(row, [tf.shape(scores)[0], 1]),
            }

        self._write(module, folder, finish, self._tensor_signature(core))

    def _tensor_signature(self, core: Core) -> dict[str, Any]:
        if not self.contract.tensors:
            return {}
        name, input_name, output, dtype = self.contract.tensors
        tensor = self.core.inputs[0]
        spec = tf.TensorSpec(tensor.shape, tensor.dtype, name=input_name)
        return {
            name: tf.function(lambda value: {output: tf.cast(core(value), dtype)}, input_signature=[spec])
        }

    def write_tensor_model(self, folder: Path, write: Callable[[Path], None], file: str) -> None:
        """Writes a version folder for a format that takes tensors.

        Args:
            folder: the version folder.
            write: writes the model file.
            file: its name.
        """
        self._write(tf.Module(), folder / PREPROCESSING, lambda tensor: {CORE_INPUT: tensor}, {})
        (folder / LABELS_FILE).write_text("".join(f"{name}\n" for name in self.class_names))
        write(folder / file)

    def write_core(self, folder: Path) -> None:
        """Writes the core alone, with constants for weights and the signature `predict_tensors`."""
        graph, input_name, output_name = self.portable_core()
        function, tensor = graphs.as_function(graph, input_name, output_name), self.core.inputs[0]
        module = tf.Module()
        spec = tf.TensorSpec(tensor.shape, tensor.dtype, name=CORE_INPUT)
        serve = tf.function(
            lambda inputs: {self.contract.scores: _only(function(inputs))}, input_signature=[spec]
        )
        tf.saved_model.save(module, str(folder), {SIGNATURE_TENSORS: serve}, _NO_GRADIENTS)

    def _write(
        self,
        module: tf.Module,
        folder: Path,
        finish: Callable[[tf.Tensor], dict[str, tf.Tensor]],
        more: Mapping[str, Any],
    ) -> None:
        before = getattr(self._loaded, self.contract.preprocessing)
        module.preprocessing = before
        signatures = {
            name: tf.function(
                _after(getattr(before, function), finish),
                input_signature=[tf.TensorSpec([None], tf.string, name=input_name)],
            )
            for name, (function, input_name) in self.contract.signatures.items()
        }
        tf.saved_model.save(module, str(folder), {**signatures, **more}, _NO_GRADIENTS)


def _after(preprocess: Core, finish: Callable[[tf.Tensor], dict[str, tf.Tensor]]) -> Callable[..., Any]:
    return lambda raw: finish(preprocess(raw))


def _only(value: Any) -> Any:
    """A frozen function gives a list of its one output."""
    return value[0] if isinstance(value, list | tuple) else value


Build = Callable[[TrainedModel, Path], None]
"""Writes a candidate's version folder.

Raises:
    CannotRun: this machine or this model does not allow it.
"""
