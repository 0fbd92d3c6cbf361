"""Distillation: a student learns what a teacher says, besides the labels.

    teacher = Teacher.load(hparams.distill, class_names)
    loop.fit(student, ..., extensions=[extend(student, teacher, hparams.distill)])

The teacher sees the very images or rows that the student sees, augmented as
they are (Beyer et al., 2021, arXiv:2106.05237). Its probabilities count as in
Hinton et al. (2015, arXiv:1503.02531), with its features, where that is asked
for, as in Tung and Mori (2019, arXiv:1907.09682): similarities within a batch,
which need no layer between features of different widths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modules import contract
from modules.errors import TrainingError
from modules.hparams.train import DistillHparams
from modules.training.extensions import Extension
from modules.training.freezing import POOL

_TINY = 1e-8
_ANY_LENGTH = 8


@dataclass(frozen=True)
class Encoded:
    """How raw Examples become the student's inputs.

    Attributes:
        preprocess: signature -> function from raw inputs to the model's input.
        probes: serialized Examples, which a teacher has to encode alike.
    """

    preprocess: Mapping[str, Callable[[tf.Tensor], tf.Tensor]]
    probes: Sequence[bytes]


ANYHOW = Encoded({}, ())
"""Of inputs that mean the same to every model, as pixels do."""


@dataclass(frozen=True)
class Teacher:
    """A trained model of the same classes.

    Attributes:
        scores: (B, ...) float32 input to (B, C) probabilities in the student's class order.
        features: input to (B, D) pooled features, or None where they are not asked for.
        size: (H, W) of its images, or None where its input is no image or of any size.
        resources: what must be kept while it is used.
    """

    scores: Callable[[tf.Tensor], tf.Tensor]
    features: Callable[[tf.Tensor], tf.Tensor] | None
    size: tuple[int, int] | None
    resources: Any

    @classmethod
    def load(
        cls,
        hparams: DistillHparams,
        class_names: Sequence[str],
        input_shape: Sequence[Any],
        encoded: Encoded = ANYHOW,
    ) -> Teacher:
        """Loads a `.keras` file or the folder of a SavedModel that Headrace wrote.

        Args:
            hparams: `teacher` is the path.
            class_names: the student's, in the order of its scores.
            input_shape: the student's input, without the batch.
            encoded: how that input is made.

        Raises:
            TrainingError: it does not load, has other classes, takes another
                input or means something else by it, or has no features where
                they are asked for.
        """
        path = Path(hparams.teacher)
        if path.suffix == ".keras":
            found = _of_keras(path, hparams, class_names)
        else:
            found = _of_saved_model(path, hparams, class_names)
        if encoded.probes:
            _check_encoding(path, encoded, found.resources)
        _try(found, input_shape, len(class_names), hparams)
        return found


def extend(student: keras.Model, teacher: Teacher, hparams: DistillHparams) -> Extension:
    """What distillation adds to the loss: `alpha` of it is the teacher's, the rest the labels'.

    Args:
        student: (B, ...) to (B, C) probabilities.
        teacher: of `Teacher.load`.
        hparams: temperature and weights.
    """
    pooled = _pooled_of(student) if teacher.features is not None else None

    def extra(features: tf.Tensor, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        seen = _resized(features, teacher.size)
        loss = hparams.alpha * soft_loss(teacher.scores(seen), predictions, hparams.temperature)
        if pooled is not None and teacher.features is not None:
            own = pooled(features)
            loss += hparams.feature_weight * similarity_loss(teacher.features(seen), own)
        return loss

    return Extension(extra_loss=extra, loss_weight=1.0 - hparams.alpha)


def soft_loss(teacher: tf.Tensor, student: tf.Tensor, temperature: float) -> tf.Tensor:
    """Divergence of the student's softened probabilities from the teacher's, times temperature squared.

    Args:
        teacher: (B, C) probabilities, which get no gradient.
        student: (B, C) probabilities.
        temperature: 1 leaves them as they are; more makes them even.

    Returns:
        (B,) float32.
    """
    target = tf.stop_gradient(_softened(tf.cast(teacher, tf.float32), temperature))
    own = _softened(tf.cast(student, tf.float32), temperature)
    return temperature**2 * tf.reduce_sum(tf.exp(target) * (target - own), axis=-1)


def _softened(probabilities: tf.Tensor, temperature: float) -> tf.Tensor:
    """Log probabilities at a temperature: a model's logits are its log probabilities and a constant."""
    return tf.nn.log_softmax(tf.math.log(probabilities + _TINY) / temperature, axis=-1)


