"""Image models by name, in the Keras functional API.

    model = build(hparams.model, class_count=10, mean=(33.0,), variance=(1290.0,))

Every model takes (B, H, W, C) float32 pixels in [0, 255] and returns
(B, class_count) float32 probabilities: normalisation is inside, so that what
is served needs nothing but pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras

from modules.errors import TrainingError
from modules.hparams import ImageModelHparams

_NORM_MOMENTUM = 0.9
"""Of moving statistics. Keras's 0.99 takes hundreds of steps to forget how it began: with a few
hundred photos the validation loss then says nothing for the first epochs, and training stops on it."""


def build(
    hparams: ImageModelHparams, *, class_count: int, mean: Sequence[float], variance: Sequence[float]
) -> keras.Model:
    """Builds the model that `hparams.name` names.

    Args:
        hparams: the network and its input size.
        class_count: width of the output.
        mean: per channel, of pixels in [0, 255].
        variance: per channel, of pixels in [0, 255].

    Raises:
        TrainingError: there is no model of that name.
    """
    if hparams.name not in BACKBONES:
        raise TrainingError(
            f"There is no image model {hparams.name!r}",
            place="model.name",
            remedy=f"Known models: {', '.join(sorted(BACKBONES))}.",
        )
    inputs = keras.Input((hparams.height, hparams.width, hparams.channels), name="image")
    # Constant channels (an all-black border set) would divide by zero.
    safe_variance = [max(value, 1e-6) for value in variance]
    normalised = keras.layers.Normalization(mean=list(mean), variance=safe_variance, name="normalise")(inputs)
    features = BACKBONES[hparams.name](normalised, hparams)
    pooled = keras.layers.GlobalAveragePooling2D(name="pool")(features)
    dropped = keras.layers.Dropout(hparams.dropout, name="dropout")(pooled)
    scores = keras.layers.Dense(class_count, activation="softmax", dtype="float32", name="scores")(dropped)
    return keras.Model(inputs, scores, name=hparams.name)


def separable_resnet(features: keras.KerasTensor, hparams: ImageModelHparams) -> keras.KerasTensor:
    """Depthwise separable residual stages with He initialisation and swish.

    The block is Xception's (Chollet, 2017, arXiv:1610.02357) with the
    pre-activation order of He et al. (2016, arXiv:1603.05027). The first stage
    keeps the resolution; each later one halves it.
    """
    x = _convolution(features, hparams.filters[0], name="stem")
    for stage, filters in enumerate(hparams.filters):
        for block in range(hparams.blocks_per_stage):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _residual_block(x, filters, stride, name=f"stage{stage}_block{block}")
    x = keras.layers.BatchNormalization(momentum=_NORM_MOMENTUM, name="final_norm")(x)
    return keras.layers.Activation("swish", name="final_activation")(x)


def _convolution(x: keras.KerasTensor, filters: int, *, name: str) -> keras.KerasTensor:
    return keras.layers.Conv2D(
        filters, 3, padding="same", use_bias=False, kernel_initializer="he_normal", name=name
    )(x)


def _residual_block(x: keras.KerasTensor, filters: int, stride: int, *, name: str) -> keras.KerasTensor:
    shortcut = x
    if stride != 1 or x.shape[-1] != filters:
        shortcut = keras.layers.Conv2D(
            filters, 1, strides=stride, use_bias=False, kernel_initializer="he_normal", name=f"{name}_project"
        )(x)
    for index, step in enumerate((stride, 1)):
        x = keras.layers.BatchNormalization(momentum=_NORM_MOMENTUM, name=f"{name}_norm{index}")(x)
        x = keras.layers.Activation("swish", name=f"{name}_activation{index}")(x)
        x = keras.layers.SeparableConv2D(
            filters,
            3,
            strides=step,
            padding="same",
            use_bias=False,
            depthwise_initializer="he_normal",
            pointwise_initializer="he_normal",
            name=f"{name}_separable{index}",
        )(x)
    return keras.layers.Add(name=f"{name}_add")([shortcut, x])


Backbone = Callable[[keras.KerasTensor, ImageModelHparams], keras.KerasTensor]
BACKBONES: dict[str, Backbone] = {"separable_resnet": separable_resnet}
