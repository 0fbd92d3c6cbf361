"""Candidates that lose only a little more than the gate allows, made by a seeded generator.

    for case in cases(20, seed=1):
        build(Asked(case, task, max_drop=1.0))

What sabotage does is coarse: any gate sees it. Here the true loss is drawn
between the limit and three times that, and the harm is made just as strong as
gives it: measured on examples that the gate does not see, those of the test
split where there are enough, else of training. A gate that works with a
confidence of 0.95 may pass one in twenty of those that are at the limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bench.sabotage import PLAIN, Case, Sabotaged, of_another_class
from components.rewriter import worker
from components.rewriter.techniques import BUILDS
from components.serving import examples, runtimes
from components.serving.servable import version_folder

AT_MOST = 3.0
"""Times the limit that is lost."""

CASE_FILE = "case.json"
_UNSEEN = "test"
_ENOUGH, _CHECKED = 1000, 2000
_BATCH = 64
_SEEDS, _HALVINGS = 4, 14
_NEAR = 0.2
"""Of the limit: so near to what was drawn, the search ends."""

Core = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class Asked:
    """A case on a trained model; the limit in points."""

    case: Case
    task: worker.Task
    max_drop: float


def cases(count: int, seed: int) -> list[Case]:
    """Kinds by turns, techniques and seeds drawn."""
    rng = np.random.default_rng(seed)
    kinds = list(KINDS)
    return [
        Case(number, kinds[number % len(kinds)], str(rng.choice(PLAIN)), int(rng.integers(1 << 31)))
        for number in range(count)
    ]


def build(asked: Asked) -> None:
    """Writes the candidate, and `case.json` with what it loses; runs in a process of its own.

    Raises:
        RuntimeError: no strength of the harm gives such a loss.
    """
    task, case = asked.task, asked.case
    unseen = _Unseen.of(task)
    for attempt in range(_SEEDS):
        model = _Harmed(task, case, attempt)
        strength = _strength(model, unseen, asked.max_drop)
        if strength is None:
            continue
        model.strength = strength
        task.folder.mkdir(parents=True)
        BUILDS[case.technique](model, version_folder(task.folder))
        model.servable(case.technique).write(task.folder)
        drop = unseen.drop(_of_runtime(task.folder, unseen))
        found = {"name": case.name, "drop": drop, "unseen": len(unseen.records)}
        (task.folder / CASE_FILE).write_text(json.dumps(found))
        return
    raise RuntimeError(f"{case.name} loses too little or too much at any strength")


@dataclass(frozen=True)
class _Unseen:
    """Examples that the gate does not see.

    Attributes:
        records: N serialized Examples.
        tensors: what the core is given for them, in batches.
        labels: (N,) class ids.
        right: (N,) bool, whether the original is.
    """

    records: Sequence[bytes]
    tensors: Sequence[np.ndarray]
    labels: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, task: worker.Task) -> _Unseen:
        records = _records(task)
        model = _Harmed(task, Case(0, "", "", 0), 0)
        tensors = model.tensors(records)
        labels = examples.label_ids(examples.labels_of(records, task.label), model.class_names)
        return cls(records, tensors, labels, _answers(model.core, tensors) == labels)

    def drop(self, tops: np.ndarray) -> float:
        """Points that are lost with these answers."""
        return 100.0 * float(self.right.mean() - (tops == self.labels).mean())


def _records(task: worker.Task) -> list[bytes]:
    if Path(task.examples_uri, f"Split-{_UNSEEN}").is_dir():
        records, _ = examples.read_spread(task.examples_uri, _UNSEEN, _CHECKED)
        if len(records) >= _ENOUGH:
            return records
    return examples.read_spread(task.examples_uri, task.calibration_split, _CHECKED)[0]


def _answers(core: Core, tensors: Sequence[np.ndarray]) -> np.ndarray:
    scores = np.concatenate([core(tf.constant(batch)).numpy() for batch in tensors])
    return np.where(np.isfinite(scores).all(axis=1), scores.argmax(axis=1), -1)


def _of_runtime(folder: Path, unseen: _Unseen) -> np.ndarray:
    scores = runtimes.predict_in_batches(runtimes.load(folder), unseen.records, _BATCH)
    return np.asarray(scores.argmax(axis=1))


def _strength(model: _Harmed, unseen: _Unseen, max_drop: float) -> float | None:
    """A strength with which the core loses about what was drawn; None where none does.

    Harm grows with its strength, by and large, so halving the interval finds it.
    """
    wanted = max_drop * float(np.random.default_rng(model.case.seed).uniform(1.0, AT_MOST))
    low, high = model.harm.range
    found: tuple[float, float] | None = None
    for _ in range(_HALVINGS):
        model.strength = float(np.sqrt(low * high))
        drop = unseen.drop(_answers(model.changed(), unseen.tensors))
        away = abs(drop - wanted)
        if max_drop < drop <= AT_MOST * max_drop and (found is None or away < found[0]):
            found = away, model.strength
            if away <= _NEAR * max_drop:
                break
        low, high = (model.strength, high) if drop < wanted else (low, model.strength)
    return None if found is None else found[1]


class _Harmed(Sabotaged):
    """A trained model with a core that a change of some strength has harmed."""

    def __init__(self, task: worker.Task, case: Case, attempt: int) -> None:
        super().__init__(task, case, attempt)
        self.strength = 0.0

    @property
    def harm(self) -> Harm:
        return KINDS[self.case.kind]

    def changed(self) -> Core:
        # Drawn anew for each strength, and always the same: else strengths could not be compared.
        self.rng = np.random.default_rng(self.case.seed + self.attempt)
        return self.harm.change(self)

    def tensors(self, records: Sequence[bytes]) -> list[np.ndarray]:
        """What the core is given for records, in batches."""
        first, _ = next(iter(self.contract.signatures.values()))
        function = getattr(getattr(self._loaded, self.contract.preprocessing), first)
        starts = range(0, len(records), _BATCH)
        return [function(tf.constant(records[at : at + _BATCH])).numpy() for at in starts]


@dataclass(frozen=True)
class Harm:
    """A change of the core, and from where to where its strength may be."""

    change: Callable[[_Harmed], Core]
    range: tuple[float, float]


def _some_answers(model: _Harmed) -> Core:
    """Another class for that share of all inputs."""
    core, share, spread = model.core, model.strength, float(model.rng.uniform(500.0, 2000.0))

    def run(inputs: tf.Tensor) -> tf.Tensor:
        scores = core(inputs)
        # A number in [0, 1) that depends on the input alone, of pixels as of tokens.
        within = list(range(1, len(inputs.shape)))
        mixed = tf.reduce_mean(tf.cos(tf.cast(inputs, tf.float32)), axis=within) * spread
        hit = mixed - tf.floor(mixed) < share
        return tf.where(hit[:, None], of_another_class(scores), scores)

    return run


def _noisy_weights(model: _Harmed) -> Core:
    """Noise on all weights, by their own spread."""

    def edit(values: list[np.ndarray]) -> None:
        for value in values:
            value += model.rng.normal(0.0, model.strength * value.std(), value.shape).astype(value.dtype)

    return model.with_weights(edit)


def _rounded_weights(model: _Harmed) -> Core:
    """Weights on too coarse a grid, as of a quantizer with too wide a range."""

    def edit(values: list[np.ndarray]) -> None:
        for value in values:
            step = model.strength * float(np.abs(value).max())
            if step > 0.0:
                value[...] = np.round(value / step + model.rng.uniform(-0.2, 0.2)) * step

    return model.with_weights(edit)


KINDS: dict[str, Harm] = {
    "some_answers": Harm(_some_answers, (1e-4, 1.0)),
    "noisy_weights": Harm(_noisy_weights, (1e-3, 10.0)),
    "rounded_weights": Harm(_rounded_weights, (1e-3, 1.0)),
}


def by_kind(names: Sequence[tuple[str, bool]]) -> list[tuple[str, int, int]]:
    """Kind, how many were drawn, how many passed."""
    return [
        (kind, len(passed), sum(passed))
        for kind in KINDS
        if (passed := [was for name, was in names if kind in name])
    ]


def read_drop(folder: Path) -> dict[str, Any]:
    """What `build` wrote of a case."""
    return dict(json.loads((folder / CASE_FILE).read_text()))
