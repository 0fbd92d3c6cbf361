"""How many steps a call takes: by the clock, but where nothing may depend on it."""

from __future__ import annotations

import pytest

from modules.hparams import TrainHparams
from modules.training.pace import Pace


@pytest.mark.parametrize(
    ("settings", "workers", "expected"),
    [
        ({}, 1, {None: 1, 0.05: 5, 0.001: 128}),
        ({"deterministic": True}, 1, {None: 8, 0.05: 8, 0.001: 8}),
        ({}, 2, {None: 8, 0.05: 8, 0.001: 8}),
        ({"steps_per_call": 3, "deterministic": True}, 1, {None: 3, 0.05: 3, 0.001: 3}),
    ],
)
def test_steps_of_a_call(settings, workers, expected) -> None:
    pace = Pace(TrainHparams(**settings), workers=workers, timed=False)
    assert {step_s: pace.steps_of_call([1000], step_s) for step_s in expected} == expected
    assert pace.steps_of_call([1000, 2], 0.001) == 2
