"""Splits as training gets them: counted, checked, cached, and the same whatever the cache."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.training import caching, splits
from tests.modules.training.small import hparams

NAMES = ("ant", "bee", "cat")
SPEC = tf.io.FixedLenFeature([], tf.float32)
INPUTS = [2.0 * value for value in (*range(23), *range(100, 120))]
LABEL = ("label", tf.io.FixedLenFeature([], tf.int64))


@pytest.fixture(scope="module")
def files(tmp_path_factory, write_tfrecord, make_example) -> Path:
    folder = tmp_path_factory.mktemp("splits")
    for name, count in (("train-0", 23), ("train-1", 20), ("validation-0", 11)):
        start = 100 * int(name[-1])
        records = [make_example(value=float(start + number), label=number % 3) for number in range(count)]
        write_tfrecord(folder / f"{name}.gz", records, "GZIP")
    return folder


def sources(files: Path, **changes: Any) -> splits.Sources:
    values: dict[str, Any] = {
        "train": [f"{files}/train-*"],
        "validation": [f"{files}/validation-*"],
        "features": {"value": SPEC},
        "label": LABEL,
        "class_names": NAMES,
        "to_input": lambda features: tf.reshape(features["value"], [1]) * 2,
    }
    return splits.Sources(**{**values, **changes})


def load(files: Path, cache: str, tmp_path: Path, **changes: Any) -> splits.Loaded:
    train = hparams(batch_size=8, cache=cache)
    return splits.load(sources(files, **changes), train, augment=None, work_folder=str(tmp_path / "state"))


def batches(loaded: splits.Loaded, epoch: int = 0, step: int = 0) -> list[list[float]]:
    made = loaded.stream.batches(epoch=epoch, step=step, epochs=2)
    return [features.numpy()[:, 0].tolist() for features, _ in made]


def test_the_order_is_the_same_whatever_the_cache(files, tmp_path) -> None:
    loaded = {kind: load(files, kind, tmp_path) for kind in ("memory", "disk", "off", "auto")}
    expected = batches(loaded["memory"])
    assert len(expected) == 12
    assert sorted(chain(*expected[:6])) == INPUTS
    for kind, one in loaded.items():
        assert batches(one) == expected, kind
        assert batches(one, epoch=1, step=4) == expected[10:], kind
        assert [len(labels) for _, labels in one.validation] == [8, 3]
        assert one.class_counts == [15, 15, 13]
    assert loaded["auto"].record == {"examples": 43, "bytes_per_example": 16, "cache": "memory"}
    assert loaded["disk"].record["cache"] == "disk"


def test_rows_that_are_made_by_the_batch_come_in_the_same_order(files, tmp_path) -> None:
    calls: list[tf.TensorShape] = []

    def by_the_batch(features: dict[str, tf.Tensor]) -> tf.Tensor:
        calls.append(features["value"].shape)
        return tf.reshape(features["value"], [-1, 1]) * 2

    expected = load(files, "memory", tmp_path)
    for cache in ("memory", "off"):
        loaded = load(files, cache, tmp_path, to_input=by_the_batch, batched=True)
        assert batches(loaded) == batches(expected)
        assert loaded.record["bytes_per_example"] == 16
        for (inputs, labels), (same, ids) in zip(loaded.validation, expected.validation, strict=True):
            assert np.array_equal(inputs, same) and np.array_equal(labels, ids)
    assert {tuple(shape) for shape in calls} == {(None,)}


def test_a_cache_holds_what_was_read(files, tmp_path) -> None:
    copy = tmp_path / "data"
    copy.mkdir()
    for path in files.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    kept = load(copy, "disk", tmp_path)
    expected = batches(kept)
    assert list((tmp_path / "state").rglob("elements*"))
    for path in copy.iterdir():
        path.unlink()
    assert batches(kept) == expected


@pytest.mark.parametrize("cache", ["memory", "off"])
def test_what_is_random_in_an_example_goes_by_its_place(files, tmp_path, cache: str) -> None:
    def noisy(features: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_uniform([1], seed) + features["value"]

    loaded = load(files, cache, tmp_path, to_training=noisy)
    whole = batches(loaded)
    drawn = [value % 1 for batch in whole for value in batch]
    assert len({round(value, 6) for value in drawn}) > 80
    assert batches(loaded, epoch=1, step=3) == whole[9:]
    assert batches(loaded) == whole
    assert sorted(float(features[0]) for features, _ in loaded.stream.unchanged) == INPUTS
    # Nothing is random in what training is judged by.
    assert next(iter(loaded.validation))[0].numpy()[:3, 0].tolist() == [0.0, 2.0, 4.0]


def test_what_transform_has_counted_is_not_read_again(files, tmp_path, monkeypatch) -> None:
    read = []
    original = splits.count_classes
    monkeypatch.setattr(splits, "count_classes", lambda *given: read.append(given[1]) or original(*given))
    loaded = load(files, "memory", tmp_path, class_counts=[15, 15, 13])
    assert read == ["validation"]
    assert loaded.class_counts == [15, 15, 13]
    assert sorted(chain(*batches(loaded)[:6])) == INPUTS


def test_a_label_that_transform_has_not_counted_is_refused(
    files, tmp_path, write_tfrecord, make_example
) -> None:
    path = tmp_path / "odd.gz"
    write_tfrecord(path, [make_example(value=1.0, label=label) for label in (0, 1, -1)], "GZIP")
    loaded = load(files, "off", tmp_path, train=[str(path)], class_counts=[1, 1, 0])
    refused = pytest.raises(TrainingError, match="label that is no class of the training split")
    with refused as error, splits.explained(NAMES):
        batches(loaded)
    assert "ant, bee, cat" in str(error.value.remedy)


def test_a_label_that_training_has_not_is_refused(files, tmp_path) -> None:
    with pytest.raises(TrainingError, match="label that is no class of the training split") as error:
        load(files, "off", tmp_path, class_names=("ant", "bee"))
    # The files are read in turns, 16 examples of each.
    assert error.value.place == "split train, example 2"


def test_auto_takes_the_fastest_that_has_room(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(caching, "free_memory", lambda: 1_000)
    assert caching.choose("auto", 250, str(tmp_path)).kind == "memory"
    assert caching.choose("auto", 251, str(tmp_path)).kind == "disk"
    assert caching.choose("auto", 1 << 60, str(tmp_path)).kind == "off"
    assert caching.choose("off", 1, str(tmp_path)) == caching.Cache("off")


def test_free_memory_heeds_the_control_group(monkeypatch, tmp_path) -> None:
    assert caching.free_memory() > 0
    monkeypatch.setattr(caching, "_CONTROL_GROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert caching.free_memory() == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert caching.free_memory() > 1000


def test_sizes_of_elements() -> None:
    spec = (tf.TensorSpec([4, 3], tf.float32), {"x": tf.TensorSpec([], tf.int64)})
    assert caching.element_bytes(spec) == 56
    assert np.isclose(caching.element_bytes(tf.TensorSpec([None], tf.float32)), 256)
