"""The gate: which candidates qualify, and which one goes on. Pure functions.

verdicts = [judge(figures, policy) for figures in ...]
choice = choose(verdicts, policy)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

import numpy as np

from components.rewriter import catalogue
from components.rewriter.bounds import (
    drop_lower_bound,
    drop_upper_bound,
    examples_needed,
    mean_upper_bound,
    median_lower_bound,
    median_upper_bound,
)
from components.rewriter.catalogue import Objective
from components.rewriter.figures import Figures, SliceFigures

State = Literal["judged", "failed", "cannot_run", "left_out"]

SAME_WITHIN = 0.1
"""Candidates within a tenth of the best on the objective count as equal."""

CONTENDS_FROM = 0.5
"""Candidates with at least half of the best one's gain are measured against each other."""

MAX_BATCH_SHIFT = 0.01
"""How far an answer may move with what else is in its batch."""


TELLING_DROP = 5.0
"""Points that a slice must be able to tell, however strict the limit is: 59 examples do."""


@dataclass(frozen=True)
class Remedies:
    """What helps against too few examples, as it is called where the rewrite was asked for.

    Attributes:
        more: to have more of them; empty where that cannot be.
        more_judged: the same where there are more than are judged.
        wider: to make do with fewer.
        limit: the limit's name.
    """

    more: str = "enlarge data.splits.validation"
    more_judged: str = "raise rewrite.max_examples"
    wider: str = "widen rewrite.max_drop"
    limit: str = "rewrite.max_drop"

    def __str__(self) -> str:
        return f"{self.more}, or {self.wider}" if self.more else self.wider


@dataclass(frozen=True)
class Policy:
    """What a candidate must keep to.

    Attributes:
        objective: what "better" means.
        max_drop: points (percent) of accuracy that may be lost.
        confidence: of each one-sided bound, in (0, 1).
        max_slice_drop: points that may be lost on any slice which is large enough to tell.
        fixed: the candidate that goes on whatever the clock says, where it is sound; empty for none.
        remedies: what to advise where there are too few examples.
    """

    objective: Objective
    max_drop: float
    confidence: float
    max_slice_drop: float = 5.0
    fixed: str = ""
    remedies: Remedies = Remedies()

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        return cls(raw["objective"], raw["max_drop"], raw["confidence"], raw["max_slice_drop"], raw["fixed"])


@dataclass(frozen=True)
class SliceVerdict:
    """What can be said of a slice.

    Attributes:
        name: `feature=value`.
        examples: in the slice.
        drop_bound: upper bound of the drop in points.
        needed: examples that would be enough to tell, where there are too few; else 0.
    """

    name: str
    examples: int
    drop_bound: float
    needed: int = 0


@dataclass(frozen=True)
class Verdict:
    """Whether a candidate qualifies, and why (not).

    Attributes:
        name: the technique.
        qualified: whether it may go on.
        reason: one sentence.
        sound: whether it keeps to what it must, however fast it is.
        state: judged, or why there was nothing to judge.
        cause: of a failure, what ended its process; else empty.
        gain: factor by which it beats the original on the objective; 1 is equal.
        drop_bound: upper bound of the drop in points, or None where it could not be judged.
        figures: what was measured, or None where it could not be built or judged.
        slices: bounds per slice.
    """

    name: str
    qualified: bool
    reason: str
    sound: bool = False
    state: State = "judged"
    cause: str = ""
    gain: float = 1.0
    drop_bound: float | None = None
    figures: Figures | None = None
    slices: Sequence[SliceVerdict] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(figures: Figures, policy: Policy) -> Verdict:
    """Applies the gate to one candidate."""
    bound = _bound(figures, policy)
    slices = [_judge_slice(item, policy) for item in figures.slices]
    fault = _fault(figures, policy, bound, slices)
    better, text = _is_better(figures, policy)
    return Verdict(
        name=figures.name,
        qualified=better and not fault,
        reason=fault or text,
        sound=not fault,
        gain=_gain(figures, policy),
        drop_bound=bound,
        figures=figures,
        slices=slices,
    )


def _bound(figures: Figures, policy: Policy) -> float:
    """Upper bound of what is lost: points of accuracy, or percent of a regression's error."""
    if figures.errors is None:
        return drop_upper_bound(figures.newly_wrong, figures.newly_right, figures.examples, policy.confidence)
    return mean_upper_bound(
        figures.errors.rise, figures.errors.rise_error, figures.examples, policy.confidence
    )


