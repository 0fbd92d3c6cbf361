"""Weights from a file into the backbone of an image model, whatever head they had.

    load_into(model, hparams)       # hparams.weights: a .keras or .weights.h5 file, or a SavedModel

Layers are matched by name where all names are found, else by order; every
shape must fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.image import ImageModelHparams
from modules.image import applications
from modules.training import freezing

NONE, IMAGENET = "none", "imagenet"


def load_into(model: keras.Model, hparams: ImageModelHparams) -> None:
    """Copies the weights of a file into the backbone.

    Args:
        model: of `modules.image.model.build`.
        hparams: `weights` names the file; `name` the network.

    Raises:
        TrainingError: there is no such file, it is of no known kind, or does not fit.
    """
    path = Path(hparams.weights).expanduser()
    if not path.exists():
        raise TrainingError(
            "The file with the weights does not exist", place=str(path), remedy="Check model.weights."
        )
    layers = [layer for layer in freezing.backbone(model) if layer.weights]
    if path.is_dir():
        _by_order(layers, _saved_model_arrays(path), str(path))
    elif path.name.endswith(".weights.h5"):
        _by_order(layers, _h5_arrays(path, model, hparams), str(path))
    elif path.suffix == ".keras":
        _from_keras(layers, path)
    else:
        raise TrainingError(
            "A file with weights should end in .keras or .weights.h5, or be the folder of a SavedModel",
            place=str(path),
            remedy="Save the model in one of these forms.",
        )


def _from_keras(layers: Sequence[keras.Layer], path: Path) -> None:
    try:
        saved = keras.models.load_model(path, compile=False)
    except (ValueError, TypeError, OSError) as error:
        raise _not_readable(path, error) from error
    _check_rescaling(saved, path)
    by_name = {layer.name: layer for layer in saved.layers}
    if all(layer.name in by_name for layer in layers):
        arrays = [value for layer in layers for value in by_name[layer.name].get_weights()]
    else:
        arrays = saved.get_weights()
    _by_order(layers, arrays, str(path))


def _check_rescaling(saved: keras.Model, path: Path) -> None:
    """EfficientNet built for its published weights rescales once more, by a layer without weights."""
    steps = sum(layer.name.startswith("rescaling") for layer in saved.layers)
    if saved.name.startswith("efficientnetb") and steps > 1:
        raise TrainingError(
            "These EfficientNet weights belong to the variant that Keras builds for its published ones",
            place=str(path),
            remedy="Use model.weights=imagenet.",
        )


def _saved_model_arrays(path: Path) -> list[np.ndarray]:
    try:
        loaded = tf.saved_model.load(str(path))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise _not_readable(path, error) from error
    variables = getattr(loaded, "model_variables", None) or getattr(loaded, "variables", None) or ()
    # Seeds of dropout are no weights.
    arrays = [variable.numpy() for variable in variables if variable.dtype.is_floating]
    if not arrays:
        raise TrainingError(
            "The SavedModel holds no variables (frozen into constants, it cannot be trained)",
            place=str(path),
            remedy="Take the trained model (Trainer/model/.../Format-Serving), not a rewritten one.",
        )
    return arrays


def _h5_arrays(path: Path, model: keras.Model, hparams: ImageModelHparams) -> list[np.ndarray]:
    """Keras keeps such weights by the structure of the model, which the file does not describe."""
    reasons = []
    for build in _structures(model, hparams):
        try:
            structure = build()
            return _loaded(structure, path)
        except (ValueError, KeyError, OSError) as error:
            reasons.append(str(error).splitlines()[0])
    raise TrainingError(
        f"The weights do not fit {hparams.name}, with or without its own head: {reasons[0]}",
        place=str(path),
        remedy="Save the whole model as .keras instead.",
    )


def _loaded(structure: keras.Model, path: Path) -> list[np.ndarray]:
    """The weights of a file in a structure.

    Raises:
        ValueError: a kernel was left as it was; Keras only warns of that.
    """
    before = structure.get_weights()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        structure.load_weights(path)
    after = list(structure.get_weights())
    for variable, old, new in zip(structure.weights, before, after, strict=True):
        if old.ndim > 1 and np.array_equal(old, new):
            raise ValueError(f"the file holds nothing for {variable.path}")
    return after


def _structures(model: keras.Model, hparams: ImageModelHparams) -> Iterator[Callable[[], keras.Model]]:
    if hparams.name in applications.known():
        yield lambda: applications.bare(hparams.name, top=False)
        yield lambda: applications.bare(hparams.name, top=True)
    yield lambda: keras.Model(model.inputs[0], model.get_layer(freezing.POOL).input)


def _by_order(layers: Sequence[keras.Layer], arrays: Sequence[np.ndarray], place: str) -> None:
    variables = [variable for layer in layers for variable in layer.weights]
    if len(arrays) < len(variables):
        raise TrainingError(
            f"The file has {len(arrays)} weights; the backbone has {len(variables)}",
            place=place,
            remedy="Check that model.name is the network that the file was written by.",
        )
    for variable, value in zip(variables, arrays, strict=False):
        if tuple(variable.shape) != tuple(value.shape):
            raise TrainingError(
                f"The weights do not fit at {variable.path}: "
                f"expected shape {tuple(variable.shape)}. Received: {tuple(value.shape)}",
                place=place,
                remedy="Check that model.name is the network that the file was written by.",
            )
    for variable, value in zip(variables, arrays, strict=False):
        variable.assign(value)


def _not_readable(path: Path, error: Exception) -> TrainingError:
    return TrainingError(
        f"The weights cannot be read: {(str(error).splitlines() or [''])[0]}",
        place=str(path),
        remedy="Check that the file is whole, and was written by Keras or TensorFlow.",
    )
