"""The days of the retraining simulation: seeded files, and which of them are in trouble.

plan = Plan.of(90, seed=3)
arrive(folder, plan, day, seed=3)           # writes the day's file, with its trouble
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np

FIRST = date(2026, 1, 1)
ROWS = 700
FEATURES = ("distance", "hour", "district")
DISTRICTS = ("north", "south", "east", "west")
NOISE = 0.05
"""Share of rows whose label is the wrong one; no model is right more often than 1 - NOISE."""

WINDOW = 3
"""So many days are trained on."""

QUIET_FIRST = 3
"""Days at the beginning without trouble."""

_EPOCH = date(1970, 1, 1)
_FAR = 4.0
"""By how much distances are longer after the covariate drift."""


@dataclass(frozen=True)
class Plan:
    """Which days are in trouble, counted from 0.

    Attributes:
        days: simulated.
        covariate: from this day on distances are longer.
        label: from this day on the opposite labels are true.
        late: its file comes two days later.
        missing: its file never comes.
        shuffled: its labels are shuffled.
        corrupt: its file is cut in the middle of a row, with bytes that are no text.
        killed: from these days on the scheduler is killed in its next round.
        servers: on these days the server is killed.
        slow: from this day on the next version that goes into service counts as slow.
        rollback: from this day on somebody rolls back by hand, and forward again, once there is
            an older version.
    """

    days: int
    covariate: int
    label: int
    late: int
    missing: int
    shuffled: int
    corrupt: int
    killed: tuple[int, int]
    servers: tuple[int, int]
    slow: int
    rollback: int

    @classmethod
    def of(cls, days: int, seed: int) -> Plan:
        """Trouble on days of their own.

        Raises:
            ValueError: there are too few days.
        """
        last, middle = days - QUIET_FIRST, days // 2  # so that what a day leads to is seen
        if last - QUIET_FIRST < 14:
            raise ValueError(f"12 troubles need {14 + 2 * QUIET_FIRST} days. Received: days={days}")
        chance = random.Random(seed)
        # Far enough apart that each drift is noticed for itself.
        drifts = (chance.randrange(QUIET_FIRST, middle), chance.randrange(middle, last))
        left = [day for day in range(QUIET_FIRST, last) if day not in drifts]
        day = chance.sample(left, 10)
        killed, servers = sorted(day[4:6]), sorted(day[6:8])
        return cls(
            days,
            covariate=drifts[0],
            label=drifts[1],
            late=day[0],
            missing=day[1],
            shuffled=day[2],
            corrupt=day[3],
            killed=(killed[0], killed[1]),
            servers=(servers[0], servers[1]),
            slow=day[8],
            rollback=day[9],
        )


def span_of(day: int) -> int:
    """TFX's number of a day's span."""
    return (FIRST - _EPOCH).days + day


def day_of(span: int) -> int:
    """The day of a span."""
    return span - (FIRST - _EPOCH).days


def rows(plan: Plan, day: int, seed: int, count: int = ROWS) -> list[dict[str, str]]:
    """A day's labelled rows, sound ones."""
    rng = np.random.default_rng([seed, day])
    far = _FAR if day >= plan.covariate else 0.0
    sign = -1.0 if day >= plan.label else 1.0
    return [_row(rng, far, sign) for _ in range(count)]


def _row(rng: np.random.Generator, far: float, sign: float) -> dict[str, str]:
    distance, hour = float(rng.gamma(2.0, 2.0) + far), float(rng.uniform(0, 24))
    district = DISTRICTS[int(rng.integers(len(DISTRICTS)))]
    score = sign * (0.8 * (distance - 4.0 - far) + (2.0 if district in ("north", "east") else -2.0))
    yes = (score > 0) != (rng.uniform() < NOISE)
    return {
        "distance": f"{distance:.3f}",
        "hour": f"{hour:.2f}",
        "district": district,
        "label": "yes" if yes else "no",
    }


def arriving(plan: Plan, day: int) -> Iterator[int]:
    """The days whose files come on a day."""
    if day not in (plan.late, plan.missing):
        yield day
    if day - 2 == plan.late:
        yield plan.late


def path_of(folder: Path, day: int) -> Path:
    """A day's file."""
    return folder / f"{FIRST + timedelta(days=day)}.csv"


def arrive(folder: Path, plan: Plan, day: int, seed: int) -> None:
    """Writes a day's file with its trouble; one that is there stays as it is."""
    path = path_of(folder, day)
    if path.exists():
        return
    made = rows(plan, day, seed)
    if day == plan.shuffled:
        labels = [row["label"] for row in made]
        random.Random(seed).shuffle(labels)
        made = [{**row, "label": label} for row, label in zip(made, labels, strict=True)]
    scratch = path.with_name(f".{path.name}")
    _write(scratch, made)
    if day == plan.corrupt:
        content = scratch.read_bytes()
        scratch.write_bytes(content[: len(content) // 2] + b"\xff\xfe\x00broken")
    scratch.rename(path)


def _write(path: Path, made: Sequence[Mapping[str, str]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, [*FEATURES, "label"])
        writer.writeheader()
        writer.writerows(made)