def _fault(figures: Figures, policy: Policy, bound: float, slices: Sequence[SliceVerdict]) -> str:
    """What forbids a candidate, however good it is on the objective; empty where nothing does."""
    if not figures.finite:
        return "its scores are not all finite numbers"
    if figures.batch_shift > MAX_BATCH_SHIFT:
        return f"its answers depend on what else is in the batch (by up to {figures.batch_shift:.3f})"
    if bound > policy.max_drop or _too_few_numbers(figures, policy):
        return _too_much_drop(figures, policy, bound)
    for item, verdict in zip(figures.slices, slices, strict=True):
        if _slice_fails(item, verdict, policy):
            return (
                f"on {item.name} it may lose up to {verdict.drop_bound:.1f} points, over "
                f"{policy.max_slice_drop:g} ({item.newly_wrong} of {item.examples} examples became wrong)"
            )
    return ""


def _too_few_numbers(figures: Figures, policy: Policy) -> bool:
    """Whether a regression has fewer examples than a classification would need.

    A mean's standard error is that of the errors that were met: it knows
    nothing of those that few examples have, and that may be a thousand times as large.
    """
    needed = examples_needed(policy.max_drop, policy.confidence)
    return figures.errors is not None and figures.examples < needed


def _judge_slice(item: SliceFigures, policy: Policy) -> SliceVerdict:
    bound = drop_upper_bound(item.newly_wrong, item.newly_right, item.examples, policy.confidence)
    needed = examples_needed(policy.max_slice_drop, policy.confidence)
    return SliceVerdict(item.name, item.examples, bound, needed if item.examples < needed else 0)


def _slice_fails(item: SliceFigures, verdict: SliceVerdict, policy: Policy) -> bool:
    """A slice that is too small to clear a candidate may still be enough to convict it.

    What a slice can tell, it tells under a stricter limit as well: else a
    limit so strict that all are too small for it would let more pass.
    """
    if not verdict.needed:
        return verdict.drop_bound > policy.max_slice_drop
    least = drop_lower_bound(item.newly_wrong, item.newly_right, item.examples, policy.confidence)
    if least > policy.max_slice_drop:
        return True
    can_tell = item.examples >= examples_needed(TELLING_DROP, policy.confidence)
    return can_tell and verdict.drop_bound > TELLING_DROP


def _too_much_drop(figures: Figures, policy: Policy, bound: float) -> str:
    needed = examples_needed(policy.max_drop, policy.confidence)
    if policy.max_drop <= 0:
        limit = policy.remedies.limit
        return f"no number of examples shows that nothing at all is lost: {limit} must be above 0"
    if _too_few_numbers(figures, policy):
        return (
            f"{figures.examples} examples are too few to bound the growth of its error by "
            f"{policy.max_drop:g} % ({needed} needed): {policy.remedies}"
        )
    if figures.errors is not None:
        return (
            f"its mean absolute error may be up to {bound:.2f} % larger, over {policy.max_drop:g} % "
            f"(measured: {figures.errors.rise:+.2f} %)"
        )
    if figures.newly_wrong == 0 or figures.examples < needed:
        return (
            f"{figures.examples} examples are too few to bound the drop by {policy.max_drop:g} points "
            f"(bound {bound:.2f}; {needed} needed): {policy.remedies}"
        )
    return (
        f"it may lose up to {bound:.2f} points of accuracy, over {policy.max_drop:g} "
        f"({figures.newly_wrong} of {figures.examples} examples became wrong, {figures.newly_right} right)"
    )


def _ratios(figures: Figures, policy: Policy) -> tuple[float, ...]:
    """Per round what the candidate takes, by what the original takes; smaller is better."""
    if policy.objective == "size":
        return (figures.size_ratio,)
    if policy.objective == "throughput":
        return tuple(1.0 / ratio for ratio in figures.throughput_ratios)
    return figures.latency_ratios


def _gain(figures: Figures, policy: Policy) -> float:
    return 1.0 / float(np.median(_ratios(figures, policy)))


def _is_better(figures: Figures, policy: Policy) -> tuple[bool, str]:
    """Better than the original on the objective, by more than the noise of the rounds."""
    ratios = _ratios(figures, policy)
    ratio = float(np.median(ratios))
    # A size has no noise.
    upper = ratio if policy.objective == "size" else median_upper_bound(ratios, policy.confidence)
    what = "time per example at batch 32" if policy.objective == "throughput" else policy.objective
    text = f"{what} is {ratio:.2f} of the original's"
    if upper < 1.0:
        return True, text
    return False, f"{text}, which is no improvement beyond noise (upper bound {upper:.2f})"


