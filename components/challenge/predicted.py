"""How predictions are distributed, on a test split or in service, and how far two such lie apart.

expected = of_split(folder, examples, "test")        # in a process of its own: loads the model
far = apart(of_log(lines), expected, limit=0.1)      # sentences
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from components.data_gate.divergence import Bucket, chance, jensen_shannon, largest_change, quantile_buckets


@dataclass(frozen=True)
class Distribution:
    """Of predictions.

    Attributes:
        examples: how many there were.
        classes: class -> how often it was predicted; empty for a regression.
        buckets: quantile buckets of the predicted class's score, or of a regression's values.
    """

    examples: int
    classes: Mapping[str, int]
    buckets: Sequence[Bucket]

    @classmethod
    def of(cls, classes: Sequence[str], values: Sequence[float]) -> Distribution:
        """Of N predictions, in the order of their coming; `classes` is empty for a regression."""
        buckets = quantile_buckets(np.asarray(values, float)) if len(values) else []
        return cls(len(values), dict(Counter(classes)), buckets)

    @classmethod
    def read(cls, path: Path) -> Distribution:
        """What `write` wrote.

        Raises:
            ValueError: it is damaged.
        """
        try:
            raw = json.loads(path.read_text())
            return cls(raw["examples"], raw["classes"], [tuple(bucket) for bucket in raw["buckets"]])
        except (TypeError, KeyError) as error:
            raise ValueError(f"no distribution: {error}") from error

    def write(self, path: Path) -> None:
        """Writes it, whole or not at all."""
        scratch = path.with_name(f".{path.name}.part")
        scratch.write_text(json.dumps(asdict(self)))
        scratch.replace(path)


@dataclass(frozen=True)
class Task:
    """A version's folder, Examples with a split, and the file for the result."""

    version: str
    examples: str
    split: str
    output: str


def measure(task: Task) -> None:
    """Writes the distribution of a version's predictions; for a process of its own."""
    from components.serving import runtimes
    from components.serving.examples import read_split

    model = runtimes.load_version(Path(task.version))
    scores = runtimes.predict_in_batches(model, read_split(task.examples, task.split))
    names = model.servable.class_names
    if names:
        best = scores.argmax(1)
        classes = [str(names[index]) for index in best]
        found = Distribution.of(classes, scores[np.arange(len(best)), best].tolist())
    else:
        found = Distribution.of([], scores.reshape(-1).tolist())
    found.write(Path(task.output))


def of_log(lines: Sequence[Mapping[str, Any]]) -> Distribution:
    """Of what a server has logged; lines without a prediction count for nothing."""
    if any("class" in line for line in lines):
        told = [(str(line["class"]), float(line["score"])) for line in lines if "class" in line]
        return Distribution.of([name for name, _ in told], [score for _, score in told])
    return Distribution.of([], [float(line["value"]) for line in lines if "value" in line])


def apart(now: Distribution, expected: Distribution, limit: float) -> list[str]:
    """What lies further apart than `limit` and chance allow, in sentences.

    Classes by the largest change of a share, scores (or a regression's values)
    by Jensen-Shannon divergence; both lie in [0, 1].
    """
    if not now.examples or not expected.examples:
        return []
    by_chance = chance(now.examples, expected.examples)
    name, change = largest_change(now.classes, expected.classes)
    moved = jensen_shannon(now.buckets, expected.buckets)
    what = "scores" if now.classes else "predicted values"
    found = []
    if change > limit + by_chance:
        shares = [item.classes.get(name, 0) / item.examples for item in (now, expected)]
        found.append(
            f"predictions: {shares[0]:.1%} of the last {now.examples} are {name!r}, and {shares[1]:.1%} of "
            f"the test split's; at most {limit:g} (and {by_chance:.3f} by chance) apart is allowed"
        )
    if moved > limit + by_chance:
        found.append(
            f"predictions: the {what} of the last {now.examples} have moved by {moved:.3f} (Jensen-Shannon) "
            f"against the test split; at most {limit:g} (and {by_chance:.3f} by chance) is allowed"
        )
    return found
