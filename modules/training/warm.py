"""Begins a training with the weights of an earlier one, each under the name it had there.

    record = load(model, fn_args.base_model, Meaning(names, tables, task.build))

Ids of classes and words go by frequency, so that new data permute them: a
column of the head or a row of an embedding is taken over by the name of its
class or word. What has no earlier name keeps its first weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modules import contract
from modules.errors import TrainingError

Named = tuple[Sequence[Any], Sequence[Any]]
"""What the indices of an axis stood for, and what they stand for now."""


@dataclass(frozen=True)
class Table:
    """A vocabulary whose ids are rows of weights.

    Attributes:
        vocabulary: its name, which is a file of the SavedModel's assets.
        entries: its lines, in order.
        layers: paths of the layers whose first axis goes by it; none where they are not known.
        first: id of the first line.
    """

    vocabulary: str
    entries: Sequence[bytes]
    layers: tuple[str, ...]
    first: int = 0

    def rows(self, entries: Sequence[bytes], count: int) -> list[Any]:
        """What each of `count` rows stands for; ids around the entries by their distance from them."""
        after = range(count - self.first - len(entries))
        return [*range(self.first), *entries, *(("after", index) for index in after)][:count]


@dataclass(frozen=True)
class Meaning:
    """What the ids of a model stand for.

    Attributes:
        classes: names by id; none for a regression.
        tables: vocabularies with weights for their entries.
        build: number of classes to a new model.
    """

    classes: Sequence[str]
    tables: Sequence[Table]
    build: Callable[[int], keras.Model]


def keras_path(base_model: str) -> Path:
    """The `.keras` file of a trained model, from the folder of its SavedModel."""
    return Path(base_model).parent / contract.KERAS_MODEL


def load(model: keras.Model, base_model: str, meaning: Meaning) -> dict[str, Any]:
    """Copies the weights of an earlier model, by the names of classes and vocabulary entries.

    Args:
        model: new; what the earlier model has no name for keeps its weights.
        base_model: folder of the earlier SavedModel, as TFX gives it.
        meaning: of the new model.

    Returns:
        What was not taken over as it stood, for the record.

    Raises:
        TrainingError: a file is not there, the models differ in more than
            classes and vocabularies, or it is unknown which weights belong to those.
    """
    path = keras_path(base_model)
    try:
        earlier = keras.models.load_model(path, compile=False)
        classes = _classes(base_model)
    except (OSError, ValueError, TypeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise _error(f"cannot be read: {reason[:200]}", path) from error
    olds, news = _without_adapters(earlier), _without_adapters(model)
    if len(olds) != len(news):
        raise _error(f"does not fit this one: it has {len(olds)} variables, this one {len(news)}", path)
    pairs = _Pairs(olds, news, path)
    record: dict[str, Any] = {}
    if list(classes) != list(meaning.classes):
        pairs.name_classes(classes, meaning)
        record["classes"] = _changes(classes, meaning.classes)
    for table in meaning.tables:
        before = _entries(base_model, table.vocabulary)
        if before != list(table.entries):
            pairs.name_rows(before, table)
            record[table.vocabulary] = _changes(before, table.entries)
    pairs.copy()
    return record


def describe(record: Mapping[str, Mapping[str, int]]) -> str:
    """One line on what `load` gives."""
    parts = [
        f"{name}: {counts['kept']} taken over by name, {counts['new']} new, {counts['gone']} gone"
        for name, counts in record.items()
    ]
    return f"Begins with the weights of an earlier model ({'; '.join(parts) or 'same classes and words'})"


def carried(old: np.ndarray, new: np.ndarray, axes: Mapping[int, Named]) -> np.ndarray:
    """`new` with what `old` has under the same names along `axes`; other axes are alike in both."""
    take, put = [], []
    for axis, size in enumerate(new.shape):
        before, now = axes.get(axis, (range(size), range(size)))
        place = {name: index for index, name in enumerate(before)}
        pairs = [(place[name], index) for index, name in enumerate(now) if name in place]
        take.append([pair[0] for pair in pairs])
        put.append([pair[1] for pair in pairs])
    result = new.copy()
    if all(put):
        result[np.ix_(*put)] = old[np.ix_(*take)]
    return result


def _classes(base_model: str) -> list[str]:
    loaded = tf.saved_model.load(base_model)
    names = getattr(loaded, contract.CLASS_NAMES_FUNCTION)().numpy()
    return [name.decode(errors="replace") for name in names]


def _entries(base_model: str, vocabulary: str) -> list[bytes]:
    """The lines of an earlier vocabulary; none where the model was saved without it."""
    path = Path(base_model, "assets", vocabulary)
    return path.read_bytes().split(b"\n")[:-1] if path.is_file() else []


@dataclass
class _Pairs:
    """Variables of both models, side by side, and what the axes go by whose ids have moved.

    Attributes:
        olds: of the earlier model.
        news: of the new one, as many.
        path: the earlier model's file.
        named: of each pair, axis -> names.
    """

    olds: Sequence[keras.Variable]
    news: Sequence[keras.Variable]
    path: Path

    def __post_init__(self) -> None:
        self.named: list[dict[int, Named]] = [{} for _ in self.news]

    def name_classes(self, classes: Sequence[str], meaning: Meaning) -> None:
        """Finds the axes that go by classes: those that are longer in a model of one class more."""
        probe = _without_adapters(meaning.build(len(meaning.classes) + 1))
        for axes, old, new, other in zip(self.named, self.olds, self.news, probe, strict=True):
            for axis in range(min(len(new.shape), len(old.shape))):
                if new.shape[axis] == other.shape[axis]:
                    continue
                if (old.shape[axis], new.shape[axis]) != (len(classes), len(meaning.classes)):
                    what = f"has other classes, of which {new.path} does not have one weight each"
                    raise _error(what, self.path)
                axes[axis] = (classes, meaning.classes)
        if not any(self.named):
            raise _error("has other classes, and no weights here go by classes", self.path)

    def name_rows(self, before: Sequence[bytes], table: Table) -> None:
        """Finds the weights whose rows go by a vocabulary."""
        found = False
        for axes, old, new in zip(self.named, self.olds, self.news, strict=True):
            if any(new.path == layer or new.path.startswith(f"{layer}/") for layer in table.layers):
                axes[0] = table.rows(before, old.shape[0]), table.rows(table.entries, new.shape[0])
                found = True
        if not found:
            what = f"has another vocabulary {table.vocabulary!r}, and it is not known which weights go by it"
            raise _error(what, self.path)

    def copy(self) -> None:
        """Takes the earlier weights over."""
        for axes, old, new in zip(self.named, self.olds, self.news, strict=True):
            _check_shapes(new, old, axes, self.path)
            new.assign(carried(old.numpy(), new.numpy(), axes))


def _without_adapters(model: keras.Model) -> list[keras.Variable]:
    """Adapters begin anew: those of the earlier model were merged into its kernels as it was written."""
    return [variable for variable in model.variables if not variable.name.startswith("lora_kernel")]


def _changes(before: Sequence[Any], now: Sequence[Any]) -> dict[str, int]:
    kept = len(set(before) & set(now))
    return {"kept": kept, "new": len(now) - kept, "gone": len(before) - kept}


def _check_shapes(new: keras.Variable, old: keras.Variable, axes: Mapping[int, Named], path: Path) -> None:
    here, there = tuple(new.shape), tuple(old.shape)
    alike = len(here) == len(there) and all(
        axis in axes or here[axis] == there[axis] for axis in range(len(here))
    )
    if not alike:
        raise _error(f"does not fit this one: {new.path} has shape {here} here and {there} there", path)


def _error(what: str, path: Path) -> TrainingError:
    return TrainingError(
        f"The model to start from {what}",
        place=str(path),
        remedy="Set train.warm_start: false where the network has changed, or for once with --set.",
    )
