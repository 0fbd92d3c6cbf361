"""What a rewrite technique is, and the trained model it works on.

A technique is one file with one function, and a line in `techniques.py`:

    def build(trained: TrainedModel, folder: Path) -> None:
        trained.write_saved_model(folder, core=...)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import tensorflow as tf

from components.serving.servable import VERSION_FOLDER, Servable, Signature

Core = Callable[[tf.Tensor], tf.Tensor]
"""(B, ...) float32 -> (B, C) float32."""


@dataclass(frozen=True)
class Contract:
    """The names that the trainer's export uses; an execution property of the node.

    Attributes:
        core: function of the model without preprocessing.
        class_names: function that returns the (C,) string class names.
        preprocessing: sub-module with the functions that feed the core.
        signatures: signature -> (function in `preprocessing`, input name); the
            first takes serialized Examples.
        scores: output name.
        classes: output name.
    """

    core: str
    class_names: str
    preprocessing: str
    signatures: Mapping[str, tuple[str, str]]
    scores: str
    classes: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        raw["signatures"] = {name: tuple(value) for name, value in raw["signatures"].items()}
        return cls(**raw)


class TrainedModel:
    """A trained SavedModel, taken apart: preprocessing, core, class names."""

    def __init__(self, model_uri: str, contract: Contract) -> None:
        self.saved_model = Path(model_uri, VERSION_FOLDER)
        self.contract = contract
        self._loaded = tf.saved_model.load(str(self.saved_model))
        self.class_names = tuple(
            name.decode() for name in getattr(self._loaded, contract.class_names)().numpy()
        )

    @property
    def core(self) -> Any:
        """The core as a concrete function of one (B, ...) float32 input."""
        return getattr(self._loaded, self.contract.core).concrete_functions[0]

    def servable(self, technique: str) -> Servable:
        """The manifest of a SavedModel candidate."""
        return Servable(
            runtime="saved_model",
            technique=technique,
            class_names=self.class_names,
            signatures=tuple(
                Signature(name, input_name) for name, (_, input_name) in self.contract.signatures.items()
            ),
            scores=self.contract.scores,
            classes=self.contract.classes,
        )

    def write_saved_model(self, folder: Path, core: Core) -> None:
        """Writes a SavedModel with the original's signatures around another core."""
        module = tf.Module()
        module.core = core
        before = getattr(self._loaded, self.contract.preprocessing)
        module.preprocessing = before
        signatures = {}
        for name, (function, input_name) in self.contract.signatures.items():
            serve = self._serve(getattr(before, function), core)
            signatures[name] = tf.function(
                serve, input_signature=[tf.TensorSpec([None], tf.string, name=input_name)]
            )
        tf.saved_model.save(module, str(folder), signatures=signatures)

    def _serve(self, preprocess: Core, core: Core) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
        names = list(self.class_names)

        def serve(raw: tf.Tensor) -> dict[str, tf.Tensor]:
            scores = core(preprocess(raw))
            row = tf.constant([names], tf.string)
            return {
                self.contract.scores: scores,
                self.contract.classes: tf.tile(row, [tf.shape(scores)[0], 1]),
            }

        return serve


Build = Callable[[TrainedModel, Path], None]
"""Writes a candidate's version folder."""
