"""The networks of `keras.applications`, by their names there.

own = applications.own_normalisation("MobileNetV2")
features = applications.features("MobileNetV2", pixels, imagenet=False, normalise=False)
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from modules.errors import TrainingError
from modules.image.networks import NORM_MOMENTUM

_SWITCH = "include_preprocessing"
_INSIDE = ("EfficientNetB",)
"""These normalise by layers of their own, and cannot be told not to."""


def known() -> list[str]:
    """Names of all networks that this Keras has."""
    return [name for name, value in vars(keras.applications).items() if name[0].isupper() and callable(value)]


@dataclass(frozen=True)
class Normalisation:
    """What a network's published weights expect: (pixels, perhaps as BGR) * scale + offset.

    Attributes:
        reversed: whether the channels come as BGR.
        scale: per channel, after reversing.
        offset: per channel, after reversing.
    """

    reversed: bool
    scale: tuple[float, ...]
    offset: tuple[float, ...]


def own_normalisation(name: str) -> Normalisation:
    """Measures Keras's own function for a network, which is affine in each channel."""
    function = sys.modules[_builder(name).__module__].preprocess_input
    colours = np.array([[[[0, 0, 0]], [[255, 255, 255]], [[255, 0, 0]]]], np.float32)
    black, white, red = np.asarray(function(colours))[0, :, 0, :]
    scale = (white - black) / 255
    return Normalisation(
        reversed=bool(abs(red[2] - black[2]) > abs(red[0] - black[0])),
        scale=tuple(float(value) for value in scale),
        offset=tuple(float(value) for value in black),
    )


def normalises_inside(name: str) -> bool:
    """Whether a network normalises raw pixels whatever it is told."""
    return name.startswith(_INSIDE)


def can_normalise(name: str) -> bool:
    """Whether a network has normalising layers of its own."""
    return normalises_inside(name) or _SWITCH in inspect.signature(_builder(name)).parameters


def features(name: str, pixels: keras.KerasTensor, *, imagenet: bool, normalise: bool) -> keras.KerasTensor:
    """Builds a network without its head.

    Args:
        name: as in `keras.applications`.
        pixels: (B, H, W, C).
        imagenet: load the published weights, from the network or Keras's cache.
        normalise: whether it shall normalise raw pixels, where it has a switch for that.

    Returns:
        (B, h, w, D) features.

    Raises:
        TrainingError: images too small for it, or weights that cannot be had.
    """
    builder = _builder(name)
    options: dict[str, Any] = {"include_top": False, "weights": "imagenet" if imagenet else None}
    if imagenet:
        options["input_shape"] = tuple(pixels.shape[1:])  # some have weights for several sizes
    if _SWITCH in inspect.signature(builder).parameters:
        options[_SWITCH] = normalise
    model = _called(name, functools.partial(builder, input_tensor=pixels, **options))
    if not imagenet:
        for layer in model.layers:
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.momentum = NORM_MOMENTUM
    return model.output


def bare(name: str, *, top: bool) -> keras.Model:
    """A network as Keras saves it, with fresh weights; with its head for 1,000 classes, or without."""
    return _builder(name)(include_top=top, weights=None)


def _builder(name: str) -> Callable[..., keras.Model]:
    found: Callable[..., keras.Model] = getattr(keras.applications, name)
    return found


def _called(name: str, build: Callable[[], keras.Model]) -> keras.Model:
    try:
        return build()
    except Exception as error:  # Keras raises a bare Exception where a download fails
        failed = re.search(r"URL fetch failure on (\S+?):? ", f"{error} ")
        if failed:
            raise _no_download(name, failed.group(1)) from error
        if isinstance(error, ValueError):
            raise TrainingError(
                f"{name} cannot be built for these images: {str(error).splitlines()[0]}",
                place="model.height, model.width, model.channels",
                remedy="Most networks want at least 32 pixels, some 75.",
            ) from error
        raise


def _no_download(name: str, url: str) -> TrainingError:
    cache = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
    return TrainingError(
        f"The ImageNet weights of {name} cannot be downloaded",
        place="model.weights=imagenet",
        remedy=f"Where there is a network, download {url} and put it at "
        f"{cache / 'models' / url.rsplit('/', 1)[-1]}; or give a file as model.weights=PATH.",
    )