def contenders(verdicts: Sequence[Verdict], policy: Policy) -> list[str]:
    """Names that a run-off must tell apart; none where the figures at hand do.

    Each candidate was timed beside the original in a process of its own, and a
    machine's load changes from one to the next. Sizes need no run-off.
    """
    qualified = [verdict for verdict in verdicts if verdict.qualified]
    if policy.objective == "size" or len(qualified) < 2:
        return []
    gain = max(verdict.gain for verdict in qualified)
    close = [verdict.name for verdict in qualified if verdict.gain >= gain * CONTENDS_FROM]
    return close if len(close) > 1 else []


def choose(
    verdicts: Sequence[Verdict], policy: Policy, run_off: Mapping[str, Sequence[float]] | None = None
) -> tuple[str, str]:
    """The name that goes on, and the reason; the original where nothing qualifies.

    For size, that is the smallest. Else those that are not surely more than a
    tenth behind the best count as equal, so that noise does not decide: of them
    the smallest goes on, and of several of about the same size the simplest.

    Args:
        verdicts: of all candidates.
        policy: the gate.
        run_off: contender -> its time in each round, all of them measured by turns.
    """
    sound = {catalogue.IDENTITY, *(verdict.name for verdict in verdicts if verdict.sound)}
    if policy.fixed in sound:
        return policy.fixed, "set by rewrite.fixed"
    qualified = [verdict for verdict in verdicts if verdict.qualified]
    if not qualified:
        advice = _advice(verdicts, policy) + _why_not_fixed(verdicts, policy.fixed)
        return catalogue.IDENTITY, f"no candidate qualified, so the original goes on{advice}"
    equal = _equals(qualified, policy, run_off or {})
    least = min(_size(verdict) for verdict in equal)
    small = [verdict for verdict in equal if _size(verdict) <= least * (1.0 + SAME_WITHIN)]
    best = min(small, key=lambda verdict: catalogue.rank(verdict.name))
    others = [verdict.name for verdict in equal if verdict is not best]
    beside = f"; as good as {', '.join(others)}, and smaller or simpler" if others else ""
    beside += _why_not_fixed(verdicts, policy.fixed)
    return best.name, f"best {policy.objective} of {len(qualified)} qualified: {best.reason}{beside}"


def ranked(verdicts: Sequence[Verdict], chosen: str, run_off: Mapping[str, Sequence[float]]) -> list[str]:
    """Names of those that qualified, best first: the chosen one, those of the run-off by time, the others."""

    def place(verdict: Verdict) -> tuple[bool, bool, float]:
        times = run_off.get(verdict.name)
        return (
            verdict.name != chosen,
            times is None,
            -verdict.gain if times is None else float(np.median(times)),
        )

    good = [item for item in verdicts if item.qualified or item.name == chosen]
    return [verdict.name for verdict in sorted(good, key=place)]


def _why_not_fixed(verdicts: Sequence[Verdict], name: str) -> str:
    """Why what was set does not go on; empty where nothing was set."""
    if not name:
        return ""
    reason = next((verdict.reason for verdict in verdicts if verdict.name == name), "it was not tried")
    return f"; not {name}, which rewrite.fixed names: {reason}"


def _equals(
    qualified: Sequence[Verdict], policy: Policy, run_off: Mapping[str, Sequence[float]]
) -> list[Verdict]:
    """The best, and those that are as good."""
    if policy.objective == "size":
        least = min(_size(verdict) for verdict in qualified)
        return [verdict for verdict in qualified if _size(verdict) == least]  # a size has no noise
    if not run_off:
        gain = max(verdict.gain for verdict in qualified)
        return [verdict for verdict in qualified if verdict.gain >= gain * (1.0 - SAME_WITHIN)]
    first = min(run_off, key=lambda name: float(np.median(run_off[name])))
    names = {
        name
        for name, times in run_off.items()
        if median_lower_bound(np.divide(times, run_off[first]).tolist(), policy.confidence)
        <= 1.0 + SAME_WITHIN
    }
    return [verdict for verdict in qualified if verdict.name in names]


def _size(verdict: Verdict) -> int:
    return verdict.figures.size_bytes if verdict.figures else 0


def _advice(verdicts: Sequence[Verdict], policy: Policy) -> str:
    """What to do where there were too few examples for any candidate at all."""
    judged = [verdict.figures for verdict in verdicts if verdict.figures]
    counts = {figures.examples for figures in judged}
    needed = examples_needed(policy.max_drop, policy.confidence)
    if not counts or max(counts) >= needed:
        return ""
    if policy.max_drop <= 0:
        return f": no number of examples bounds a drop by 0 points. {_sentence(policy.remedies.wider)}"
    return (
        f": {max(counts)} validation examples cannot bound a drop by {policy.max_drop:g} points; "
        f"{needed} could. {_sentence(str(policy.remedies))}"
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
