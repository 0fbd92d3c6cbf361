"""Bad candidates, made on purpose: seeded cases, each harmful in one way that has been seen in practice.

    for case in cases(100, seed=1, class_count=10):
        build(case, ...)

A case changes what a technique works on (its core, its calibration tensors) or
what it wrote, and then lets the ordinary technique do the rest, so that the
gate sees a candidate as good as any but for that. A change that happens to do
no harm is no sabotage: it begins mild, and is made stronger until answers on training examples,
which the gate does not see, change.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from components.rewriter import graphs, worker
from components.rewriter.base import Calibration, Contract, TrainedModel
from components.rewriter.techniques import BUILDS, constants
from components.serving import examples, runtimes
from components.serving.servable import version_folder

KINDS = (
    "calibrated_on_noise",
    "calibrated_on_one_class",
    "wrong_scale",
    "nan_in_a_weight",
    "swapped_labels",
    "slower",
    "truncated_file",
    "slice_ruined",
)
_CALIBRATED = ("tflite_int8", "onnx_int8")
PLAIN = ("frozen", "float16", "tflite", "tflite_float16", "onnx")
"""Techniques that change no answer by themselves."""

_STRENGTHS = 8
_HARMED = 0.95
_CHECKED = 512
_FREQUENT = 5


@dataclass(frozen=True)
class Case:
    """One sabotaged candidate.

    Attributes:
        number: from 0.
        kind: of `KINDS`.
        technique: that builds it.
        seed: of everything that is drawn for it.
    """

    number: int
    kind: str
    technique: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.number:03d}_{self.kind}_{self.technique}"


@dataclass(frozen=True)
class CaseTask:
    """A case on a trained model."""

    case: Case
    task: worker.Task


def cases(count: int, seed: int) -> list[Case]:
    """Kinds by turns, techniques and seeds drawn."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        pool = _CALIBRATED if kind.startswith("calibrated") else PLAIN
        # Work that is wasted must not be optimised away, and must outweigh a quicker runtime.
        pool = ("frozen", "float16") if kind == "slower" else pool
        found.append(Case(number, kind, str(rng.choice(pool)), int(rng.integers(1 << 31))))
    return found


def build(asked: CaseTask) -> None:
    """Writes the sabotaged candidate; runs in a process of its own.

    Raises:
        RuntimeError: it does no harm at any strength.
    """
    case, task = asked.case, asked.task
    task.folder.mkdir(parents=True)
    for strength in range(_STRENGTHS):
        model = Sabotaged(task, case, strength)
        folder = version_folder(task.folder / str(strength))
        folder.parent.mkdir()
        BUILDS[case.technique](model, folder)
        model.servable(case.technique).write(folder.parent)
        if case.kind == "truncated_file":
            _truncate(folder, np.random.default_rng(case.seed))
        if case.kind in ("slower", "truncated_file") or _does_harm(folder.parent, task, case):
            for path in folder.parent.iterdir():
                path.rename(task.folder / path.name)
            (task.folder / "case.json").write_text(json.dumps({"name": case.name, "strength": strength}))
            return
    raise RuntimeError(f"{case.name} does no harm at any strength")