def similarity_loss(teacher: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
    """How differently the two models see which examples of a batch are alike.

    Args:
        teacher: (B, D) features, which get no gradient.
        student: (B, E) features.

    Returns:
        (B,) float32: mean squared differences of each example's row of similarities.
    """
    difference = tf.stop_gradient(_similarities(teacher)) - _similarities(student)
    return tf.reduce_mean(tf.square(difference), axis=-1)


def _similarities(features: tf.Tensor) -> tf.Tensor:
    flat = tf.cast(tf.reshape(features, [tf.shape(features)[0], -1]), tf.float32)
    return tf.math.l2_normalize(tf.matmul(flat, flat, transpose_b=True), axis=-1)


def _pooled_of(student: keras.Model) -> Callable[[tf.Tensor], tf.Tensor]:
    model = _feature_model(student, "the student")

    def pooled(features: tf.Tensor) -> tf.Tensor:
        # The step's own call has moved the statistics of this batch already; what moves here is let go.
        with keras.StatelessScope():
            return model(features, training=True)

    return pooled


def _feature_model(model: keras.Model, who: str) -> keras.Model:
    if POOL not in [layer.name for layer in model.layers]:
        raise TrainingError(
            f"Features cannot be matched: {who} has no layer named {POOL!r}",
            place="train.distill.feature_weight",
            remedy="Set train.distill.feature_weight: 0.",
        )
    return keras.Model(model.inputs[0], model.get_layer(POOL).output)


def _of_keras(path: Path, hparams: DistillHparams, class_names: Sequence[str]) -> Teacher:
    try:
        model = keras.models.load_model(path, compile=False)
    except (ValueError, TypeError, OSError) as error:
        raise _unloadable(path, error) from error
    model.trainable = False
    order = _order(hparams.classes or _names_beside(path), class_names, path)
    features = _feature_model(model, "the teacher") if hparams.feature_weight else None
    return Teacher(
        scores=lambda images: tf.gather(model(images, training=False), order, axis=-1),
        features=None if features is None else lambda images: features(images, training=False),
        size=_image_size(model.input_shape),
        resources=model,
    )


def _names_beside(path: Path) -> list[str]:
    """The class names of a model that Headrace trained, from the SavedModel beside it."""
    saved_model = path.parent.parent / "Format-Serving"
    if not saved_model.is_dir():
        raise TrainingError(
            "A .keras file does not say which classes its scores belong to",
            place=str(path),
            remedy="Name them in train.distill.classes, in the order of the scores.",
        )
    loaded = tf.saved_model.load(str(saved_model))
    return _names_of(loaded, saved_model)


def _of_saved_model(path: Path, hparams: DistillHparams, class_names: Sequence[str]) -> Teacher:
    try:
        loaded = tf.saved_model.load(str(path))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise _unloadable(path, error) from error
    core = getattr(loaded, contract.CORE_FUNCTION, None)
    if core is None:
        raise TrainingError(
            "The teacher is no SavedModel of Headrace's, or was rewritten into another format",
            place=str(path),
            remedy="Take a .keras file, or the trained model (Trainer/model/.../Format-Serving).",
        )
    if hparams.feature_weight:
        raise TrainingError(
            "Features cannot be matched with a SavedModel, which has none to look at",
            place="train.distill.feature_weight",
            remedy="Name the teacher's .keras file, or set train.distill.feature_weight: 0.",
        )
    order = _order(_names_of(loaded, path), class_names, path)
    function = core.concrete_functions[0]
    shape = function.inputs[0].shape
    return Teacher(
        scores=lambda images: tf.gather(_first(function(images)), order, axis=-1),
        features=None,
        size=_image_size(shape),
        resources=loaded,
    )


def _first(outputs: Any) -> tf.Tensor:
    return tf.nest.flatten(outputs)[0]


def _names_of(loaded: Any, path: Path) -> list[str]:
    function = getattr(loaded, contract.CLASS_NAMES_FUNCTION, None)
    if function is None:
        raise TrainingError(
            "It is not known which classes the teacher knows",
            place=str(path),
            remedy="Take the trained model (Trainer/model/.../Format-Serving), not a rewritten one.",
        )
    return [name.decode() for name in function().numpy()]


def _order(names: Sequence[str], wanted: Sequence[str], path: Path) -> tf.Tensor:
    """The teacher's columns in the student's order."""
    if sorted(names) != sorted(wanted):
        unknown = sorted(set(names) ^ set(wanted))
        raise TrainingError(
            "The teacher has other classes than the data",
            place=f"{path}: {', '.join(unknown[:5])}",
            remedy="Take a teacher that was trained on these classes.",
        )
    return tf.constant([list(names).index(name) for name in wanted])


def _image_size(shape: Any) -> tuple[int, int] | None:
    if len(shape) != 4 or shape[1] is None or shape[2] is None:
        return None
    return int(shape[1]), int(shape[2])


def _resized(features: tf.Tensor, size: tuple[int, int] | None) -> tf.Tensor:
    if size is None or features.shape.rank != 4 or tuple(features.shape[1:3]) == size:
        return features
    return tf.image.resize(features, size)


def _try(teacher: Teacher, input_shape: Sequence[Any], class_count: int, hparams: DistillHparams) -> None:
    """Asks the teacher once, so that a wrong input fails here and with a reason."""
    # Texts are of any length.
    example = tf.zeros([1, *(_ANY_LENGTH if size is None else size for size in input_shape)])
    try:
        scores = np.asarray(teacher.scores(_resized(example, teacher.size)))
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise TrainingError(
            f"The teacher does not take the student's input of shape {tuple(input_shape)}",
            place=hparams.teacher,
            remedy="Channels, features or vocabulary differ: train the teacher on the same data. "
            f"It said: {str(error).splitlines()[0]}",
        ) from error
    if scores.shape != (1, class_count):
        raise TrainingError(
            f"The teacher gives scores of shape {scores.shape[1:]}; expected ({class_count},)",
            place=hparams.teacher,
        )


def _check_encoding(path: Path, encoded: Encoded, teacher: Any) -> None:
    """Raises where a teacher makes other numbers of the same Examples: its vocabulary or moments are others.

    Ids go by frequency and z-scores by the data, so that they mean something
    else to each model, while the shapes are the same.
    """
    if path.suffix == ".keras":
        beside = path.parent.parent / "Format-Serving"
        teacher = tf.saved_model.load(str(beside)) if beside.is_dir() else None
    module = getattr(teacher, contract.PREPROCESSING_MODULE, None)
    function = getattr(module, contract.PREPROCESS_FUNCTIONS[contract.SIGNATURE_EXAMPLES][0], None)
    if function is None:
        raise TrainingError(
            "It is not known what the teacher's inputs mean",
            place=str(path),
            remedy="Take a model that Headrace trained, with its SavedModel beside it.",
        )
    probes = tf.constant(list(encoded.probes))
    own = np.asarray(encoded.preprocess[contract.SIGNATURE_EXAMPLES](probes))
    try:
        given = np.asarray(function(probes))
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise _otherwise(path, f"cannot read them: {(str(error).splitlines() or [''])[0]}") from error
    if own.shape != given.shape or not np.allclose(own, given, rtol=1e-4, atol=1e-4):
        raise _otherwise(path, "has another vocabulary, or has measured other moments")


def _otherwise(path: Path, what: str) -> TrainingError:
    return TrainingError(
        f"The teacher makes other numbers of the same examples: it {what}",
        place=str(path),
        remedy="Train the teacher on the same data with the same settings of inputs, or distill images.",
    )


def _unloadable(path: Path, error: Exception) -> TrainingError:
    return TrainingError(
        f"The teacher does not load: {(str(error).splitlines() or [''])[0]}",
        place=str(path),
        remedy="Check train.distill.teacher: a pushed model, a .keras file or the folder of a SavedModel.",
    )
