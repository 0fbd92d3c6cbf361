"""Distillation, pruning, quantization-aware training: exact values, and what a training leaves behind."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules import contract, export
from modules.errors import TrainingError
from modules.hparams.train import DistillHparams, PruneHparams, QuantizeAwareHparams
from modules.training import distill, loop, prune, quantize_aware
from modules.training.compression import Compression
from modules.training.session import prepare
from tests.modules.training import small

NAMES = ["a", "b", "c"]


def model(width: int = 4) -> keras.Model:
    """A convolution with normalisation, a separable one, and a dense layer."""
    keras.utils.set_random_seed(5)
    inputs = keras.Input((6, 6, 2))
    x = keras.layers.Conv2D(width, 3, use_bias=False, name="conv")(inputs)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.Activation("relu")(x)
    x = keras.layers.SeparableConv2D(width, 3, name="separable")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(small.CLASSES, "softmax", name="scores")(x))


def fit(made: keras.Model, *, epochs: int = 4, xla: str = "off", **compression: object) -> tuple:
    """Trains with what `compression` asks for; the Compression and the report."""
    changed = replace(small.hparams(epochs=epochs, xla=xla), **compression)
    session = prepare(changed)
    added = Compression(made, changed, NAMES, replicas=1)
    stream, validation = small.stream()
    arguments = {"extensions": added.extensions, "echo": lambda line: None}
    return added, loop.fit(made, stream, validation, session, **arguments)


def test_soft_loss_is_the_divergence_of_softened_probabilities() -> None:
    teacher, student = tf.constant([[0.7, 0.2, 0.1]]), tf.constant([[0.2, 0.5, 0.3]])
    for temperature in (1.0, 3.0):
        p, q = (np.asarray(x[0], np.float64) ** (1 / temperature) for x in (teacher, student))
        p, q = p / p.sum(), q / q.sum()
        expected = temperature**2 * np.sum(p * np.log(p / q))
        found = distill.soft_loss(teacher, student, temperature)
        np.testing.assert_allclose(found, [expected], rtol=1e-5)
    np.testing.assert_allclose(distill.soft_loss(teacher, teacher, 2.0), [0.0], atol=1e-7)


def test_similarity_loss_does_not_care_for_width_or_scale() -> None:
    features = tf.constant([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    wider = tf.concat([features * 3, tf.zeros((3, 4))], axis=1)
    np.testing.assert_allclose(distill.similarity_loss(features, wider), np.zeros(3), atol=1e-7)
    assert float(tf.reduce_sum(distill.similarity_loss(features, tf.ones((3, 2))))) > 0.1


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Path:
    """A trained model as the Trainer leaves it, with its classes in another order than the student's."""
    folder = tmp_path_factory.mktemp("teacher")
    made = model(width=8)
    fit(made, epochs=8)
    names = list(reversed(NAMES))
    # The scores of class id 0 stand for "c" here.
    identity = {contract.SIGNATURE_EXAMPLES: lambda raw: tf.zeros((tf.shape(raw)[0], 6, 6, 2))}
    export.save(str(folder / "Format-Serving"), made, names, identity)
    (folder / "keras").mkdir()
    made.save(folder / "keras" / "model.keras")
    return folder


