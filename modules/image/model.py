"""Image models by name, in the Keras functional API.

    model = build(hparams.model, class_count=10, mean=(33.0,), variance=(1290.0,))

Every model takes (B, H, W, C) float32 pixels in [0, 255] and returns
(B, class_count) float32 probabilities: normalisation is inside, so that what
is served needs nothing but pixels. Between the layer `image` and the layer
`pool` lies the backbone, which transfer freezes; from `pool` on, the head.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

from modules import user_code
from modules.errors import TrainingError
from modules.hparams.image import ImageModelHparams
from modules.image import applications, weights
from modules.image.networks import NETWORKS


def build(
    hparams: ImageModelHparams, *, class_count: int, mean: Sequence[float], variance: Sequence[float]
) -> keras.Model:
    """Builds the model that `hparams.name` names, with the weights that `hparams.weights` names.

    Args:
        hparams: the network and its input size.
        class_count: width of the output.
        mean: per channel, of pixels in [0, 255].
        variance: per channel, of pixels in [0, 255].

    Raises:
        TrainingError: there is no model of that name, or its weights do not fit.
    """
    inputs = keras.Input((hparams.height, hparams.width, hparams.channels), name="image")
    pixels = _three_channels(inputs, hparams) if _takes_three(hparams) else inputs
    features = _features(_normalised(pixels, hparams, mean, variance), hparams)
    pooled = _pooled(features)
    dropped = keras.layers.Dropout(hparams.dropout, name="dropout")(pooled)
    scores = keras.layers.Dense(class_count, activation="softmax", dtype="float32", name="scores")(dropped)
    model = keras.Model(inputs, scores, name=hparams.name.rpartition(".")[2])
    if hparams.weights not in (weights.NONE, weights.IMAGENET):
        weights.load_into(model, hparams)
    return model


def _features(pixels: keras.KerasTensor, hparams: ImageModelHparams) -> keras.KerasTensor:
    if hparams.name in NETWORKS:
        if hparams.weights == weights.IMAGENET:
            raise TrainingError(
                f"{hparams.name} has no published ImageNet weights",
                place="model.weights",
                remedy="Networks of keras.applications have; or give a file as model.weights=PATH.",
            )
        return NETWORKS[hparams.name](pixels, hparams)
    if hparams.name in applications.known():
        return applications.features(
            hparams.name,
            pixels,
            imagenet=hparams.weights == weights.IMAGENET,
            normalise=_by_backbone(hparams),
        )
    if "." in hparams.name:
        own: keras.KerasTensor = user_code.function(hparams.name, "model.name")(pixels, hparams)
        return own
    raise TrainingError(
        f"There is no image model {hparams.name!r}",
        place="model.name",
        remedy=f"Known models: {', '.join([*sorted(NETWORKS), *applications.known()])}; "
        "one of your own is named as module.function.",
    )


def _by_backbone(hparams: ImageModelHparams) -> bool:
    """Whether pixels are normalised as the backbone's authors did, not by the data's moments."""
    if hparams.name not in applications.known():
        if hparams.normalization == "backbone":
            raise TrainingError(
                f"{hparams.name} has no normalisation of its own",
                place="model.normalization",
                remedy="Use data, or auto.",
            )
        return False
    if applications.normalises_inside(hparams.name):
        if hparams.normalization == "data":
            raise TrainingError(
                f"{hparams.name} normalises pixels in its own first layers",
                place="model.normalization",
                remedy="Use backbone, or auto.",
            )
        return True
    if hparams.normalization == "auto":
        return hparams.weights != weights.NONE
    return hparams.normalization == "backbone"


def _normalised(
    pixels: keras.KerasTensor, hparams: ImageModelHparams, mean: Sequence[float], variance: Sequence[float]
) -> keras.KerasTensor:
    if not _by_backbone(hparams):
        channels = pixels.shape[-1]
        if channels != len(mean):  # a grey image that was repeated, or a transparent one
            mean, variance = _fitted(mean, channels), _fitted(variance, channels)
        # Constant channels (an all-black border set) would divide by zero.
        safe = [max(value, 1e-6) for value in variance]
        return keras.layers.Normalization(mean=list(mean), variance=safe, name="normalise")(pixels)
    if applications.can_normalise(hparams.name):
        return pixels
    own = applications.own_normalisation(hparams.name)
    if len(set(own.scale)) > 1 or len(set(own.offset)) > 1 or own.reversed:
        if pixels.shape[-1] != len(own.scale):
            raise TrainingError(
                f"The normalisation of {hparams.name} is for 3 channels",
                place="model.channels, model.normalization",
                remedy="Use model.normalization=data.",
            )
        if own.reversed:
            pixels = keras.ops.flip(pixels, axis=-1)
        return keras.layers.Rescaling(list(own.scale), list(own.offset), name="normalise")(pixels)
    return keras.layers.Rescaling(own.scale[0], own.offset[0], name="normalise")(pixels)


def _fitted(values: Sequence[float], channels: int) -> list[float]:
    """Moments of 1 or 4 channels for 3."""
    return list(values) * channels if len(values) == 1 else list(values[:channels])


def _takes_three(hparams: ImageModelHparams) -> bool:
    """Published weights are for three channels; a file for another network has those it was trained on."""
    if hparams.weights == weights.IMAGENET:
        return True
    return hparams.weights != weights.NONE and hparams.name in applications.known()


def _three_channels(pixels: keras.KerasTensor, hparams: ImageModelHparams) -> keras.KerasTensor:
    """What pretrained backbones take: grey three times, transparent images on white."""
    if hparams.channels == 1:
        return keras.layers.Concatenate(name="grey_to_rgb")([pixels] * 3)
    if hparams.channels == 4:
        share = pixels[..., 3:] / 255.0
        return pixels[..., :3] * share + 255.0 * (1.0 - share)
    return pixels


def _pooled(features: keras.KerasTensor) -> keras.KerasTensor:
    if len(features.shape) == 4:
        return keras.layers.GlobalAveragePooling2D(name="pool")(features)
    if len(features.shape) == 3:
        return keras.layers.GlobalAveragePooling1D(name="pool")(features)
    return keras.layers.Flatten(name="pool")(features)
