"""A seeded sample of sabotaged candidates; `make prove-rewriter` has a hundred, on trained models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from bench import prove_rewriter, sabotage, small_harm
from components import subprocesses
from components.rewriter import worker
from components.rewriter.base import Contract
from components.rewriter.choose import Policy
from modules import contract as names


def test_cases_are_seeded_and_take_all_kinds_by_turns() -> None:
    made = sabotage.cases(100, 1)
    assert made == sabotage.cases(100, 1) != sabotage.cases(100, 2)
    assert {case.kind for case in made[:8]} == set(sabotage.KINDS)
    assert len({case.name for case in made}) == 100


@pytest.mark.parametrize("attempt", range(sabotage._STRENGTHS))
def test_noise_for_token_ids_is_ids(attempt: int) -> None:
    """A number that is no id would fail the build, and prove nothing of the gate."""
    real = [np.array([[1, 7, 0], [3, 29, 2]], np.float32), np.array([[5, 5, 11, 0]], np.float32)]
    core = SimpleNamespace(inputs=[tf.TensorSpec([None, None])])
    model = SimpleNamespace(attempt=attempt, rng=np.random.default_rng(attempt), core=core)
    made = sabotage.Sabotaged._noise(cast(Any, model), real)
    assert [batch.shape for batch in made] == [batch.shape for batch in real]
    ids = np.concatenate([batch.ravel() for batch in made])
    assert ids.dtype == np.float32
    assert np.isin(ids, np.arange(30)).all()
    assert len(np.unique(ids)) <= max(1, 64 >> (2 * attempt))


def _network(pixels: Any, labels: Any) -> Any:
    """A small network that tells the bars apart."""
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    seen = model.fit(pixels[..., None].astype("float32"), labels, batch_size=32, epochs=3, verbose=0)
    assert seen.history["accuracy"][-1] > 0.99
    return model


@pytest.fixture(scope="module")
def trained(tmp_path_factory, make_example, png, write_tfrecord) -> prove_rewriter.Trained:
    """A small network that really tells bars in four places apart, with 320 validation examples."""
    from modules import export
    from modules.image.decode import decode_images

    root = tmp_path_factory.mktemp("bars")
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 90, (960, 8, 8))
    labels = np.arange(960) % 4
    for image, label in zip(pixels, labels, strict=True):
        image[:, 2 * label : 2 * label + 2] += 120
    model = _network(pixels, labels)
    spec = {"image": tf.io.FixedLenFeature([], tf.string)}

    def decode(raw):
        return decode_images(tf.io.parse_example(raw, spec)["image"], height=8, width=8, channels=1)

    export.save(
        str(root / "model" / "Format-Serving"),
        model,
        ["a", "b", "c", "d"],
        {names.SIGNATURE_EXAMPLES: decode},
    )
    records = [
        make_example(image=png(image), label="abcd"[label])
        for image, label in zip(pixels, labels, strict=True)
    ]
    for split, part in (("train", records[:640]), ("validation", records[640:])):
        write_tfrecord(root / "examples" / f"Split-{split}" / "data-00000-of-00001.gz", part, "GZIP")
    contract = Contract(
        core=names.CORE_FUNCTION,
        class_names=names.CLASS_NAMES_FUNCTION,
        preprocessing=names.PREPROCESSING_MODULE,
        signatures={names.SIGNATURE_EXAMPLES: names.PREPROCESS_FUNCTIONS[names.SIGNATURE_EXAMPLES]},
        scores=names.OUTPUT_SCORES,
        classes=names.OUTPUT_CLASSES,
    )
    task = worker.Task(
        technique="identity",
        model_uri=str(root / "model"),
        contract=contract.to_json(),
        folder=root / "scratch" / "identity",
        original=root / "scratch" / "identity",
        examples_uri=str(root / "examples"),
        split="validation",
        calibration_split="train",
        label="label",
        slices=["label"],
        max_examples=1000,
    )
    return prove_rewriter.Trained("bars", task, Policy("size", 1.0, 0.95, 5.0))


@pytest.fixture(scope="module")
def scratch(trained) -> Path:
    return trained.task.folder.parent


@pytest.fixture(scope="module")
def built(trained) -> None:
    prove_rewriter.original(trained)


def test_sound_candidates_pass(trained, built, scratch) -> None:
    found = prove_rewriter.sound(trained, scratch, ["float16", "tflite"])
    assert [(item.name, item.refused, item.reason) for item in found if item.refused] == []


_QUICK = ("calibrated_on_noise", "nan_in_a_weight", "truncated_file", "slice_ruined")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.kind, marks=() if case.kind in _QUICK else pytest.mark.slow)
        for case in sabotage.cases(8, 5)
    ],
)
def test_sabotaged_candidates_are_refused(trained, built, scratch, case) -> None:
    (found,) = prove_rewriter.sabotaged(trained, scratch, [case])
    assert found.refused, found.reason


@pytest.mark.parametrize(
    ("cause", "may_not_load", "word"),
    [
        ("raised", True, "refused"),
        ("crashed", True, "refused"),
        ("time", True, "NOT JUDGED"),
        ("killed", True, "NOT JUDGED"),
        ("raised", False, "NOT JUDGED"),
    ],
)
def test_what_could_not_be_judged_was_not_refused(trained, monkeypatch, cause, may_not_load, word) -> None:
    """A broken runtime or a slow machine would else count as the gate's doing."""

    def fail(*given, **options) -> None:
        raise subprocesses.WorkerFailed("no", cause)

    monkeypatch.setattr(subprocesses, "run", fail)
    found = prove_rewriter.judged(trained.task, "case", trained.policy, may_not_load=may_not_load)
    assert found.word == word
    assert not found.passed


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.kind, marks=() if case.kind == "noisy_weights" else pytest.mark.slow)
        for case in small_harm.cases(3, 1)
    ],
)
def test_small_harm_is_as_large_as_was_drawn(trained, tmp_path, case) -> None:
    """Measured on examples that the gate does not see, with the candidate that was built."""
    task = sabotage.with_folder(trained.task, case, tmp_path)
    small_harm.build(small_harm.Asked(case, task, 4.0))
    lost = small_harm.read_drop(task.folder)
    assert 4.0 - 0.5 < lost["drop"] <= 12.0 + 0.5
    assert lost["unseen"] == 640


