"""The choice of XLA, from made-up timings."""

from __future__ import annotations

import keras
import pytest

from modules.training.xla import XlaChooser, operation_in, unfit_for


def drive(chooser: XlaChooser, plain_s: float, compiled_s: float, calls: int = 100) -> None:
    begun: set[bool] = set()
    for _ in range(calls):
        steady_s = compiled_s if chooser.jit else plain_s
        chooser.observe(chooser.jit, 1, steady_s if chooser.jit in begun else 2.0)
        begun.add(chooser.jit)


@pytest.mark.parametrize(("compiled_s", "jit"), [(0.3, True), (0.49, False), (0.7, False)])
def test_auto_keeps_the_faster(compiled_s: float, jit: bool) -> None:
    chooser = XlaChooser("auto", remaining_steps=10_000)
    drive(chooser, 0.5, compiled_s)
    record = chooser.record()
    assert (chooser.measuring, record["xla"]) == (False, jit)
    assert (record["plain_step_ms"], record["xla_step_ms"]) == (500.0, pytest.approx(compiled_s * 1000))


def test_a_hopeless_first_step_ends_the_trial() -> None:
    chooser = XlaChooser("auto", remaining_steps=10_000)
    drive(chooser, 0.5, 8.0, calls=6)
    record = chooser.record()
    assert (chooser.measuring, record["xla"], record["xla_step_ms"]) == (False, False, 8000.0)
    assert "16.0 times as long" in record["reason"]


def test_grouped_convolutions_are_not_tried_on_a_processor() -> None:
    inputs = keras.Input((8, 8, 4))
    plain = keras.Model(inputs, keras.layers.Conv2D(4, 3)(inputs))
    separable = keras.Model(inputs, keras.layers.SeparableConv2D(4, 3, name="narrow")(inputs))
    grouped = keras.Model(inputs, keras.layers.Conv2D(4, 3, groups=2)(inputs))
    assert unfit_for(plain, "CPU") == unfit_for(separable, "GPU") == ""
    assert "narrow" in unfit_for(separable, "CPU")
    assert unfit_for(grouped, "CPU")
    chooser = XlaChooser("auto", remaining_steps=10_000, unfit="no kernel")
    assert (chooser.jit, chooser.measuring, chooser.record()["reason"]) == (False, False, "no kernel")
    assert XlaChooser("on", remaining_steps=10, unfit="no kernel").jit


def test_batches_of_several_lengths_are_not_tried_on_a_processor() -> None:
    ids = keras.Input((None,))
    texts = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(9, 2)(ids)))
    assert "each length" in unfit_for(texts, "CPU")
    assert unfit_for(texts, "GPU") == ""


def test_short_trainings_do_not_compile() -> None:
    chooser = XlaChooser("auto", remaining_steps=30)
    drive(chooser, 0.5, 0.1, calls=20)
    assert not chooser.compiled
    assert "too short" in chooser.record()["reason"]


@pytest.mark.parametrize(("mode", "jit"), [("on", True), ("off", False), ("autocluster", False)])
def test_set_modes_measure_nothing(mode: str, jit: bool) -> None:
    chooser = XlaChooser(mode, remaining_steps=10_000)
    assert (chooser.jit, chooser.measuring) == (jit, False)


def test_what_was_recorded_holds() -> None:
    recorded = {"xla": True, "reason": "measured"}
    chooser = XlaChooser("auto", remaining_steps=10_000, recorded=recorded)
    assert (chooser.jit, chooser.measuring) == (True, False)


def test_nothing_is_timed_where_that_is_forbidden() -> None:
    chooser = XlaChooser("auto", remaining_steps=10_000, measure=False)
    assert (chooser.jit, chooser.measuring) == (False, False)


def test_the_unsupported_operation_is_named() -> None:
    message = (
        "Detected unsupported operations when trying to compile graph f on XLA_CPU_JIT: StringUpper\nmore"
    )
    assert operation_in(message) == "StringUpper"
    assert operation_in("something else\nmore") == "something else"
    assert operation_in("") == "no reason given"