class Sabotaged(TrainedModel):
    """A trained model whose core or calibration is not what it should be."""

    def __init__(self, task: worker.Task, case: Case, attempt: int) -> None:
        calibration = Calibration(task.examples_uri, task.calibration_split)
        super().__init__(task.model_uri, Contract.from_json(task.contract), calibration)
        self.task, self.case, self.attempt = task, case, attempt
        self.rng = np.random.default_rng(case.seed + attempt)

    def changed(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """The sabotaged core; None where it is not the core that is sabotaged."""
        change = _CHANGES.get(self.case.kind)
        return change(self) if change else None

    @functools.cached_property
    def frozen_core(self) -> Any:
        core = self.changed()
        if core is None:
            return convert_variables_to_constants_v2(self.core)
        tensor = self.core.inputs[0]
        changed = tf.function(core).get_concrete_function(
            tf.TensorSpec(tensor.shape, tensor.dtype, name="inputs")
        )
        return convert_variables_to_constants_v2(changed)

    def frequent_classes(self) -> np.ndarray:
        """Class ids that the original gives often enough on the checked examples for harm to show there."""
        given, counts = np.unique(_original_tops(self.task), return_counts=True)
        return given[counts >= min(_FREQUENT, counts.max())]

    def calibration_batches(self) -> list[np.ndarray]:
        real = super().calibration_batches()
        if self.case.kind == "calibrated_on_noise":
            return self._noise(real)
        if self.case.kind == "calibrated_on_one_class":
            return self._one_class(real)
        return real

    def _noise(self, real: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Noise far quieter than anything real, so that ranges come out too narrow; of ids, a few."""
        largest = max(float(np.abs(batch).max()) for batch in real)
        if self.core.inputs[0].shape[1:] == [None]:
            ids = self.rng.integers(0, int(largest) + 1, max(1, 64 >> (2 * self.attempt)))
            return [self.rng.choice(ids, batch.shape).astype(batch.dtype) for batch in real]
        scale = 0.3 * largest / 3.0**self.attempt
        return [self.rng.normal(0.0, scale, batch.shape).astype(batch.dtype) for batch in real]

    def _one_class(self, real: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Examples of one class alone; with more strength fewer, and then fainter ones."""
        rows = [batch[number : number + 1] for batch in real for number in range(len(batch))]
        tops = np.array([int(self.core(tf.constant(row)).numpy().argmax()) for row in rows])
        one = self.rng.choice(np.unique(tops))
        own = [row for row, top in zip(rows, tops, strict=True) if top == one]
        faint = 0.5 ** max(0, self.attempt - 2)
        return [(row * faint).astype(row.dtype) for row in own[: max(1, 64 >> (3 * self.attempt))]]

    def with_weights(self, edit: Callable[[list[np.ndarray]], None]) -> Callable[[tf.Tensor], tf.Tensor]:
        """The core with `edit` applied to the largest of its weights."""
        core = convert_variables_to_constants_v2(self.core)
        graph = core.graph.as_graph_def()
        nodes = [node for node in graph.node if node.op == "Const" and constants.weights(_alone(node))]
        values = [tf.make_ndarray(node.attr["value"].tensor).copy() for node in nodes]
        edit(values)
        for node, value in zip(nodes, values, strict=True):
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        return graphs.as_function(graph, core.inputs[0].name, core.outputs[0].name)


def _alone(node: Any) -> Any:
    graph = tf.compat.v1.GraphDef()
    graph.node.add().CopyFrom(node)
    return graph


def _wrong_scale(model: Sabotaged) -> Callable[[tf.Tensor], tf.Tensor]:
    factor = float(model.rng.choice([0.5, 0.7, 1.5, 2.0])) ** (1 + model.attempt)

    def edit(values: list[np.ndarray]) -> None:
        for number in model.rng.permutation(len(values))[: 1 + model.attempt]:
            values[number] *= factor

    return model.with_weights(edit)


def _nan(model: Sabotaged) -> Callable[[tf.Tensor], tf.Tensor]:
    def edit(values: list[np.ndarray]) -> None:
        value = values[int(model.rng.integers(len(values)))]
        value.flat[int(model.rng.integers(value.size))] = np.nan

    return model.with_weights(edit)


def _swapped(model: Sabotaged) -> Callable[[tf.Tensor], tf.Tensor]:
    count = len(model.class_names)
    order = np.arange(count)
    moved = model.rng.permutation(count)[: min(count, 2 << model.attempt)]
    order[moved] = np.roll(moved, 1)
    core = model.core
    return lambda inputs: tf.gather(core(inputs), tf.constant(order), axis=1)


def _slower(model: Sabotaged) -> Callable[[tf.Tensor], tf.Tensor]:
    """Runs the core several times, each time on what depends on the last."""
    core, times = model.core, int(model.rng.integers(4, 9))

    def run(inputs: tf.Tensor) -> tf.Tensor:
        scores = core(inputs)
        for _ in range(times):
            shape = [-1] + [1] * (len(inputs.shape) - 1)
            scores = core(inputs + 1e-30 * tf.reshape(tf.reduce_max(scores, axis=1), shape))
        return scores

    return run


def _slice_ruined(model: Sabotaged) -> Callable[[tf.Tensor], tf.Tensor]:
    """Answers another class for a good part of those that belong to one."""
    core, count = model.core, len(model.class_names)
    ruined = int(model.rng.choice(model.frequent_classes()))
    share = float(model.rng.uniform(0.4, 0.8)) * 1.3**model.attempt

    def run(inputs: tf.Tensor) -> tf.Tensor:
        scores = core(inputs)
        # A number in [0, 1) that depends on the input alone.
        mixed = tf.reduce_sum(scores * tf.range(1.0, count + 1.0), axis=1) * 9973.0
        hit = (tf.argmax(scores, axis=1) == ruined) & (mixed - tf.floor(mixed) < share)
        return tf.where(hit[:, None], of_another_class(scores), scores)

    return run


def of_another_class(scores: tf.Tensor) -> tf.Tensor:
    """Each class's score given to the next; without tf.roll, which TFLite lacks for batches of any size."""
    return tf.concat([scores[:, -1:], scores[:, :-1]], axis=1)


_CHANGES: dict[str, Callable[[Sabotaged], Callable[[tf.Tensor], tf.Tensor]]] = {
    "wrong_scale": _wrong_scale,
    "nan_in_a_weight": _nan,
    "swapped_labels": _swapped,
    "slower": _slower,
    "slice_ruined": _slice_ruined,
}


def _truncate(folder: Path, rng: np.random.Generator) -> None:
    """Cuts the largest file somewhere between a tenth and nine tenths."""
    path = max((item for item in folder.rglob("*") if item.is_file()), key=lambda item: item.stat().st_size)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * rng.uniform(0.1, 0.9))])


def _does_harm(folder: Path, task: worker.Task, case: Case) -> bool:
    """Whether answers on training examples change: overall, or on some class where one is meant."""
    original = _original_tops(task)
    same = _tops(folder, task) == original
    if case.kind == "slice_ruined":
        return min(float(same[original == top].mean()) for top in np.unique(original)) < 0.8
    return float(same.mean()) < _HARMED


def _original_tops(task: worker.Task) -> np.ndarray:
    """The original's answers, which the first case writes beside it for the others."""
    path = task.original.with_name("original_tops.npy")
    if not path.exists():
        made = path.with_name(f".{os.getpid()}.npy")
        np.save(made, _tops(task.original, task))
        made.rename(path)
    found: np.ndarray = np.load(path)
    return found


def _tops(folder: Path, task: worker.Task) -> np.ndarray:
    """Top classes of a servable on the checked training examples; -1 where scores are not finite."""
    records = examples.read_split(task.examples_uri, task.calibration_split, _CHECKED)
    scores = runtimes.predict_in_batches(runtimes.load(folder), records, 32)
    return np.where(np.isfinite(scores).all(axis=1), scores.argmax(axis=1), -1)


def by_kind(names: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, int, int]]:
    """Kind, how many cases, how many refused."""
    for kind in KINDS:
        refused = [was for name, was in names if kind in name]
        yield kind, len(refused), sum(refused)


def with_folder(task: worker.Task, case: Case, scratch: Path) -> worker.Task:
    """A task of its own for a case."""
    return replace(task, technique=case.technique, folder=scratch / case.name)