def test_a_slightly_harmed_candidate_is_judged_with_what_it_loses(trained, built, scratch) -> None:
    (case, *_) = [item for item in small_harm.cases(6, 1) if item.technique in ("frozen", "float16")]
    wide = replace(trained, policy=replace(trained.policy, max_drop=4.0, max_slice_drop=100.0))
    (found,) = prove_rewriter.slightly_harmed(wide, scratch, [case])
    assert found.judged
    assert found.reason.startswith("loses ")


def test_an_int8_candidate_is_sound_where_one_qualifies(trained, built, scratch) -> None:
    int8 = prove_rewriter.sound_int8(trained, scratch, ["tflite_dynamic"])
    assert int8 is None or int8.passed


@pytest.mark.parametrize(("passed", "reached"), [(0, True), (3, True), (4, False)])
def test_of_the_slightly_harmed_some_may_pass(passed: int, reached: bool) -> None:
    """One in twenty at a confidence of 0.95; three of twenty are within what chance allows."""
    slight = [prove_rewriter.Result(str(number), number >= passed, "") for number in range(20)]
    good = bad = [prove_rewriter.Result("case", False, "")]
    *_, figure = prove_rewriter.figures_of("bars", good, bad, slight, 0.95)
    assert (figure.ours, figure.other, figure.reached) == (passed, 20, reached)


def test_what_is_only_no_smaller_was_not_refused(trained, built) -> None:
    """The gate would have passed its answers: counted as refused, it would prove what is not so."""
    found = prove_rewriter.judged(replace(trained.task, rounds=1), "identity", trained.policy)
    assert found.word == "passed"
