"""Freezing and stages: what moves, what rests, what a killed training goes on from."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest

from modules.errors import TrainingError
from modules.training import freezing, transfer
from modules.training.checkpoints import CheckpointStore
from modules.training.session import prepare
from tests.modules.training import small


def model() -> keras.Model:
    """Two convolutions with normalisation, and a head."""
    keras.utils.set_random_seed(5)
    inputs = keras.Input((6, 6, 2))
    x = inputs
    for index in range(2):
        x = keras.layers.Conv2D(4, 3, padding="same", use_bias=False, name=f"conv{index}")(x)
        x = keras.layers.BatchNormalization(momentum=0.5, name=f"norm{index}")(x)
        x = keras.layers.Activation("relu", name=f"relu{index}")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(small.CLASSES, "softmax", name="scores")(x))


def fit(stages: list[transfer.Stage], **arguments: object) -> tuple[keras.Model, set[str], object]:
    """Trains in stages; the model, the layers that moved, and the report."""
    session = prepare(small.hparams())
    made = model()
    before = {layer.name: layer.get_weights() for layer in made.layers}
    stream, validation = small.stream()
    arguments.setdefault("echo", lambda line: None)
    report = transfer.fit(made, stages, stream, validation, session, **arguments)
    moved = {
        layer.name
        for layer in made.layers
        if any(not np.array_equal(a, b) for a, b in zip(before[layer.name], layer.get_weights(), strict=True))
    }
    return made, moved, report


def stage(freeze: int | str, **changes: object) -> transfer.Stage:
    return replace(transfer.Stage(freeze, 1, 0.05, train_norms=False), **changes)


@pytest.mark.parametrize("cached", [True, False])
def test_a_resting_backbone_does_not_move_at_all(cached: bool) -> None:
    """Neither weights nor moving statistics, whether its features are computed once or not."""
    _, moved, _ = fit([stage("all", cache_features=cached)])
    assert moved == {"scores"}


def test_features_computed_once_train_the_head_as_the_whole_model_does() -> None:
    heads = [fit([stage("all", cache_features=cached)])[0].get_layer("scores") for cached in (True, False)]
    for one, other in zip(heads[0].get_weights(), heads[1].get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


def test_the_lowest_layers_rest_and_norms_above_them_too() -> None:
    assert fit([stage(3)])[1] == {"conv1", "scores"}
    assert fit([stage(3, train_norms=True)])[1] == {"conv1", "norm1", "scores"}
    assert fit([stage("none")])[1] == {"conv0", "conv1", "scores"}


def test_stages_follow_each_other_and_are_reported_together() -> None:
    lines: list[str] = []
    trained, moved, report = fit(
        [stage("all", epochs=2), stage(3, epochs=3, learning_rate=0.01)], echo=lines.append
    )
    assert moved == {"conv1", "scores"}
    assert report.epochs == 5 and len(report.history["val_loss"]) == 5
    assert 3 <= report.best_epoch <= 5
    assert [item["freeze"] for item in report.choices["stages"]] == ["all", 3]
    assert "15 of 263 weights are trained on features computed once" in lines[0]
    assert all(layer.trainable for layer in trained.layers)


def test_a_killed_training_goes_on_in_the_stage_it_was_in(tmp_path) -> None:
    store = CheckpointStore(str(tmp_path / "state"), identity={"model": "x"})
    session = prepare(small.hparams(checkpoint=replace(small.hparams().checkpoint, every_steps=4)))
    stages = [stage("all"), stage("none", epochs=2)]
    arguments = {"store": store, "echo": lambda line: None}

    class Killed(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            if epoch == 0 and len(self.model.layers) > 3:
                raise KeyboardInterrupt

    made = model()
    stream, validation = small.stream()
    with pytest.raises(KeyboardInterrupt):
        transfer.fit(made, stages, stream, validation, session, callbacks=[Killed()], **arguments)
    resumed = model()
    report = transfer.fit(resumed, stages, stream, validation, session, **arguments)
    whole = model()
    transfer.fit(whole, stages, stream, validation, session, echo=lambda line: None)
    assert report.resumed_from_step == 4
    assert small.difference(resumed.get_weights(), whole.get_weights()) < 1e-6
    store.clear()
    assert list(tmp_path.rglob("step-*")) == []


def test_mistakes_are_named() -> None:
    with pytest.raises(TrainingError, match="The backbone has 6 layers"):
        freezing.apply(model(), 7)
    inputs = keras.Input((2,))
    with pytest.raises(TrainingError, match="no layer named 'pool'"):
        freezing.apply(keras.Model(inputs, keras.layers.Dense(2)(inputs)), "all")
