"""headrace rewrite: SavedModels from anywhere, on NumPy files."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import DataError, ServableError
from pipelines import rewriting
from pipelines.errors import ConfigError, HeadraceError, InputError

SETTINGS: dict[str, Any] = {
    "candidates": "float16",
    "signature": "serving_default",
    "label": "label",
    "objective": "size",
    "target": "tf_serving",
    "max_drop": 1.0,
    "max_slice_drop": 50.0,
    "confidence": 0.95,
    "timeout": 120.0,
    "memory": None,
}


class _Foreign(tf.Module):
    """Three classes by which third of the row is the largest; not made by Headrace."""

    def __init__(self) -> None:
        super().__init__()
        weights = np.kron(np.eye(3), np.ones((64, 1))).astype(np.float32)
        self.weights = tf.Variable(weights)

    @tf.function(input_signature=[tf.TensorSpec([None, 192], tf.float32, "row")])
    def classify(self, row: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": tf.nn.softmax(row @ self.weights)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def texts(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"upper": tf.strings.upper(text)}

    @tf.function(
        input_signature=[tf.TensorSpec([None, 2], tf.float32, "a"), tf.TensorSpec([None, 2], tf.float32, "b")]
    )
    def two(self, a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"sum": a + b}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "saved"
    module = _Foreign()
    signatures = {"serving_default": module.classify, "texts": module.texts, "two": module.two}
    tf.saved_model.save(module, str(folder), signatures)
    return folder


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(9)
    made = rng.normal(0.0, 0.02, (500, 192)).astype(np.float32)
    for number, row in enumerate(made):
        row[64 * (number % 3) : 64 * (number % 3 + 1)] += 0.1
    return made


def asked(model: Path, data: Path, **changes: Any) -> Any:
    return rewriting.request(model, data, {**SETTINGS, **changes})


def test_the_chosen_model_answers_through_its_own_signature(model, rows, tmp_path) -> None:
    np.savez(tmp_path / "data.npz", x=rows, y=np.arange(500) % 3)
    (tmp_path / "scratch").mkdir()
    summary = rewriting.run(asked(model, tmp_path / "data.npz"), tmp_path / "scratch", tmp_path / "smaller")
    assert summary.chosen == "float16", summary.candidates[1]["reason"]
    assert summary.candidates[1]["figures"]["accuracy"] == 1.0
    assert summary.candidates[1]["figures"]["examples"] == 400
    before, after = (tf.saved_model.load(str(path)) for path in (model, tmp_path / "smaller"))
    given = tf.constant(rows[:5])
    np.testing.assert_allclose(
        after.signatures["serving_default"](row=given)["probabilities"],
        before.signatures["serving_default"](row=given)["probabilities"],
        atol=5e-3,
    )


def test_without_labels_the_models_own_answers_count(model, rows, tmp_path) -> None:
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "scratch").mkdir()
    request = asked(model, tmp_path / "rows.npy", candidates="tflite", target="edge")
    summary = rewriting.run(request, tmp_path / "scratch", None)
    original = summary.candidates[0]["figures"]
    assert (original["accuracy"], original["newly_wrong"]) == (1.0, 0)
    assert summary.candidates[1]["figures"]["agreement"] == 1.0


@pytest.mark.parametrize(
    ("signature", "headline"),
    [
        ("none", "no signature 'none'"),
        ("texts", "takes string; expected numbers"),
        ("two", "2 inputs and 1 outputs; expected one of each"),
    ],
)
def test_signatures_that_cannot_be_rewritten(model, rows, tmp_path, signature: str, headline: str) -> None:
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(InputError, match=headline) as raised:
        rewriting.run(asked(model, tmp_path / "rows.npy", signature=signature), tmp_path, None)
    assert "--signature" in raised.value.remedy


def test_data_that_does_not_fit(model, tmp_path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((10, 3), np.float32))
    with pytest.raises(InputError, match=r"shape \(3,\); expected \(192,\)"):
        rewriting.run(asked(model, tmp_path / "rows.npy"), tmp_path, None)
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "again").mkdir()
    with pytest.raises(InputError, match="The data cannot be read"):
        rewriting.run(asked(model, tmp_path / "text.npz"), tmp_path / "again", None)


def test_a_folder_without_a_model(tmp_path) -> None:
    with pytest.raises(InputError, match="There is no SavedModel"):
        rewriting.run(asked(tmp_path, tmp_path), tmp_path, None)


def test_candidates_are_checked_before_anything_is_loaded(model, tmp_path) -> None:
    with pytest.raises(ConfigError, match="no technique 'floot16'") as raised:
        asked(model, tmp_path, candidates="floot16")
    assert raised.value.remedy == "Did you mean 'float16'?"
    with pytest.raises(ConfigError, match="tf_serving does not load tflite"):
        asked(model, tmp_path, candidates="frozen,tflite")


@pytest.mark.parametrize(("given", "limit"), [(None, 4000.0), (3000.0, 3000.0)])
def test_memory_is_limited_whether_asked_for_or_not(tmp_path, monkeypatch, given, limit) -> None:
    from components import memory

    monkeypatch.setattr(memory, "available_mb", lambda: 10_000.0)
    assert asked(tmp_path, tmp_path, memory=given).limits.memory_mb == limit


def test_an_output_that_is_there_is_not_written_over(tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="there already"):
        rewriting.new_folder(tmp_path)


def _adapted(class_count: int = 3, dtype: str = "float32") -> Any:
    from components.rewriter.foreign import Adapted

    names = tuple(str(number) for number in range(class_count))
    return Adapted(Path("model"), None, (4,), dtype, names)  # type: ignore[arg-type]


def _labels_of(path: Path, **arrays: Any) -> list[str]:
    from components.rewriter import anywhere
    from components.serving import examples

    np.savez(path, **arrays)
    return examples.labels_of(anywhere._records_of(path, _adapted()), "label")


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32])
def test_labels_are_places_of_classes_whatever_their_type(tmp_path, dtype) -> None:
    found = _labels_of(tmp_path / "data.npz", x=np.zeros((3, 4)), y=np.array([2, 0, 1], dtype))
    assert found == ["2", "0", "1"]


@pytest.mark.parametrize("labels", [["cat", "dog", "owl"], [1, 2, 3], [0.5, 0.0, 1.0], [np.nan, 0.0, 1.0]])
def test_labels_that_are_no_classes_are_refused(tmp_path, labels) -> None:
    """Else neither model would ever be right, and every candidate would seem to lose nothing."""
    with pytest.raises(DataError, match="expected 0 to 2"):
        _labels_of(tmp_path / "data.npz", x=np.zeros((3, 4)), y=np.array(labels))


def test_rows_are_stored_as_the_signature_takes_them(tmp_path) -> None:
    from components.rewriter import anywhere

    np.save(tmp_path / "x.npy", np.full((2, 4), 7, np.uint8))
    np.savez(tmp_path / "data.npz", x=np.load(tmp_path / "x.npy"), y=np.array([0, 1]))
    record, _ = anywhere._records_of(tmp_path / "data.npz", _adapted())
    feature = tf.train.Example.FromString(record).features.feature["inputs"]
    assert list(feature.float_list.value) == [7.0] * 4


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off"])
def test_a_damaged_archive_is_the_users_error(tmp_path, content: bytes) -> None:
    from components.rewriter import anywhere

    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(DataError, match="The data cannot be read"):
        anywhere._arrays(tmp_path / "data.npz")


def test_a_damaged_model_is_the_users_error(tmp_path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(InputError, match="There is no SavedModel that loads"):
        rewriting.run(asked(tmp_path, tmp_path), tmp_path, None)


def test_a_model_of_one_column_is_refused(tmp_path) -> None:
    """Its top class is always the same, so that nothing could be told of a candidate."""
    from components.rewriter import foreign

    module = tf.Module()
    module.weights = tf.Variable(tf.ones([4, 1]))
    spec = [tf.TensorSpec([None, 4], tf.float32, "x")]
    serve = tf.function(lambda x: {"p": tf.sigmoid(x @ module.weights)}, input_signature=spec)
    tf.saved_model.save(module, str(tmp_path / "saved"), {"serving_default": serve})
    with pytest.raises(ServableError, match="one column"):
        foreign.adapt(tmp_path / "saved", "serving_default", tmp_path)


@pytest.mark.parametrize("class_names", [["a", "b"], []])
def test_an_export_of_ours_is_judged_as_what_it_is(tmp_path, class_names: list[str]) -> None:
    """A regression by its numbers: it has no classes and no scores."""
    import keras

    from components.rewriter import anywhere
    from modules import export

    width = len(class_names)
    layers = [
        keras.Input((4,)),
        keras.layers.Dense(width or 1),
        *([] if width else [keras.layers.Reshape(())]),
    ]
    spec = {"x": tf.io.FixedLenFeature([4], tf.float32)}
    folder = tmp_path / "saved"
    signatures = {"serving_default": lambda raw: tf.io.parse_example(raw, spec)["x"]}
    export.save(str(folder), keras.Sequential(layers), class_names, signatures)
    with pytest.raises(ServableError, match="no signature 'other'"):
        anywhere._own_contract(asked(folder, tmp_path, signature="other"), folder)
    contract = anywhere._own_contract(asked(folder, tmp_path), folder)
    assert (contract.scores, contract.classes) == (("scores", "classes") if class_names else ("outputs", ""))


@pytest.mark.parametrize("was_there", [False, True])
def test_half_a_model_is_not_left_behind(tmp_path, monkeypatch, was_there: bool) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("fingerprint.pb", "saved_model.pb"):
        (source / name).write_text(name)
    if was_there:
        target.mkdir()

    def copy(source: str, target: str) -> None:
        if source.endswith("saved_model.pb"):
            raise OSError(errno.ENOSPC, "No space left on device", target)
        Path(target).write_bytes(b"whole")

    real = shutil.copytree
    monkeypatch.setattr(
        shutil, "copytree", lambda *given, **options: real(*given, **options, copy_function=copy)
    )
    with pytest.raises(HeadraceError, match=r"cannot be written: .*No space left on device"):
        rewriting._copy(source, target)
    assert list(target.iterdir()) == [] if was_there else not target.exists()


def test_for_triton_a_model_is_written_as_its_repository_wants_it(model, rows, tmp_path) -> None:
    np.savez(tmp_path / "data.npz", x=rows, y=np.arange(500) % 3)
    (tmp_path / "scratch").mkdir()
    request = asked(model, tmp_path / "data.npz", candidates="onnx", target="triton")
    target = tmp_path / "repository" / "thirds"
    summary = rewriting.run(request, tmp_path / "scratch", target)
    assert summary.chosen == "onnx", summary.candidates[1]["reason"]
    assert sorted(path.name for path in target.iterdir()) == ["1", "config.pbtxt"]
    assert (target / "1" / "model.onnx").is_file()
    assert 'backend: "onnxruntime"' in (target / "config.pbtxt").read_text()


def test_a_file_that_cannot_be_read_is_the_users_error(tmp_path, monkeypatch) -> None:
    from components.rewriter import anywhere

    (tmp_path / "a.tfrecord").write_bytes(b"")

    def refuse(path: Path, *given: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="cannot be read: Permission denied") as raised:
        anywhere._read_records(tmp_path)
    assert raised.value.place.endswith("a.tfrecord")


def test_a_process_that_was_ended_is_told_without_a_traceback(model, tmp_path, monkeypatch) -> None:
    from components.rewriter import anywhere, rewrite

    def killed(job: object) -> None:
        raise rewrite.CandidateKilledError("float16 could not be judged: signal 9")

    monkeypatch.setattr(anywhere, "prepare", lambda *given: None)
    monkeypatch.setattr(rewrite, "rewrite", killed)
    with pytest.raises(HeadraceError, match="process was ended: float16 could not be judged"):
        rewriting.run(asked(model, tmp_path), tmp_path, None)


def test_advice_names_the_options_of_the_command(tmp_path) -> None:
    assert str(asked(tmp_path, tmp_path).policy.remedies) == (
        "give more examples with --data, or widen --max-drop"
    )


def test_records_without_the_label_are_the_users_error(tmp_path, make_example) -> None:
    from components.rewriter import anywhere

    good = make_example(label="a", x=1.0)
    assert anywhere._with_labels([good], "label", tmp_path) == [good]
    with pytest.raises(DataError, match="no feature 'lable'; it has label, x") as raised:
        anywhere._with_labels([good], "lable", tmp_path)
    assert "--label" in raised.value.remedy
    with pytest.raises(DataError, match=r"no tf\.train\.Example") as raised:
        anywhere._with_labels([good, b"\xff\xff"], "label", tmp_path)
    assert raised.value.place.endswith("record 1")


@pytest.mark.parametrize("value", [0.5, -1.0, 256.0, np.nan])
def test_rows_that_the_signatures_type_does_not_hold_are_refused(tmp_path, value: float) -> None:
    """They would be cut to other numbers, and both models judged on those."""
    from dataclasses import replace

    from components.rewriter import anywhere

    taken = replace(_adapted(), dtype="uint8")
    rows = np.full((3, 4), 7.0)
    np.savez(tmp_path / "data.npz", x=rows, y=np.array([0, 1, 2]))
    assert len(anywhere._records_of(tmp_path / "data.npz", taken)) == 3
    rows[1, 2] = value
    np.savez(tmp_path / "data.npz", x=rows, y=np.array([0, 1, 2]))
    with pytest.raises(DataError, match="the signature takes uint8") as raised:
        anywhere._records_of(tmp_path / "data.npz", taken)
    assert raised.value.place.endswith("row 1")


class _Double(tf.Module):
    """Answers in float64, for batches of one size or of any."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = tf.Variable(np.kron(np.eye(3), np.ones((64, 1))).astype(np.float32))

    def answers(self, row: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": tf.cast(tf.nn.softmax(row @ self.weights), tf.float64)}

    def save(self, folder: Path, batch: int | None) -> Path:
        serve = tf.function(self.answers, input_signature=[tf.TensorSpec([batch, 192], tf.float32, "row")])
        tf.saved_model.save(self, str(folder), {"serving_default": serve})
        return folder


def test_an_answer_keeps_its_type(rows, tmp_path) -> None:
    np.savez(tmp_path / "data.npz", x=rows, y=np.arange(500) % 3)
    (tmp_path / "scratch").mkdir()
    request = asked(_Double().save(tmp_path / "saved", None), tmp_path / "data.npz")
    assert rewriting.run(request, tmp_path / "scratch", tmp_path / "smaller").chosen == "float16"
    after = tf.saved_model.load(str(tmp_path / "smaller")).signatures["serving_default"]
    assert after(row=tf.constant(rows[:2]))["scores"].dtype == tf.float64


def test_a_batch_of_one_size_is_refused(rows, tmp_path) -> None:
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(InputError, match=r"\(1, 192\); expected a batch of any size"):
        rewriting.run(asked(_Double().save(tmp_path / "saved", 1), tmp_path / "rows.npy"), tmp_path, None)
