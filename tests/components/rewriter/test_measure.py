"""How many rounds of timing are taken; times are given, not measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from components.rewriter import measure

RECORDS = [b"record"] * 3
FEW, ALL = 7, measure.ROUNDS


class Fake:
    """A runtime that says how long each of its calls took: so many ms, over and over."""

    def __init__(self, *times_ms: float) -> None:
        self.calls = 0
        self._times_ms = times_ms

    def predict(self, records: Sequence[bytes]) -> None:
        pass

    def next_ms(self) -> float:
        self.calls += 1
        return self._times_ms[(self.calls - 1) % len(self._times_ms)]


@pytest.fixture(autouse=True)
def given_times(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(measure, "_milliseconds", lambda runtime, records: runtime.next_ms())
    # Two calls of each a round, so that a pair of times is a round's.
    monkeypatch.setattr(measure, "_CALLS_PER_ROUND", 2)
    yield


def _rounds(candidate: Fake, original: Fake, confidence: float = 0.95) -> int:
    return len(measure._interleaved(candidate, original, RECORDS, 1, ALL, confidence).ratios)


@pytest.mark.parametrize("ms", [0.5, 1.2])
def test_half_the_rounds_do_where_a_candidate_is_surely_faster_or_slower(ms: float) -> None:
    assert _rounds(Fake(ms), Fake(1.0)) == FEW


def test_all_rounds_are_taken_where_they_contradict_each_other() -> None:
    assert _rounds(Fake(0.9, 0.9, 1.1, 1.1), Fake(1.0)) == ALL


def test_all_rounds_are_taken_for_a_gain_that_few_could_have_by_chance() -> None:
    assert _rounds(Fake(0.97), Fake(1.0)) == ALL


def test_seven_rounds_are_too_few_for_more_confidence() -> None:
    assert _rounds(Fake(0.5), Fake(1.0), confidence=0.999) == ALL


def test_the_original_is_not_timed_against_itself() -> None:
    original = Fake(1.0, 3.0)
    assert _rounds(original, original) == FEW
    # Twice to get warm, as candidate and as original, then once a round; two calls each time.
    assert original.calls == 2 * (2 + FEW)


@pytest.mark.parametrize(
    ("second", "rounds"),
    [
        ((1.5,), FEW),  # surely slower
        ((1.0,), FEW),  # surely as good
        ((1.0, 1.0, 1.5, 1.5), ALL),
    ],
)
def test_a_run_off_ends_once_its_contenders_are_told_apart(
    second: tuple[float, ...], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes = {"one": Fake(1.0), "other": Fake(*second)}
    monkeypatch.setattr(measure.runtimes, "load", fakes.__getitem__)
    times = measure.run_off({name: name for name in fakes}, RECORDS, 1)
    assert {name: len(taken) for name, taken in times.items()} == dict.fromkeys(fakes, rounds)


def test_a_run_off_of_slow_contenders_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three, once 9 s have passed and as many rounds as bound a median were taken."""
    seconds = iter(range(0, 1000, 3))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: float(next(seconds)))
    fakes = {"one": Fake(1.0), "other": Fake(1.0, 1.0, 1.5, 1.5), "third": Fake(1.0)}
    monkeypatch.setattr(measure.runtimes, "load", fakes.__getitem__)
    times = measure.run_off({name: name for name in fakes}, RECORDS, 1)
    # The clock is looked at after each round from the seventh on.
    assert {len(taken) for taken in times.values()} == {FEW + 3}


@pytest.mark.parametrize(("confidence", "rounds"), [(0.95, FEW), (0.999, 10)])
def test_slow_models_get_as_many_rounds_as_the_confidence_needs(
    confidence: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer, the bound is infinite, and no candidate could qualify."""
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: float(next(seconds)))
    taken = measure._interleaved(Fake(0.96, 0.96), Fake(1.0), RECORDS, 1, ALL, confidence)
    assert len(taken.ratios) == rounds
    assert measure.median_upper_bound(taken.ratios, confidence) < 1.0
