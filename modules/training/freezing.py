"""Which layers of a model are trained: the backbone, part of it, or the head alone.

    apply(model, "all")         # the backbone rests, the head is trained
    apply(model, 100)           # its lowest 100 layers rest
    features, head = cut(model)

The backbone is what lies between the model's input and its layer `pool`. A
layer that rests computes as when serving: batch normalisation uses its moving
statistics and leaves them alone, dropout still drops.
"""

from __future__ import annotations

import keras

from modules.errors import TrainingError

POOL = "pool"
"""Name of the first layer of the head."""

_BEFORE = ("normalise", "grey_to_rgb")

Freeze = str | int
"""`all`, `none`, or how many layers, counted from the input as Keras lists them."""


def backbone(model: keras.Model) -> list[keras.Layer]:
    """The layers between input and head, in Keras's order.

    Raises:
        TrainingError: the model has no layer `pool`.
    """
    names = [layer.name for layer in model.layers]
    if POOL not in names:
        raise TrainingError(
            "The model has no layer named 'pool', so it is not known where its head begins",
            place=f"model {model.name}",
            remedy="Name the layer that follows the backbone 'pool', or do not freeze.",
        )
    return [
        layer
        for layer in model.layers[: names.index(POOL)]
        if not isinstance(layer, keras.layers.InputLayer) and layer.name not in _BEFORE
    ]


def apply(model: keras.Model, freeze: Freeze, *, train_norms: bool = True) -> None:
    """Sets which layers are trained.

    Args:
        model: with a layer `pool`, unless `freeze` is `none`.
        freeze: see `Freeze`.
        train_norms: whether batch normalisation in trained layers learns too; if
            not, it stays in inference mode, which small data is better off with.

    Raises:
        TrainingError: no layer `pool`, or fewer layers than `freeze`.
    """
    for layer in model.layers:
        layer.trainable = True
    if freeze == "none" and train_norms:
        return
    layers = backbone(model)
    for layer in layers[: _resting(freeze, len(layers))]:
        layer.trainable = False
    if not train_norms:
        for layer in layers:
            _rest_norms(layer)


def _rest_norms(layer: keras.Layer) -> None:
    for inner in layer._flatten_layers():
        if isinstance(inner, keras.layers.BatchNormalization):
            inner.trainable = False


def _resting(freeze: Freeze, count: int) -> int:
    if freeze == "all":
        return count
    if freeze == "none":
        return 0
    if int(freeze) > count:
        raise TrainingError(
            f"The backbone has {count} layers",
            place="model.freeze, model.unfreeze",
            remedy=f"Expected at most {count}, or all. Received: freeze={freeze}.",
        )
    return int(freeze)


def cut(model: keras.Model) -> tuple[keras.Model, keras.Model]:
    """The backbone with pooling, and the rest of the head, which share the model's layers.

    Returns:
        (B, ...) to (B, D) features, and (B, D) to what the model returns.
    """
    pooled = model.get_layer(POOL).output
    return keras.Model(model.inputs[0], pooled), keras.Model(pooled, model.outputs[0])
