"""How many steps go into a call, and the share of time that went into waiting."""

from __future__ import annotations

import pytest

from modules.training.pace import Pace, warn_of_waiting
from modules.training.steps import StepsResult
from tests.modules.training.small import hparams


def result(wait_s: float, examples: float = 64.0) -> StepsResult:
    return StepsResult({"loss": 1.0, "examples": examples}, None, (), wait_s, 0)


def test_calls_last_about_a_quarter_of_a_second_within_all_limits() -> None:
    pace = Pace(hparams(), workers=1, timed=True)
    assert pace.steps_of_call([100], None) == 1
    assert pace.steps_of_call([100], 0.01) == 25
    assert pace.steps_of_call([100, 7], 0.01) == 7
    assert pace.steps_of_call([1000], 1e-6) == 128
    assert pace.steps_of_call([100], 3.0) == 1
    assert Pace(hparams(steps_per_call=5), workers=1, timed=True).steps_of_call([100], 0.01) == 5


def test_workers_do_not_follow_their_own_clocks() -> None:
    pace = Pace(hparams(), workers=2, timed=True)
    assert pace.steps_of_call([100], None) == pace.steps_of_call([100], 0.001) == 8


def test_rates_are_of_steady_calls_and_waiting_of_all() -> None:
    pace = Pace(hparams(), workers=1, timed=True)
    assert pace.examples_per_second() is None
    pace.add(8.0, result(0.4), steady=False)
    pace.add(2.0, result(1.6, examples=100.0), steady=True)
    assert pace.examples_per_second() == pytest.approx(50.0)
    assert pace.wait_share() == pytest.approx(0.2)
    assert Pace(hparams(), workers=1, timed=False).wait_share() is None


@pytest.mark.parametrize(("share", "warned"), [(None, False), (0.0, False), (0.1, False), (0.11, True)])
def test_above_a_tenth_it_is_warned_about(share: float | None, warned: bool) -> None:
    lines: list[str] = []
    assert warn_of_waiting(share, lines.append) is warned
    assert lines == (
        ["Warning: 11% of the training time was spent waiting for input. Decode less per step (smaller "
         "images, cached data) or give the input more cores."] if warned else []
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "workers", "expected"),
    [
        ({}, 1, {None: 1, 0.05: 5, 0.001: 128}),
        ({"deterministic": True}, 1, {None: 8, 0.05: 8, 0.001: 8}),
        ({}, 2, {None: 8, 0.05: 8, 0.001: 8}),
        ({"steps_per_call": 3, "deterministic": True}, 1, {None: 3, 0.05: 3, 0.001: 3}),
    ],
)
def test_nothing_follows_the_clock_where_nothing_may_depend_on_it(settings, workers, expected) -> None:
    pace = Pace(hparams(**settings), workers=workers, timed=False)
    assert {step_s: pace.steps_of_call([1000], step_s) for step_s in expected} == expected
    assert pace.steps_of_call([1000, 2], 0.001) == 2
