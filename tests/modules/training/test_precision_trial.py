"""Precision decided by timing the model that is to be trained."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.hparams.train import TrainHparams
from modules.input_pipeline import plain_batches
from modules.training import classifier, devices, precision, precision_trial
from modules.training.precision import PrecisionChoice
from modules.training.session import Session, prepare
from modules.training.transfer import Stage

INPUTS = tf.ones((4, 3))


def _build() -> keras.Model:
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(5, "relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2, "softmax", dtype="float32")(hidden))


@pytest.fixture
def session() -> Session:
    made = prepare(TrainHparams(precision="float32"), environment={})
    return replace(made, precision=PrecisionChoice("mixed_bfloat16", "has units", tentative=True))


@pytest.mark.parametrize(("best", "policy"), [([0.02, 0.01], "mixed_bfloat16"), ([0.0102, 0.01], "float32")])
def test_the_faster_is_taken(
    best: list[float], policy: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision_trial, "_best_of_turns", lambda runs: best)
    settled = precision_trial.settle(session, _build, INPUTS, steps=10**9)
    assert settled.precision.policy == policy
    assert not settled.precision.tentative
    assert f"float32 {1000 * best[0]:.1f} ms, bfloat16 10.0 ms" in settled.precision.reason


def test_both_are_really_timed(session: Session) -> None:
    settled = precision_trial.settle(session, _build, INPUTS, steps=10**9)
    assert "this model's gradients" in settled.precision.reason


def test_a_short_training_stays_in_float32(session: Session) -> None:
    settled = precision_trial.settle(session, _build, INPUTS, steps=1)
    assert settled.precision.policy == "float32"
    assert "too short" in settled.precision.reason


def test_a_short_training_of_small_steps_makes_no_model_to_find_out(session: Session) -> None:
    def build() -> keras.Model:
        raise AssertionError("a model was made")

    small = replace(session, small=True)
    settled = precision_trial.settle(small, build, INPUTS, steps=510)
    assert settled.precision == PrecisionChoice("float32", precision_trial.TOO_SHORT)


def test_a_device_that_was_not_asked_is_asked_before_a_long_training(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "cpu_bfloat16_units", lambda: ["amx_bf16"])
    monkeypatch.setattr(precision, "_gain", lambda operation: 0.9)
    small = prepare(TrainHparams(precision="auto"), environment={}, small=True)
    assert small.precision.tentative and not small.precision.probed
    settled = precision_trial.settle(small, _build, INPUTS, steps=10**9)
    assert settled.precision.policy == "float32"
    assert "convolution 0.90 times" in settled.precision.reason


def test_the_model_is_the_same_as_without_a_trial(session: Session) -> None:
    def made() -> keras.Model:
        keras.utils.set_random_seed(session.hparams.seed)
        return _build()

    keras.utils.clear_session(free_memory=False)
    expected = made()
    precision_trial.settle(session, _build, INPUTS, steps=10**9)
    model = _build()
    assert [v.path for v in model.variables] == [v.path for v in expected.variables]
    for variable, other in zip(model.variables, expected.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), other.numpy())


def test_what_is_not_tentative_is_left_alone(session: Session) -> None:
    sure = replace(session, precision=PrecisionChoice("mixed_float16", "set"))
    assert precision_trial.settle(sure, _build, INPUTS, steps=10**9) is sure


LONG = 10**9
ON_FEATURES, WHOLE = (
    Stage("all", LONG, 0.1, train_norms=False, cache_features=True),
    Stage("none", LONG, 0.1, train_norms=True),
)


@pytest.mark.parametrize(
    ("stages", "tried"),
    [
        ([], True),
        ([ON_FEATURES], False),
        ([replace(ON_FEATURES, cache_features=False)], True),
        ([ON_FEATURES, replace(WHOLE, epochs=1)], False),
        ([replace(ON_FEATURES, epochs=1), WHOLE], True),
    ],
)
def test_only_steps_of_the_whole_model_win_a_trial_back(
    stages: list[Stage], tried: bool, session: Session
) -> None:
    """A head that is trained on a resting backbone's features, for however long, gains nothing by it."""
    pairs = tf.data.Dataset.from_tensor_slices((np.ones((8, 3), np.float32), np.eye(2)[[0, 1] * 4]))
    task: Any = SimpleNamespace(stages=stages, build=lambda classes: _build(), batching=plain_batches)
    loaded: Any = SimpleNamespace(pairs=pairs, class_counts=[4, 4])
    long = replace(session, hparams=replace(session.hparams, epochs=LONG, batch_size=4))
    settled = classifier._settled(long, task, ["no", "yes"], loaded)
    assert ("this model's gradients" in settled.precision.reason) is tried
    assert ("too short" in settled.precision.reason) is not tried
