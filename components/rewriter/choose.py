"""The gate: which candidates qualify, and which one goes on. Pure functions.

verdicts = [judge(figures, policy) for figures in ...]
choice = choose(verdicts, policy)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy import stats

Objective = Literal["latency", "size", "throughput"]


@dataclass(frozen=True)
class Policy:
    """What a candidate must keep to.

    Attributes:
        objective: what "better" means.
        max_drop: points (percent) of accuracy that may be lost.
        confidence: of each one-sided bound, in (0, 1).
        fixed: the candidate that goes on whatever is measured; empty for none.
    """

    objective: Objective
    max_drop: float
    confidence: float
    fixed: str = ""

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        return cls(raw["objective"], raw["max_drop"], raw["confidence"], raw.get("fixed", ""))


@dataclass(frozen=True)
class Figures:
    """What was measured of one candidate, beside the original in the same process.

    Attributes:
        name: the technique.
        examples: judged examples.
        size_bytes: of the version folder.
        size_ratio: to the original.
        load_ms: loading and the first answer.
        latency_ms_p50: one example a call.
        latency_ms_p95: one example a call.
        latency_ratios: per interleaved round, candidate's median by the original's.
        throughput_ratios: per interleaved round, examples/s at batch 32, candidate's by the original's.
        peak_memory_mb: of the process, with this candidate alone loaded.
        accuracy: in [0, 1].
        newly_wrong: examples that the original got right and this one does not.
        newly_right: the other way round.
        agreement: share of examples with the same top class, in [0, 1].
        max_shift: largest change of any probability, in [0, 1].
        finite: whether all scores are finite numbers.
    """

    name: str
    examples: int
    size_bytes: int
    size_ratio: float
    load_ms: float
    latency_ms_p50: float
    latency_ms_p95: float
    latency_ratios: tuple[float, ...]
    throughput_ratios: tuple[float, ...]
    peak_memory_mb: float
    accuracy: float
    newly_wrong: int
    newly_right: int
    agreement: float
    max_shift: float
    finite: bool

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        raw["latency_ratios"] = tuple(raw["latency_ratios"])
        raw["throughput_ratios"] = tuple(raw["throughput_ratios"])
        return cls(**raw)


@dataclass(frozen=True)
class Verdict:
    """Whether a candidate qualifies, and why (not).

    Attributes:
        name: the technique.
        qualified: whether it may go on.
        reason: one sentence.
        gain: factor by which it beats the original on the objective; 1 is equal.
        drop_bound: upper bound of the drop in points, or None where it could not be judged.
        figures: what was measured, or None where it could not be built or judged.
    """

    name: str
    qualified: bool
    reason: str
    gain: float = 1.0
    drop_bound: float | None = None
    figures: Figures | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def drop_upper_bound(newly_wrong: int, examples: int, confidence: float) -> float:
    """Upper bound of the accuracy drop, in points.

    The Clopper-Pearson bound (1934) of the share of examples that became
    wrong. Examples that became right are not credited, so the bound holds for
    the drop too, and is exact where nothing disagrees: with 0 of n it is
    100 * (1 - (1 - confidence) ** (1 / n)).
    """
    if newly_wrong >= examples:
        return 100.0
    return 100.0 * float(stats.beta.ppf(confidence, newly_wrong + 1, examples - newly_wrong))


def examples_needed(max_drop: float, confidence: float) -> int:
    """How many examples without disagreement bring the bound to `max_drop` points."""
    return int(np.ceil(np.log1p(-confidence) / np.log1p(-max_drop / 100.0)))


def median_upper_bound(ratios: Sequence[float], confidence: float) -> float:
    """Upper bound of the median, by order statistics; infinite with too few rounds."""
    ordered = sorted(ratios)
    rank = int(stats.binom.ppf(confidence, len(ordered), 0.5)) + 1
    return ordered[rank - 1] if rank <= len(ordered) else float("inf")


def judge(figures: Figures, policy: Policy) -> Verdict:
    """Applies the gate to one candidate."""
    bound = drop_upper_bound(figures.newly_wrong, figures.examples, policy.confidence)

    def verdict(qualified: bool, reason: str) -> Verdict:
        return Verdict(figures.name, qualified, reason, _gain(figures, policy), bound, figures)

    if not figures.finite:
        return verdict(False, "its scores are not all finite numbers")
    if bound > policy.max_drop:
        return verdict(False, _too_much_drop(figures, policy, bound))
    better, reason = _is_better(figures, policy)
    return verdict(better, reason)


def _too_much_drop(figures: Figures, policy: Policy, bound: float) -> str:
    needed = examples_needed(policy.max_drop, policy.confidence)
    if figures.newly_wrong == 0 or figures.examples < needed:
        return (
            f"{figures.examples} examples are too few to bound the drop by {policy.max_drop:g} points "
            f"(bound {bound:.2f}; {needed} needed): enlarge the validation split or rewrite.max_drop"
        )
    return (
        f"it may lose up to {bound:.2f} points of accuracy, over {policy.max_drop:g} "
        f"({figures.newly_wrong} of {figures.examples} examples became wrong)"
    )


def _gain(figures: Figures, policy: Policy) -> float:
    if policy.objective == "size":
        return 1.0 / figures.size_ratio
    if policy.objective == "throughput":
        return float(np.median(figures.throughput_ratios))
    return 1.0 / float(np.median(figures.latency_ratios))


def _is_better(figures: Figures, policy: Policy) -> tuple[bool, str]:
    """Better than the original on the objective, by more than the noise of the rounds."""
    if policy.objective == "size":
        ratio = upper = figures.size_ratio
    elif policy.objective == "throughput":
        inverse = [1.0 / ratio for ratio in figures.throughput_ratios]
        ratio, upper = float(np.median(inverse)), median_upper_bound(inverse, policy.confidence)
    else:
        ratio = float(np.median(figures.latency_ratios))
        upper = median_upper_bound(figures.latency_ratios, policy.confidence)
    text = f"{policy.objective} is {ratio:.2f} of the original's"
    if upper < 1.0:
        return True, text
    return False, f"{text}, which is no improvement beyond noise (upper bound {upper:.2f})"


def choose(verdicts: Sequence[Verdict], policy: Policy, original: str) -> tuple[str, str]:
    """The name that goes on, and the reason; the original where nothing qualifies."""
    built = {original, *(verdict.name for verdict in verdicts if verdict.figures is not None)}
    if policy.fixed in built:
        return policy.fixed, "set by rewrite.fixed"
    qualified = [verdict for verdict in verdicts if verdict.qualified]
    if not qualified:
        return original, "no candidate qualified, so the original goes on"
    best = max(qualified, key=lambda verdict: verdict.gain)
    return best.name, f"best {policy.objective} of {len(qualified)} qualified: {best.reason}"
