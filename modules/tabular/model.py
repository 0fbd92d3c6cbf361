"""Models for tables by name, in the Keras functional API.

    model = build(hparams, layout, category_sizes=[12, 40], class_count=2)

Every model takes the (B, F) float32 row of `preprocessing` and returns
(B, class_count) float32 probabilities, or for a regression (B,) float32 in the
label's own unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras

from modules import user_code
from modules.errors import TrainingError
from modules.hparams.tabular import TabularHparams
from modules.tabular.columns import Layout

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
"""What Keras or TensorFlow's graphs take in no layer's name, and a column's may have: km/h, price (EUR)."""


def build(
    hparams: TabularHparams,
    layout: Layout,
    *,
    category_sizes: Sequence[int],
    class_count: int,
    target: Target | None = None,
) -> keras.Model:
    """Builds the model that `hparams.name` names.

    Args:
        hparams: the network, and what Transform was told.
        layout: where columns lie in the row.
        category_sizes: different indices of each categorical column.
        class_count: width of the output.
        target: of a regression, whose `class_count` does not count.

    Raises:
        TrainingError: there is no model of that name.
    """
    network = _network(hparams.model.name)
    inputs = keras.Input((layout.width,), name="row")
    parts = Parts(inputs, hparams, layout, category_sizes)
    name = hparams.model.name.rpartition(".")[2]
    if target is None:
        logits = network(parts, class_count)
        scores = keras.layers.Activation("softmax", dtype="float32", name="scores")(logits)
        return keras.Model(inputs, scores, name=name)
    # The network predicts z-scores; labels of any size are then learned at one rate.
    rescaled = keras.layers.Rescaling(target.deviation, target.mean, dtype="float32", name="rescale")
    value = keras.layers.Reshape((), dtype="float32", name="value")(rescaled(network(parts, 1)))
    return keras.Model(inputs, value, name=name)


@dataclass(frozen=True)
class Target:
    """What a regression predicts: mean and standard deviation of the label in training."""

    mean: float
    deviation: float


def _network(name: str) -> Network:
    if name in MODELS:
        return MODELS[name]
    if "." in name:
        return user_code.function(name, "model.name")
    raise TrainingError(
        f"There is no tabular model {name!r}",
        place="model.name",
        remedy=f"Known models: {', '.join(sorted(MODELS))}; one of your own is named as module.function.",
    )


def table_name(purpose: str, column: str) -> str:
    """Name of the layer with a column's embeddings."""
    return _NOT_IN_NAMES.sub(lambda found: f"_{ord(found[0]):x}_", f"{purpose}_{column}")


class Parts:
    """The row taken apart: z-scores as they are, indices as embeddings."""

    def __init__(
        self,
        row: keras.KerasTensor,
        hparams: TabularHparams,
        layout: Layout,
        category_sizes: Sequence[int],
    ) -> None:
        self.hparams = hparams.model
        numbers = len(layout.numeric)
        self.scores = row[:, :numbers] if numbers else None
        # After the z-scores: (name, number of different indices) of each index column.
        self.tables = [
            *((f"bucket_{name}", hparams.inputs.buckets) for name in layout.numeric),
            *zip(layout.categorical, category_sizes, strict=True),
        ]
        self.crosses = [
            ("cross_" + "_".join(names), hparams.inputs.cross_buckets) for names in layout.crosses
        ]
        self._row, self._first = row, numbers

    def embedded(self, width: int, purpose: str, *, crosses: bool) -> list[keras.KerasTensor]:
        """An embedding of each index column, (B, width) each."""
        tables = [*self.tables, *(self.crosses if crosses else ())]
        return [
            keras.layers.Embedding(size, width, name=table_name(purpose, name))(
                keras.ops.cast(self._row[:, self._first + index], "int32")
            )
            for index, (name, size) in enumerate(tables)
        ]


def mlp(parts: Parts, class_count: int) -> keras.KerasTensor:
    """Embeddings and z-scores through dense layers: (B, class_count) logits."""
    hparams = parts.hparams
    features = parts.embedded(hparams.embedding, "deep", crosses=False)
    if parts.scores is not None:
        features.append(parts.scores)
    x = keras.layers.Concatenate(name="deep_inputs")(features) if len(features) > 1 else features[0]
    for index, width in enumerate(hparams.hidden):
        x = keras.layers.Dense(width, activation="relu", name=f"deep_{index}")(x)
        x = keras.layers.Dropout(hparams.dropout, name=f"deep_dropout_{index}")(x)
    return keras.layers.Dense(class_count, name="deep_logits")(x)


def wide_and_deep(parts: Parts, class_count: int) -> keras.KerasTensor:
    """The MLP beside a linear model of all indices and crosses (Cheng et al., 2016, arXiv:1606.07792)."""
    wide = parts.embedded(class_count, "wide", crosses=True)
    return keras.layers.Add(name="logits")([mlp(parts, class_count), *wide])


Network = Callable[[Parts, int], keras.KerasTensor]
MODELS: dict[str, Network] = {"mlp": mlp, "wide_and_deep": wide_and_deep}
