"""What is measured of a candidate beside the original, and how it is written.

figures = Figures.from_json(text)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class SliceFigures:
    """A candidate on one slice of the judged examples.

    Attributes:
        name: `feature=value`.
        examples: in the slice.
        accuracy: of the candidate, in [0, 1].
        newly_wrong: as in `Figures`.
        newly_right: as in `Figures`.
    """

    name: str
    examples: int
    accuracy: float
    newly_wrong: int
    newly_right: int


@dataclass(frozen=True)
class ErrorFigures:
    """A regression's candidate beside the original.

    Attributes:
        mean_absolute: error of the candidate, in the label's unit.
        rise: mean growth of an example's absolute error, in percent of the original's mean.
        rise_error: standard error of that mean.
    """

    mean_absolute: float
    rise: float
    rise_error: float


@dataclass(frozen=True)
class Figures:
    """What was measured of one candidate, beside the original in the same process.

    Attributes:
        name: the technique.
        examples: judged examples, of a classification those whose label is a class.
        size_bytes: of the version folder.
        size_ratio: to the original.
        load_ms: loading and the first answer, in a fresh process.
        latency_ms_p50: one example a call.
        latency_ms_p95: one example a call.
        throughput: examples/s at batch 32.
        latency_ratios: per interleaved round, candidate's median by the original's.
        throughput_ratios: per interleaved round, examples/s at batch 32, candidate's by the original's.
        peak_memory_mb: of the process, with this candidate alone loaded.
        accuracy: in [0, 1]; 0 for a regression, which has `errors` instead.
        newly_wrong: examples that the original got right and this one does not.
        newly_right: the other way round.
        agreement: share of examples with the same top class, in [0, 1].
        max_shift: largest change of any probability, in [0, 1].
        batch_shift: largest change of any probability between an example alone and in a batch.
        finite: whether all scores are finite numbers.
        slices: the same per slice.
        errors: of a regression.
    """

    name: str
    examples: int
    size_bytes: int
    size_ratio: float
    load_ms: float
    latency_ms_p50: float
    latency_ms_p95: float
    throughput: float
    latency_ratios: tuple[float, ...]
    throughput_ratios: tuple[float, ...]
    peak_memory_mb: float
    accuracy: float
    newly_wrong: int
    newly_right: int
    agreement: float
    max_shift: float
    batch_shift: float
    finite: bool
    slices: tuple[SliceFigures, ...] = ()
    errors: ErrorFigures | None = None

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        raw["latency_ratios"] = tuple(raw["latency_ratios"])
        raw["throughput_ratios"] = tuple(raw["throughput_ratios"])
        raw["slices"] = tuple(SliceFigures(**item) for item in raw["slices"])
        raw["errors"] = ErrorFigures(**raw["errors"]) if raw.get("errors") else None
        return cls(**raw)
