"""Training itself: what a cut batch, a precision, a stop and a bad number come to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import CheckpointHparams
from modules.input_pipeline import TrainingStream
from modules.text.layers import EncoderBlock
from modules.training import fused_norm, loop, pace
from modules.training.checkpoints import CheckpointStore
from modules.training.rebuild import in_float32
from modules.training.recompute import recomputed
from modules.training.session import prepare
from pipelines import profiling
from tests.modules.training import small
from tests.modules.training.small import difference, fit, hparams, weights


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(("precision", "limit"), [("float32", 1e-6), ("mixed_float16", 3e-3)])
def test_accumulation_equals_the_whole_batch(optimizer: str, precision: str, limit: float) -> None:
    """With 70 examples in batches of 16 and 3 micro-batches, no part is as large as another."""
    settings = {"optimizer": optimizer, "learning_rate": 0.01, "precision": precision}
    whole, _ = fit(hparams(**settings), examples=70)
    cut, report = fit(hparams(**settings, accumulate_steps=3), examples=70)
    assert difference(weights(whole), weights(cut)) < limit
    assert report.steps == 10


def test_our_steps_are_those_of_keras() -> None:
    """Against compile and fit, on the same batches: SGD with momentum, clipping by value."""
    ours, _ = fit(
        hparams(optimizer_options={"momentum": 0.9}, clip="value", clip_at=0.01, epochs=1), norm=True
    )
    keras.utils.set_random_seed(5)
    theirs = small.model(norm=True)
    theirs.compile(
        keras.optimizers.SGD(0.05, momentum=0.9, clipvalue=0.01), "sparse_categorical_crossentropy"
    )
    batches, _ = small.stream()
    theirs.fit(batches.batches(epoch=0, step=0, epochs=1), shuffle=False, verbose=0)
    for mine, other in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), atol=1e-6)


def test_xla_gives_the_same_training() -> None:
    plain, first = fit(hparams(), norm=True, examples=72)
    compiled, second = fit(hparams(xla="on"), norm=True, examples=72)
    assert difference(weights(plain), weights(compiled)) < 1e-5
    assert second.choices["xla"]["xla"] is True
    assert second.history["val_loss"] == pytest.approx(first.history["val_loss"], abs=1e-5)


def test_what_does_not_compile_is_named_and_trained_without_xla() -> None:
    class Upper(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            text = tf.strings.upper(tf.strings.as_string(inputs))
            return inputs + 0.0 * tf.stop_gradient(tf.strings.to_number(text))

    def build() -> keras.Model:
        inputs = keras.Input((6, 6, 2))
        x = keras.layers.Flatten()(Upper()(inputs))
        return keras.Model(inputs, keras.layers.Dense(small.CLASSES, "softmax")(x))

    lines: list[str] = []
    _, report = fit(hparams(xla="on"), build=build, echo=lines.append)
    assert report.epochs == 2
    assert report.steps == 8
    assert report.choices["xla"]["xla"] is False
    assert any("XLA is off" in line and "String" in line for line in lines), lines


def test_float16_skips_overflowing_steps_and_counts_them() -> None:
    session = prepare(hparams(precision="mixed_float16", epochs=4))

    def build() -> keras.Model:
        inputs = keras.Input((6, 6, 2))
        x = keras.layers.Flatten()(keras.layers.Rescaling(300.0)(inputs))
        return keras.Model(
            inputs, keras.layers.Dense(small.CLASSES, "softmax", dtype="float32")(keras.layers.Dense(8)(x))
        )

    made, report = fit(session.hparams, session=session, build=build)
    assert report.skipped_steps > 0
    assert all(np.all(np.isfinite(value)) for value in weights(made))


def test_bfloat16_learns_and_is_served_in_float32() -> None:
    session = prepare(hparams(precision="mixed_bfloat16", epochs=6))
    made, report = fit(session.hparams, session=session)
    assert report.history["loss"][-1] < report.history["loss"][0]
    served = in_float32(made, small.model)
    assert {layer.compute_dtype for layer in served.layers} == {"float32"}
    assert difference(weights(served), weights(made)) == 0.0
    images, _ = small.data()
    np.testing.assert_allclose(served(images), made(images), atol=0.02)


def test_a_checkpoint_holds_the_best_epochs_weights_too(tmp_path: Path) -> None:
    """The last one was written two epochs after the best."""
    checkpoint = CheckpointHparams(every_steps=4, every_minutes=0.0, keep=1)
    settings = {"epochs": 40, "learning_rate": 1.5, "early_stopping_patience": 2}
    store = CheckpointStore(str(tmp_path), identity={})
    model, report = fit(hparams(**settings, checkpoint=checkpoint), store=store)
    latest = store.latest()
    assert latest is not None and latest.step == 4 * (report.best_epoch + 2)
    for index, variable in enumerate(model.variables):
        np.testing.assert_array_equal(latest.arrays[f"best/{index}"], variable.numpy())


def test_the_average_is_judged_and_returned() -> None:
    plain, _ = fit(hparams(epochs=3))
    averaged, report = fit(hparams(epochs=3, ema_momentum=0.9))
    assert difference(weights(plain), weights(averaged)) > 1e-4
    _, validation = small.stream()
    images = np.concatenate([batch.numpy() for batch, _ in validation])
    labels = np.concatenate([batch.numpy() for _, batch in validation])
    scores = averaged(images).numpy()
    loss = -np.mean(np.log(scores[np.arange(len(labels)), labels]))
    assert loss == pytest.approx(min(report.history["val_loss"]), rel=1e-5)


def test_class_weights_change_the_loss() -> None:
    _, plain = fit(hparams(epochs=1))
    _, weighted = fit(hparams(epochs=1, class_weights="balanced"), class_counts=[60, 2, 2])
    assert weighted.history["loss"][0] != pytest.approx(plain.history["loss"][0], abs=1e-3)


def test_early_stopping_restores_the_best_epoch() -> None:
    _, report = fit(hparams(epochs=40, learning_rate=1.5, early_stopping_patience=2))
    losses = report.history["val_loss"]
    assert report.best_epoch == 1 + int(np.argmin(losses))
    assert report.epochs == len(losses) < 40
    assert report.epochs == report.best_epoch + 2


def test_a_bad_number_stops_naming_step_and_tensor() -> None:
    class Blow(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.factor = self.add_weight(shape=(), initializer="ones", name="factor")

        def call(self, inputs: Any) -> Any:
            return inputs * tf.where(self.factor < 0.999, float("nan"), 1.0) * self.factor

    def build() -> keras.Model:
        inputs = keras.Input((6, 6, 2))
        x = keras.layers.Flatten()(Blow(name="blow")(inputs))
        return keras.Model(inputs, keras.layers.Dense(small.CLASSES, "softmax")(x))

    with pytest.raises(TrainingError, match="not a finite number") as caught:
        fit(hparams(epochs=20, steps_per_call=3), build=build)
    assert re.match(r"epoch \d+, step \d+: loss, gradient of blow/factor", caught.value.place)


def test_keras_callbacks_are_honoured() -> None:
    seen: list[str] = []

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            seen.append(f"begin {float(self.model.optimizer.learning_rate.numpy()):.2f}")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(f"batch {batch} {'loss' in logs}")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append(f"epoch {epoch} {sorted(logs)}")
            self.model.stop_training = True

    fit(hparams(steps_per_call=2), callbacks=[Watch()])
    names = ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert seen == ["begin 0.05", "batch 1 True", "batch 3 True", f"epoch 0 {names}"]


def test_empty_splits_are_refused() -> None:
    empty = tf.data.Dataset.from_tensor_slices(small.data(4)).take(0)
    session = prepare(hparams())
    batches, validation = small.stream()
    with pytest.raises(TrainingError, match="train split is empty"):
        loop.fit(small.model(), TrainingStream(empty, 0, 16, seed=0), validation, session)
    with pytest.raises(TrainingError, match="validation split is empty"):
        loop.fit(small.model(), batches, empty.batch(4), session, echo=lambda line: None)


def test_resuming_another_model_is_refused(tmp_path: Path) -> None:
    settings = hparams(checkpoint=CheckpointHparams(every_steps=2, every_minutes=0.0))
    store = CheckpointStore(str(tmp_path), identity={"data": "d"})
    fit(settings, store=store)
    with pytest.raises(TrainingError, match="does not fit the model"):
        fit(settings, norm=True, store=CheckpointStore(str(tmp_path), identity={"data": "d"}))


def test_input_wait_is_measured_and_warned_about() -> None:
    lines: list[str] = []
    images, labels = small.data()

    def slow(image: Any, label: Any) -> Any:
        total = tf.reduce_sum(tf.random.stateless_normal((400, 400), [1, 2]) @ tf.ones((400, 1)))
        return image + 0.0 * total, label

    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).map(slow)
    session = prepare(hparams(epochs=3))
    report = loop.fit(
        small.model(),
        TrainingStream(dataset, len(labels), 16, seed=0),
        small.stream()[1],
        session,
        echo=lines.append,
    )
    assert report.input_wait_share is not None
    warned = any("waiting for input" in line for line in lines)
    assert warned == (report.input_wait_share > pace.INPUT_WAIT_WARNING)


@pytest.mark.parametrize("settings", [{}, {"xla": "on"}, {"accumulate_steps": 2}])
def test_recomputing_gives_the_same_gradients(settings: dict[str, Any]) -> None:
    """Dropout included, and seeds are left where they would be: the variables hold them too."""
    plain, _ = fit(hparams(epochs=2, **settings), norm=True, dropout=0.2)
    again, _ = fit(hparams(epochs=2, recompute=True, **settings), norm=True, dropout=0.2)
    for one, other in zip(plain.variables, again.variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-6)


def block_gradients(*, enabled: bool) -> tuple[list[np.ndarray], list[np.ndarray], list[str]]:
    """Of an encoder block with dropout that is called twice in a step; seeds afterwards; what recomputes."""
    keras.utils.set_random_seed(7)
    inputs = keras.Input((5, 8))
    block = EncoderBlock(8, 2, 16, dropout=0.3, name="block")
    mask = keras.layers.Lambda(lambda x: tf.ones_like(x[:, :, 0]), name="mask")(inputs)
    made = keras.Model(inputs, block([block([inputs, mask]), mask]))
    x = tf.random.stateless_normal((3, 5, 8), [1, 2])
    with recomputed(made, enabled=enabled) as layers:
        step = tf.function(lambda: _gradients(made, x))
        gradients = [gradient.numpy() for _ in range(2) for gradient in step()]
    seeds = [variable.numpy() for variable in made.non_trainable_variables]
    return gradients, seeds, [*layers.recomputed]


def _gradients(made: keras.Model, x: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(made(x, training=True)))
    gradients: list[tf.Tensor] = tape.gradient(loss, [v.value for v in made.trainable_variables])
    return gradients


def test_a_transformers_block_recomputes_with_its_dropout() -> None:
    plain, seeds, none = block_gradients(enabled=False)
    again, same_seeds, layers = block_gradients(enabled=True)
    assert "block" in layers and not none
    for one, other in zip([*plain, *seeds], [*again, *same_seeds], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_layer_that_is_fused_and_recomputed_is_called_as_before_in_the_end() -> None:
    inputs = keras.Input((6, 6, 2))
    x = keras.layers.LayerNormalization(name="norm")(inputs)
    x = keras.layers.Dense(small.CLASSES, "softmax")(keras.layers.Flatten()(x))
    made, report = fit(hparams(epochs=1, recompute=True), build=lambda: keras.Model(inputs, x))
    assert report.epochs == 1
    assert not [layer.name for layer in made.layers if "call" in layer.__dict__]


def test_only_layers_that_keep_moving_statistics_are_not_recomputed() -> None:
    made = small.model(norm=True, dropout=0.2)
    with recomputed(made, enabled=True) as layers:
        assert len(layers.recomputed) == 5  # convolution, activation, pooling, dropout, scores
        assert layers.left_out == ["norm"]
        assert "1 keep what they make, since calls change them (norm)" in str(layers)


def test_the_fused_kernel_is_keras_normalisation(monkeypatch: pytest.MonkeyPatch) -> None:
    fused, _ = fit(hparams(fused_normalization=True), norm=True)
    slow, _ = fit(hparams(fused_normalization=False), norm=True)
    for one, other in zip(fused.variables, slow.variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=2e-6)


def test_the_fused_kernel_leaves_no_trace() -> None:
    made = small.model(norm=True)
    layer = made.get_layer("norm")
    original = layer.call
    with fused_norm.fused(made) as count:
        assert count == 1
        assert layer.call != original
    assert layer.call == original
    with fused_norm.fused(made, enabled=False) as count:
        assert count == 0


def test_the_trace_and_the_summaries_are_written(tmp_path: Path) -> None:
    settings = hparams(profile="2-6", tensorboard=True, histograms=2, epochs=4)
    fit(settings, board_folder=str(tmp_path))
    seen: dict[str, list[int]] = {}
    for path in tmp_path.glob("events.out.tfevents.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                seen.setdefault(value.tag, []).append(event.step)
            if event.graph_def:
                seen.setdefault("graph", []).append(event.step)
    assert seen["epoch/loss"] == [4, 8, 12, 16]
    assert seen["conv/kernel"] == [8, 16]
    assert len(seen["graph"]) == 1
    profile = profiling.read(profiling.find(tmp_path))
    assert profile.steps == 4
    assert profile.compute_ms > 0
    assert any("Conv2D" in item.name for item in profile.operations)


def test_a_session_can_be_changed_without_its_devices() -> None:
    session = prepare(hparams())
    assert replace(session, hparams=hparams(epochs=7)).placement is session.placement
    assert session.describe()["strategy"] == "one_device"
