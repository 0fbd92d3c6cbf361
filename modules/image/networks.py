"""Image networks of our own, in the Keras functional API.

    features = NETWORKS["cifar_resnet"](normalised_pixels, hparams)

Each takes (B, H, W, C) float32, mean about 0 and variance about 1, and returns
features: (B, h, w, D), or (B, T, D) of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras

from modules.hparams.image import ImageModelHparams
from modules.image.vit import vit_small, vit_tiny

NORM_MOMENTUM = 0.9
"""Of moving statistics. Keras's 0.99 takes hundreds of steps to forget how it began: with a few
hundred photos the validation loss then says nothing for the first epochs, and training stops on it."""

_KERNEL = 3
_CUT_DEVIATION = 0.87962566
"""What cutting a normal distribution at two deviations leaves of one, as Keras divides by it too."""


def separable_resnet(pixels: keras.KerasTensor, hparams: ImageModelHparams) -> keras.KerasTensor:
    """Depthwise separable residual stages with He initialisation.

    The block is Xception's (Chollet, 2017, arXiv:1610.02357) with the
    pre-activation order of He et al. (2016, arXiv:1603.05027). The first stage
    keeps the resolution; each later one halves it.
    """
    return _residual_stages(pixels, hparams, keras.layers.SeparableConv2D, _separable)


def cifar_resnet(pixels: keras.KerasTensor, hparams: ImageModelHparams) -> keras.KerasTensor:
    """Residual stages of full 3 x 3 convolutions, for small images.

    The network of section 4.2 of He et al. (2015, arXiv:1512.03385), pre-activation
    (arXiv:1603.05027); with 3 stages of n blocks it has 6 n + 2 layers.
    """
    return _residual_stages(pixels, hparams, keras.layers.Conv2D, _full)


def _full() -> dict[str, Any]:
    return {"kernel_initializer": "he_normal"}


def _separable() -> dict[str, Any]:
    """He et al. (2015, arXiv:1502.01852), made anew for each layer: an initializer gives the same each time.

    Keras's own counts all channels as a depthwise filter's inputs, of which it
    sees one: its weights would be too small by the root of their number.
    """
    deviation = math.sqrt(2.0) / _KERNEL / _CUT_DEVIATION
    return {
        "depthwise_initializer": keras.initializers.TruncatedNormal(stddev=deviation),
        "pointwise_initializer": "he_normal",
    }


def _residual_stages(
    x: keras.KerasTensor,
    hparams: ImageModelHparams,
    convolution: type[keras.Layer],
    initializers: Callable[[], dict[str, Any]],
) -> keras.KerasTensor:
    x = keras.layers.Conv2D(
        hparams.filters[0], 3, padding="same", use_bias=False, kernel_initializer="he_normal", name="stem"
    )(x)
    for stage, filters in enumerate(hparams.filters):
        for block in range(hparams.blocks_per_stage):
            stride = 2 if stage > 0 and block == 0 else 1
            name = f"stage{stage}_block{block}"
            x = _residual_block(x, filters, stride, hparams.activation, convolution, initializers, name=name)
    x = keras.layers.BatchNormalization(momentum=NORM_MOMENTUM, name="final_norm")(x)
    return keras.layers.Activation(hparams.activation, name="final_activation")(x)


def _residual_block(
    x: keras.KerasTensor,
    filters: int,
    stride: int,
    activation: str,
    convolution: type[keras.Layer],
    initializers: Callable[[], dict[str, Any]],
    *,
    name: str,
) -> keras.KerasTensor:
    shortcut = x
    if stride != 1 or x.shape[-1] != filters:
        shortcut = keras.layers.Conv2D(
            filters, 1, strides=stride, use_bias=False, kernel_initializer="he_normal", name=f"{name}_project"
        )(x)
    kind = "separable" if convolution is keras.layers.SeparableConv2D else "convolution"
    for index, step in enumerate((stride, 1)):
        x = keras.layers.BatchNormalization(momentum=NORM_MOMENTUM, name=f"{name}_norm{index}")(x)
        x = keras.layers.Activation(activation, name=f"{name}_activation{index}")(x)
        x = convolution(
            filters,
            _KERNEL,
            strides=step,
            padding="same",
            use_bias=False,
            name=f"{name}_{kind}{index}",
            **initializers(),
        )(x)
    return keras.layers.Add(name=f"{name}_add")([shortcut, x])


Network = Callable[[keras.KerasTensor, ImageModelHparams], keras.KerasTensor]
NETWORKS: dict[str, Network] = {
    "separable_resnet": separable_resnet,
    "cifar_resnet": cifar_resnet,
    "vit_tiny": vit_tiny,
    "vit_small": vit_small,
}
