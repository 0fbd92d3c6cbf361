"""Whether to train again: a pure function of settings, what is known, and the time.

    decision = decide(settings, state, now)
    decision.action, decision.trigger, decision.reason, decision.until

Triggers are asked in the order of `_TRIGGERS`, those first that say most about
why a model should be replaced; the first that is due and was not dealt with
decides. A trigger's id says what it was about, so that nothing
is done twice for one cause, by one scheduler or two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from statistics import mode
from typing import Literal

from scipy import stats

from pipelines.retraining import ticks
from pipelines.retraining.settings import Backoff, Retraining

Action = Literal["run", "skip", "wait"]
Outcome = Literal["promoted", "unchanged", "refused", "bad_data", "rolled_back", "skipped", "failed", ""]

FINAL = ("promoted", "unchanged", "refused", "bad_data", "rolled_back", "skipped")
"""Outcomes after which a trigger is dealt with; a failure is tried again."""

_DAY_S = 86_400.0
_MINUTE_S = 60.0
_LOOK_S = 300.0
"""How long a scheduler waits at most before it looks for new spans again."""

_SHOWN = 3
_DIGEST = 10
_STEPS = 3
"""Distances between spans from which on there is a usual one."""

Span = tuple[int, int]
"""Span and version."""


@dataclass(frozen=True)
class Serving:
    """The version in service.

    Attributes:
        version: its number.
        pushed_at: seconds since the epoch.
    """

    version: int
    pushed_at: float


@dataclass(frozen=True)
class Round:
    """A round as it was recorded.

    Attributes:
        trigger: id of its cause.
        outcome: empty while it goes on.
        ended: seconds since the epoch; of the last attempt.
        spans: what it saw.
    """

    trigger: str
    outcome: Outcome
    ended: float
    spans: frozenset[Span] = frozenset()


@dataclass(frozen=True)
class State:
    """What is known.

    Attributes:
        began: when retraining was set up, in seconds since the epoch; ticks before it are nobody's.
        spans: those present, ascending; empty where the data has none.
        window: so many of the newest are trained on.
        rounds: in the order of their ends.
        failures: rounds that failed in a row, the newest last.
        serving: the version in service; None where there is none.
        trained_on: spans behind the version in service.
        older: spans that lay before the window when retraining was set up; they are not late.
        drift: what has moved too far in the newest span, in sentences; None where nobody looked.
        predictions: how its predictions have moved, in sentences; None where too little is known.
        correct: outcomes of the version in service that were right, of the newest `outcomes`.
        outcomes: how many there are.
        data: state of the files of data that has no spans; empty where nothing goes by it.
    """

    began: float
    spans: Sequence[Span] = ()
    window: int = 1
    rounds: Sequence[Round] = ()
    failures: Sequence[Round] = ()
    serving: Serving | None = None
    trained_on: frozenset[Span] = frozenset()
    older: frozenset[Span] = frozenset()
    drift: Sequence[str] | None = None
    predictions: Sequence[str] | None = None
    correct: int = 0
    outcomes: int = 0
    data: str = ""

    @property
    def newest(self) -> Span | None:
        return max(self.spans, default=None)

    def dealt_with(self, trigger: str) -> bool:
        return any(item.trigger == trigger and item.outcome in FINAL for item in self.rounds)


@dataclass(frozen=True)
class Decision:
    """What to do.

    Attributes:
        action: run a round, note that a cause is passed over, or wait.
        reason: in words.
        trigger: id of the cause; empty for `wait`.
        until: when to decide again at the latest, in seconds since the epoch.
        spans: that are passed over.
    """

    action: Action
    reason: str
    trigger: str = ""
    until: float = 0.0
    spans: Sequence[Span] = ()


def decide(settings: Retraining, state: State, now: float) -> Decision:
    """What to do now; the same for the same arguments."""
    until = _next_look(settings, now)
    resting = _resting(settings.backoff, state, now)
    if resting is not None:
        return resting
    for ask in _TRIGGERS:
        found = ask(settings, state, now)
        if found is not None and not state.dealt_with(found.trigger):
            told = found.reason + (_irregular(state) if found.action == "run" else "")
            return replace(found, reason=told, until=until)
    return Decision("wait", _nothing(settings, state, now), until=until)


def delay_s(backoff: Backoff, failures: Sequence[Round]) -> float:
    """Seconds to wait after failures in a row; the same for the same failures."""
    minutes = min(backoff.first_minutes * backoff.factor ** (len(failures) - 1), backoff.max_minutes)
    # From the trigger's name, not from chance: a decision has to be repeatable.
    digest = hashlib.sha256(f"{failures[-1].trigger}/{len(failures)}".encode()).digest()
    return minutes * _MINUTE_S * (1.0 + backoff.jitter * digest[0] / 255.0)


def _resting(backoff: Backoff, state: State, now: float) -> Decision | None:
    if not state.failures:
        return None
    if len(state.failures) >= backoff.stop_after:
        return Decision(
            "wait",
            f"stopped after {len(state.failures)} failures in a row; `headrace retrain reset` goes on",
            until=now + _LOOK_S,  # somebody may reset it
        )
    until = state.failures[-1].ended + delay_s(backoff, state.failures)
    if now < until:
        return Decision(
            "wait", f"{len(state.failures)} failures in a row; again at {_iso(until)}", until=until
        )
    return None


def _new_span(settings: Retraining, state: State, now: float) -> Decision | None:
    if not settings.on_new_span or not state.spans:
        return None
    fresh = _fresh(state)
    if not fresh:
        return None
    newest = fresh[-1]
    oldest_used = sorted({number for number, _ in state.spans})[-state.window :][0]
    trigger = f"span-{newest[0]}v{newest[1]}"
    if newest[0] < oldest_used:
        reason = f"{_name(newest)} arrived late, and lies before the {state.window} spans that are trained on"
        return Decision("skip", reason, trigger, spans=fresh)
    others = f" and {len(fresh) - 1} more" if len(fresh) > 1 else ""
    return Decision("run", f"new: {_name(newest)}{others}", trigger)


def _seen(state: State) -> set[Span]:
    return set(state.trained_on | state.older).union(
        *(item.spans for item in state.rounds if item.outcome in FINAL)
    )


def _fresh(state: State) -> list[Span]:
    seen = _seen(state)
    return [span for span in state.spans if span not in seen]


def _irregular(state: State) -> str:
    """What is odd about the spans that a round is the first to see, whatever its cause."""
    fresh, seen = _fresh(state), _seen(state)
    if not fresh:
        return ""
    last = max((number for number, _ in seen), default=-1)
    late = [_name(span) for span in fresh if span[0] < last]
    return (f"; {_listed(late)} arrived late" if late else "") + _gap(state, fresh[-1])


def _gap(state: State, newest: Span) -> str:
    """What should lie between the newest span and the one before it, going by the usual distance."""
    numbers = sorted({number for number, _ in state.spans})
    steps = [after - before for before, after in pairwise(numbers)]
    if len(steps) < _STEPS or newest[0] != numbers[-1]:
        return ""
    missing = [_name((number, 0)) for number in range(numbers[-2] + mode(steps), numbers[-1], mode(steps))]
    return f"; {_listed(missing)} {'has' if len(missing) == 1 else 'have'} not come" if missing else ""


def _and_more(sentences: Sequence[str]) -> str:
    return sentences[0] + (f" and {len(sentences) - 1} more" if len(sentences) > 1 else "")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _drift(settings: Retraining, state: State, now: float) -> Decision | None:
    if not settings.on_drift or not state.drift or state.newest is None:
        return None
    return Decision("run", _and_more(state.drift), f"drift-{state.newest[0]}v{state.newest[1]}")


def _predictions(settings: Retraining, state: State, now: float) -> Decision | None:
    if settings.predictions is None or not state.predictions or state.serving is None:
        return None
    trigger = f"predictions-v{state.serving.version}{_at_data(state)}"
    return Decision("run", _and_more(state.predictions), trigger)


def _live(settings: Retraining, state: State, now: float) -> Decision | None:
    live = settings.live
    if live is None or state.serving is None or state.outcomes < live.outcomes:
        return None
    best = accuracy_upper_bound(state.correct, state.outcomes, settings.confidence)
    if best >= live.min_accuracy:
        return None
    reason = (
        f"of the last {state.outcomes} outcomes {state.correct / state.outcomes:.1%} were right, at best "
        f"{best:.1%}; {live.min_accuracy:.1%} is wanted"
    )
    return Decision("run", reason, f"live-v{state.serving.version}{_at_data(state)}")


def _age(settings: Retraining, state: State, now: float) -> Decision | None:
    if settings.max_age_days is None or state.serving is None:
        return None
    age = (now - state.serving.pushed_at) / _DAY_S
    if age <= settings.max_age_days:
        return None
    reason = f"version {state.serving.version} is {age:.1f} days old; at most {settings.max_age_days:g}"
    return Decision("run", reason, f"age-v{state.serving.version}{_at_data(state)}")


def _cron(settings: Retraining, state: State, now: float) -> Decision | None:
    if settings.every is None:
        return None
    tick = ticks.last_tick(settings.every, settings.timezone, now)
    if tick <= state.began:
        return None
    trigger = f"cron-{_iso(tick)}"
    late = now - tick > settings.grace_minutes * _MINUTE_S
    if late and settings.missed == "skip":
        return Decision("skip", f"the tick at {_iso(tick)} was missed", trigger)
    return Decision("run", f"{'made up for: ' if late else ''}the tick at {_iso(tick)}", trigger)


_TRIGGERS: Sequence[Callable[[Retraining, State, float], Decision | None]] = (
    _drift,
    _predictions,
    _live,
    _new_span,
    _age,
    _cron,
)


def accuracy_upper_bound(correct: int, total: int, confidence: float) -> float:
    """Exact upper bound of a share (Clopper and Pearson, 1934)."""
    if correct >= total:
        return 1.0
    return float(stats.beta.ppf(confidence, correct + 1, total - correct))


def _next_look(settings: Retraining, now: float) -> float:
    look = now + _LOOK_S
    if settings.every is None:
        return look
    tick = ticks.next_tick(settings.every, settings.timezone, now)
    return min(tick, look) if _looks_around(settings) else tick


def _looks_around(settings: Retraining) -> bool:
    """Whether anything but the clock may be a cause."""
    causes = (
        settings.on_new_span,
        settings.on_drift,
        settings.predictions,
        settings.live,
        settings.max_age_days,
    )
    return any(causes)


def _nothing(settings: Retraining, state: State, now: float) -> str:
    told = [f"{len(state.spans)} spans, all used"] if settings.on_new_span and state.spans else []
    if settings.on_drift and state.drift is not None:
        told.append("nothing has moved too far")
    if settings.every is not None:
        told.append(f"next tick at {_iso(ticks.next_tick(settings.every, settings.timezone, now))}")
    return "nothing is due" + (f": {'; '.join(told)}" if told else "")


def _at_data(state: State) -> str:
    """New data is a new chance: the same cause counts anew with it."""
    if state.newest:
        return f"-span-{state.newest[0]}v{state.newest[1]}"
    return f"-data-{state.data[:_DIGEST]}" if state.data else ""


def _name(span: Span) -> str:
    return f"span {span[0]}" + (f", version {span[1]}" if span[1] else "")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")