def test_looking_at_features_moves_no_statistics_and_has_gradients() -> None:
    inputs = keras.Input((4,))
    x = keras.layers.Dense(3, use_bias=False)(inputs)
    x = keras.layers.BatchNormalization(momentum=0.5)(x)
    made = keras.Model(inputs, keras.layers.Flatten(name="pool")(x))
    pooled = tf.function(distill._pooled_of(made), jit_compile=True)
    images = tf.random.stateless_normal((8, 4), [1, 2])
    before = [variable.numpy() for variable in made.non_trainable_variables]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(pooled(images) ** 2)
    assert tape.gradient(total, made.layers[1].kernel.value) is not None
    for variable, value in zip(made.non_trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


@pytest.mark.parametrize("file", ["Format-Serving", "keras/model.keras"])
def test_a_teachers_scores_come_in_the_students_order(teacher: Path, file: str) -> None:
    images, _ = small.data(5)
    told = DistillHparams(str(teacher / file))
    loaded = distill.Teacher.load(told, NAMES, (6, 6, 2))
    original = keras.models.load_model(teacher / "keras" / "model.keras")
    np.testing.assert_allclose(
        loaded.scores(tf.constant(images)), np.asarray(original(images))[:, ::-1], atol=1e-6
    )


@pytest.mark.parametrize("features", [0.0, 1.0])
def test_a_student_comes_nearer_to_its_teacher_than_by_labels_alone(teacher: Path, features: float) -> None:
    told = DistillHparams(str(teacher / "keras/model.keras"), 2.0, 1.0, features, classes=tuple(NAMES))
    images, _ = small.data(64)
    wanted = np.asarray(keras.models.load_model(told.teacher)(images))
    before = model()
    apart = np.abs(np.asarray(before(images)) - wanted).mean()
    fit(before, distill=told)
    assert np.abs(np.asarray(before(images)) - wanted).mean() < 0.8 * apart


def test_teachers_that_do_not_fit_are_refused(teacher: Path, tmp_path: Path) -> None:
    saved, file = str(teacher / "Format-Serving"), str(teacher / "keras/model.keras")
    with pytest.raises(TrainingError, match="other classes"):
        distill.Teacher.load(DistillHparams(saved), ["a", "b", "d"], (6, 6, 2))
    with pytest.raises(TrainingError, match="does not take the student's input"):
        distill.Teacher.load(DistillHparams(saved), NAMES, (6, 6, 1))
    with pytest.raises(TrainingError, match="Features cannot be matched"):
        distill.Teacher.load(DistillHparams(saved, feature_weight=1.0), NAMES, (6, 6, 2))
    alone = tmp_path / "alone.keras"
    alone.write_bytes(Path(file).read_bytes())
    with pytest.raises(TrainingError, match="does not say which classes"):
        distill.Teacher.load(DistillHparams(str(alone)), NAMES, (6, 6, 2))
    with pytest.raises(TrainingError, match="The teacher does not load"):
        distill.Teacher.load(DistillHparams(str(tmp_path)), NAMES, (6, 6, 2))


def test_the_share_of_zeros_rises_as_a_cubic() -> None:
    at = [float(prune.sparsity_at(tf.constant(step), 10.0, 30.0, 0.8)) for step in (0, 10, 20, 30, 99)]
    np.testing.assert_allclose(at, [0.0, 0.0, 0.8 * (1 - 0.5**3), 0.8, 0.8], atol=1e-6)


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("xla", ["off", pytest.param("on", marks=pytest.mark.slow)])
def test_pruned_weights_stay_zero_to_the_end_and_nothing_else_is_zeroed(scope: str, xla: str) -> None:
    made = model()
    _, report = fit(made, xla=xla, prune=PruneHparams(0.75, scope, begin=0.0, end=0.5, every_steps=3))
    assert prune.sparsity(made) == pytest.approx(0.75, abs=0.02)
    shares = [float(np.mean(kernel.numpy() == 0)) for kernel in prune.kernels(made)]
    assert scope == "global" or max(shares) - min(shares) < 0.1
    assert [kernel.path for kernel in prune.kernels(made)] == [
        "conv/kernel", "separable/pointwise_kernel", "scores/kernel",
    ]  # fmt: skip
    assert np.all(made.get_layer("separable").depthwise_kernel.numpy() != 0)
    # Only epochs with final masks count.
    assert report.best_epoch >= 2


def test_averaged_weights_leave_with_their_zeros() -> None:
    made = model()
    told = PruneHparams(0.5, "layer", begin=0.0, end=0.5, every_steps=2)
    changed = replace(small.hparams(epochs=4, ema_momentum=0.9), prune=told)
    added = Compression(made, changed, NAMES, replicas=1)
    stream, validation = small.stream()
    loop.fit(made, stream, validation, prepare(changed), extensions=added.extensions, echo=lambda line: None)
    assert prune.sparsity(added.finish(made)) == pytest.approx(0.5, abs=0.02)


def test_fake_numbers_are_those_of_int8_and_gradients_pass() -> None:
    kernel = tf.constant([[1.0, -0.2], [0.505, 0.1]])
    rounded = quantize_aware.fake_kernel(kernel, axes=[0])
    np.testing.assert_allclose(rounded, [[1.0, -0.2], [64 / 127, 64 / 127 * 0.2]], rtol=1e-5)
    values = tf.constant([-0.5, 0.0, 0.3004, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        fake = quantize_aware.fake_input(values, tf.constant(0.0), tf.constant(1.0))
    np.testing.assert_allclose(fake, [0.0, 0.0, round(0.3004 * 255) / 255, 1.0], atol=1e-6)
    np.testing.assert_allclose(tape.gradient(fake, values), [0.0, 1.0, 1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("xla", ["off", "on"])
def test_training_with_rounded_numbers_changes_calls_only_while_it_lasts(xla: str) -> None:
    made = model()
    images, _ = small.data(64)
    _, report = fit(made, xla=xla, quantize_aware=QuantizeAwareHparams(begin=0.25, momentum=0.5))
    assert math.isfinite(report.history["loss"][-1])
    assert report.history["loss"][-1] < report.history["loss"][0]
    assert all("call" not in layer.__dict__ for layer in made.layers)
    copy = keras.models.clone_model(made)
    copy.set_weights(made.get_weights())
    np.testing.assert_allclose(np.asarray(copy(images)), np.asarray(made(images)), atol=1e-6)
    assert report.best_epoch >= 2


def test_rounded_weights_cost_less_after_training_with_them() -> None:
    """Four bits' worth of difference would show; eight bits change scores by little in any case."""
    made = model()
    fit(made, quantize_aware=QuantizeAwareHparams(begin=0.25, momentum=0.5))
    images, _ = small.data(32)
    scores = np.asarray(made(images))
    for layer in quantize_aware.layers(made):
        for kernel, value, axes in quantize_aware._kernels(layer):
            kernel.assign(quantize_aware.fake_kernel(value, axes=axes))
    assert np.abs(np.asarray(made(images)) - scores).max() < 0.02


def test_rounding_costs_less_than_it_would_have_without(monkeypatch) -> None:
    """With five levels, so that it costs something: the loss on unseen examples, 0.55 against 0.65."""
    monkeypatch.setattr(quantize_aware, "_KERNEL_LEVELS", 2.0)
    images, labels = small.data(512, seed=9)

    def loss_when_rounded(**compression: object) -> float:
        keras.utils.set_random_seed(5)
        made = keras.Sequential(
            [
                keras.Input((6, 6, 2)),
                keras.layers.Conv2D(8, 3, activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(small.CLASSES, "softmax"),
            ]
        )
        fit(made, epochs=30, **compression)
        for layer in quantize_aware.layers(made):
            for kernel, value, axes in quantize_aware._kernels(layer):
                kernel.assign(quantize_aware.fake_kernel(value, axes=axes))
        return float(tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, made(images))))

    aware = loss_when_rounded(quantize_aware=QuantizeAwareHparams(begin=0.25, momentum=0.5))
    assert aware < 0.93 * loss_when_rounded()


def test_several_replicas_are_refused() -> None:
    with pytest.raises(TrainingError, match="works on one device"):
        quantize_aware.QuantizeAware(model(), QuantizeAwareHparams(), epochs=2, replicas=2)


def test_layers_that_rest_are_not_pruned() -> None:
    made = model()
    made.get_layer("conv").trainable = False
    told = replace(small.hparams(epochs=2), prune=PruneHparams(0.5, "layer", 0.0, 0.5, 2))
    added = Compression(made, told, NAMES, replicas=1)
    stream, validation = small.stream()
    loop.fit(made, stream, validation, prepare(told), extensions=added.extensions, echo=lambda line: None)
    served = added.finish(model())
    zeros = [float(np.mean(kernel.numpy() == 0)) for kernel in prune.kernels(served)]
    assert zeros[0] == 0.0
    assert zeros[1:] == pytest.approx([0.5, 0.5], abs=0.05)
