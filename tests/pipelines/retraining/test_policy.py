"""Whether to train again: every trigger, in what order, and never twice for one cause."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from pipelines.errors import ConfigError
from pipelines.retraining import ticks
from pipelines.retraining.policy import Round, Serving, State, decide, delay_s
from pipelines.retraining.settings import Backoff, Live, Predictions, Retraining

DAY = 86_400.0
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC).timestamp()
SERVING = Serving(3, NOW - DAY)


def done(trigger: str, outcome: str = "promoted", spans=(), ended: float = NOW - DAY) -> Round:
    return Round(trigger, outcome, ended, frozenset(spans))  # type: ignore[arg-type]


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_without_triggers_nothing_is_done() -> None:
    assert decide(Retraining(), State(0.0), NOW).action == "wait"


class TestSpans:
    settings = Retraining(on_new_span=True)

    def test_the_first_span_is_new(self) -> None:
        decision = decide(self.settings, State(0.0, spans=[(1, 0)]), NOW)
        assert (decision.action, decision.trigger) == ("run", "span-1v0")

    def test_what_was_trained_on_is_not(self) -> None:
        state = State(0.0, spans=[(1, 0), (2, 0)], trained_on=frozenset({(1, 0), (2, 0)}), serving=SERVING)
        assert decide(self.settings, state, NOW).action == "wait"

    def test_a_new_version_of_a_span_is_new(self) -> None:
        state = State(0.0, spans=[(1, 0), (2, 0), (2, 1)], trained_on=frozenset({(1, 0), (2, 0)}))
        decision = decide(self.settings, state, NOW)
        assert (decision.trigger, decision.reason) == ("span-2v1", "new: span 2, version 1")

    def test_a_span_that_arrives_after_its_successor_is_used(self) -> None:
        rounds = [done("span-1v0", spans=[(1, 0)]), done("span-3v0", spans=[(1, 0), (3, 0)])]
        state = State(
            0.0, spans=[(1, 0), (2, 0), (3, 0)], window=7, rounds=rounds, trained_on=rounds[1].spans
        )
        decision = decide(self.settings, state, NOW)
        assert (decision.action, decision.trigger) == ("run", "span-2v0")
        assert "arrived late" in decision.reason

    def test_one_that_lies_before_the_window_is_passed_over_once(self) -> None:
        state = State(0.0, spans=[(1, 0), (5, 0), (6, 0)], window=2, trained_on=frozenset({(5, 0), (6, 0)}))
        decision = decide(self.settings, state, NOW)
        assert (decision.action, decision.trigger) == ("skip", "span-1v0")
        noted = replace(state, rounds=[done("span-1v0", "skipped")])
        assert decide(self.settings, noted, NOW).action == "wait"

    def test_what_was_too_old_from_the_first_is_not_late(self) -> None:
        spans = [(number, 0) for number in range(1, 10)]
        state = State(0.0, spans=spans, window=2, older=frozenset(spans[:7]), trained_on=frozenset(spans[7:]))
        assert decide(self.settings, state, NOW).action == "wait"
        more = replace(state, spans=[*spans, (10, 0)])
        assert decide(self.settings, more, NOW).reason == "new: span 10"

    @pytest.mark.parametrize("outcome", ["promoted", "refused", "bad_data", "unchanged", "rolled_back"])
    def test_a_span_is_dealt_with_once(self, outcome: str) -> None:
        state = State(0.0, spans=[(1, 0)], rounds=[done("span-1v0", outcome, [(1, 0)])])
        assert decide(self.settings, state, NOW).action == "wait"

    def test_after_a_failure_it_is_tried_again(self) -> None:
        failed = done("span-1v0", "failed", [(1, 0)], ended=NOW - DAY)
        state = State(0.0, spans=[(1, 0)], rounds=[failed], failures=[failed])
        assert decide(self.settings, state, NOW).trigger == "span-1v0"


class TestFailures:
    settings = Retraining(on_new_span=True, backoff=Backoff(first_minutes=10.0, stop_after=3))

    def test_delays_grow_and_vary_by_no_more_than_the_jitter(self) -> None:
        backoff = self.settings.backoff
        failed = [done(f"span-{number}v0", "failed") for number in range(8)]
        delays = [delay_s(backoff, failed[:count]) / 60 for count in range(1, 9)]
        for delay, base in zip(delays, [10, 20, 40, 80, 160, 240, 240, 240], strict=True):
            assert base <= delay <= base * 1.2
        assert delays == [delay_s(backoff, failed[:count]) / 60 for count in range(1, 9)]

    def test_it_waits_and_then_stops(self) -> None:
        failed = done("span-1v0", "failed", ended=NOW - 60)
        state = State(0.0, spans=[(1, 0)], rounds=[failed], failures=[failed])
        decision = decide(self.settings, state, NOW)
        assert decision.action == "wait"
        assert NOW < decision.until <= NOW + 12 * 60
        assert decide(self.settings, state, decision.until + 1).action == "run"
        stopped = decide(self.settings, replace(state, failures=[failed] * 3), NOW + 100 * DAY)
        assert "stopped after 3 failures in a row" in stopped.reason


class TestCron:
    settings = Retraining(every="0 3 * * *", timezone="Europe/Berlin")

    def test_a_tick_is_due_from_its_time_on(self) -> None:
        tick = at("2026-03-10T03:00", "Europe/Berlin")
        before = decide(self.settings, State(began=tick - DAY + 1), tick - 1)
        assert (before.action, before.until) == ("wait", tick)
        decision = decide(self.settings, State(began=tick - DAY + 1), tick)
        assert (decision.action, decision.trigger) == ("run", "cron-2026-03-10T02:00Z")

    def test_a_tick_is_used_once(self) -> None:
        tick = at("2026-03-10T03:00", "Europe/Berlin")
        state = State(began=tick - DAY + 1, rounds=[done("cron-2026-03-10T02:00Z")])
        assert decide(self.settings, state, tick + 60).action == "wait"

    def test_ticks_before_it_was_set_up_are_nobodys(self) -> None:
        assert decide(self.settings, State(began=NOW - 60), NOW).action == "wait"

    def test_missed_ticks_are_made_up_for_once_or_left_out(self) -> None:
        tick = at("2026-03-10T03:00", "Europe/Berlin")
        state = State(began=tick - 10 * DAY)
        made_up = decide(self.settings, state, tick + 5 * 3600)
        assert made_up.action == "run"
        assert made_up.reason.startswith("made up for")
        after = replace(state, rounds=[done(made_up.trigger)])
        assert decide(self.settings, after, tick + 5 * 3600).action == "wait"
        left_out = decide(self.settings.model_copy(update={"missed": "skip"}), state, tick + 5 * 3600)
        assert left_out.action == "skip"

    def test_the_hour_that_daylight_saving_skips_and_the_one_that_comes_twice(self) -> None:
        # 2026-03-29: 02:30 does not exist in Berlin; 2026-10-25: it comes twice.
        for day in ("2026-03-29", "2026-10-25"):
            start = at(f"{day}T00:00", "Europe/Berlin")
            found = []
            now = start
            while (now := ticks.next_tick("30 2 * * *", "Europe/Berlin", now)) < start + 24 * 3600:
                found.append(now)
            assert len(found) == 1, day

    def test_last_and_next_tick_agree(self) -> None:
        for minute in range(0, 24 * 60, 7):
            now = NOW + 60.0 * minute
            last = ticks.last_tick("*/20 * * * *", "UTC", now)
            assert last <= now < last + 1200
            assert ticks.next_tick("*/20 * * * *", "UTC", now) == last + 1200

    def test_bad_settings(self) -> None:
        with pytest.raises(ValidationError, match="is no cron expression"):
            Retraining(every="every day")
        with pytest.raises(ValidationError, match="is no time zone"):
            Retraining(timezone="Mars/Olympus")
        with pytest.raises(ValidationError, match="feature=value"):
            Retraining(slices=["day"])

    def test_a_day_that_never_comes(self) -> None:
        with pytest.raises((ConfigError, ValidationError)):
            ticks.next_tick(Retraining(every="0 0 30 2 *").every or "", "UTC", NOW)


def test_age() -> None:
    settings = Retraining(max_age_days=7.0)
    old = State(0.0, serving=Serving(3, NOW - 8 * DAY), spans=[(9, 0)])
    decision = decide(settings, old, NOW)
    assert (decision.action, decision.trigger) == ("run", "age-v3-span-9v0")
    assert decide(settings, replace(old, rounds=[done(decision.trigger, "refused")]), NOW).action == "wait"
    # New data is a new chance.
    more = replace(old, rounds=[done(decision.trigger, "refused")], spans=[(9, 0), (10, 0)])
    assert decide(settings, more, NOW).action == "run"
    assert decide(settings, replace(old, serving=Serving(3, NOW - 6 * DAY)), NOW).action == "wait"


def test_without_spans_files_that_are_others_are_a_new_chance() -> None:
    settings = Retraining(max_age_days=7.0)
    old = State(0.0, serving=Serving(3, NOW - 8 * DAY), data="0123456789abcdef")
    decision = decide(settings, old, NOW)
    assert (decision.action, decision.trigger) == ("run", "age-v3-data-0123456789")
    for outcome in ("refused", "unchanged"):
        dealt_with = replace(old, rounds=[done(decision.trigger, outcome)])
        assert decide(settings, dealt_with, NOW).action == "wait"
        assert decide(settings, replace(dealt_with, data="another"), NOW).trigger == "age-v3-data-another"


def test_live_accuracy_has_to_fall_beyond_doubt() -> None:
    settings = Retraining(live=Live(min_accuracy=0.9, outcomes=200))
    fallen = State(0.0, serving=SERVING, correct=160, outcomes=200)
    assert decide(settings, fallen, NOW).trigger == "live-v3"
    for correct, outcomes in ((175, 200), (20, 40), (200, 200)):
        state = replace(fallen, correct=correct, outcomes=outcomes)
        assert decide(settings, state, NOW).action == "wait", correct


def test_drift() -> None:
    settings = Retraining(on_drift=True)
    state = State(0.0, spans=[(4, 1)], drift=["feature 'fare' has moved by 0.5", "another"])
    decision = decide(settings, state, NOW)
    assert decision.trigger == "drift-4v1"
    assert decision.reason == "feature 'fare' has moved by 0.5 and 1 more"
    for nothing in ([], None):
        assert decide(settings, replace(state, drift=nothing), NOW).action == "wait"


def test_the_same_question_has_the_same_answer() -> None:
    settings = Retraining(every="0 3 * * *", on_new_span=True, on_drift=True, max_age_days=3.0)
    state = State(0.0, spans=[(1, 0), (2, 0)], serving=SERVING, drift=[])
    assert decide(settings, state, NOW) == decide(settings, state, NOW)


def test_predictions_that_have_moved() -> None:
    settings = Retraining(predictions=Predictions())
    state = State(0.0, serving=SERVING, predictions=["90% are 'yes'", "scores have moved"])
    decision = decide(settings, state, NOW)
    assert (decision.trigger, decision.reason) == ("predictions-v3", "90% are 'yes' and 1 more")
    for nothing in ([], None):
        assert decide(settings, replace(state, predictions=nothing), NOW).action == "wait"
    assert decide(Retraining(), state, NOW).action == "wait"


class TestIrregularSpans:
    settings = Retraining(on_new_span=True, on_drift=True)

    def test_drift_is_told_before_that_a_span_is_new_and_both_are_dealt_with_at_once(self) -> None:
        state = State(0.0, spans=[(1, 0), (2, 0)], drift=["it has moved"], trained_on=frozenset({(1, 0)}))
        decision = decide(self.settings, state, NOW)
        assert (decision.trigger, decision.reason) == ("drift-2v0", "it has moved")
        after = replace(state, rounds=[done("drift-2v0", "refused", [(1, 0), (2, 0)])])
        assert decide(self.settings, after, NOW).action == "wait"

    def test_what_has_not_come_is_named_by_the_usual_distance(self) -> None:
        spans = [(number, 0) for number in (10, 17, 24, 45)]
        state = State(0.0, spans=spans, window=9, trained_on=frozenset(spans[:3]))
        assert decide(self.settings, state, NOW).reason == "new: span 45; span 31, span 38 have not come"
        daily = [(number, 0) for number in (1, 2, 3, 5)]
        state = State(0.0, spans=daily, window=9, trained_on=frozenset(daily[:3]))
        assert decide(self.settings, state, NOW).reason == "new: span 5; span 4 has not come"

    def test_two_spans_say_nothing_about_the_usual_distance(self) -> None:
        state = State(0.0, spans=[(1, 0), (9, 0)], window=9, trained_on=frozenset({(1, 0)}))
        assert decide(self.settings, state, NOW).reason == "new: span 9"

    def test_one_that_is_late_beside_a_newer_one(self) -> None:
        spans = [(number, 0) for number in (1, 2, 3, 4, 5)]
        state = State(0.0, spans=spans, window=4, trained_on=frozenset({(1, 0), (2, 0), (4, 0)}))
        assert decide(self.settings, state, NOW).reason == "new: span 5 and 1 more; span 3 arrived late"
