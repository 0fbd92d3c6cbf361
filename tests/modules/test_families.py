"""From raw input to the same answer, whether by training or by serving, for every family.

A model is trained as the chain trains it; then a process with nothing but
TensorFlow answers raw input through the serving signatures, and this one
answers it through Transform's output and the Keras model.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from PIL import Image

from modules import class_labels, contract
from modules.errors import TrainingError
from modules.hparams.image import ImageModelHparams
from modules.image.decode import decode_images
from modules.tabular import columns
from modules.training import prune
from tests.modules import families
from tests.modules.training.small import hparams

TRAIN = asdict(replace(hparams(epochs=2, batch_size=8), label_smoothing=0.1))


def jpeg(level: int, size: tuple[int, int]) -> bytes:
    pixels = np.random.default_rng(level).integers(0, 60, (*size, 3)) + level
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, format="JPEG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def images(tmp_path_factory, make_example) -> tuple[families.Trained, list[bytes], list[bytes]]:
    """A small residual network, trained on JPEGs of several sizes."""
    encoded = [jpeg(30 + 60 * (index % 3), (20 + index, 33)) for index in range(24)]
    records = [
        make_example(image=image, label="abc"[index % 3], name=f"{index}")
        for index, image in enumerate(encoded)
    ]
    spec = {name: tf.io.FixedLenFeature([1], tf.string) for name in ("image", "label")}
    model = ImageModelHparams("separable_resnet", 8, 8, 3, (4, 8), 1, 0.1)
    inputs = {"image_feature": "image", "label_feature": "label", "height": 8, "width": 8, "channels": 3}
    told = {"image_feature": "image", "label_feature": "label", "model": asdict(model), "train": TRAIN}
    folder = tmp_path_factory.mktemp("images")
    return families.train("image", records, spec, told, inputs, folder), encoded, records


@pytest.fixture(scope="module")
def numbers(tmp_path_factory, make_example) -> tuple[families.Trained, list[bytes], dict]:
    """A regression on a table whose labels are large, with missing cells."""
    random = np.random.default_rng(0)
    records = []
    for index in range(64):
        size, kind = float(random.normal(50, 10)), "xy"[index % 2]
        cells = {"size": size, "kind": kind, "price": 1000.0 + 20 * size + (300 if kind == "x" else 0)}
        if index % 7 == 0:
            del cells["size"]
        records.append(make_example(**cells))
    spec = {
        "size": tf.io.VarLenFeature(tf.float32),
        "kind": tf.io.FixedLenFeature([1], tf.string),
        "price": tf.io.FixedLenFeature([1], tf.float32),
    }
    inputs = {
        "label_feature": "price", "categorical": [], "ignore": [], "crosses": [["size", "kind"]],
        "buckets": 4, "vocabulary_size": 10, "cross_buckets": 20, "task": "regression",
    }  # fmt: skip
    model = {"name": "wide_and_deep", "embedding": 4, "hidden": [16], "dropout": 0.0}
    train = asdict(hparams(epochs=60, batch_size=16, optimizer="adam", learning_rate=0.02, loss="mse"))
    told = {"inputs": inputs, "model": model, "train": {**train, "early_stopping_patience": 60}}
    folder = tmp_path_factory.mktemp("numbers")
    return families.train("tabular", records, spec, told, inputs, folder), records, spec


def test_images_are_answered_as_in_training(images, tmp_path: Path) -> None:
    trained, encoded, records = images
    model = keras.models.load_model(trained.keras)
    expected = np.asarray(model(decode_images(tf.constant(encoded), height=8, width=8, channels=3)))
    for signature, raw in ((contract.SIGNATURE_EXAMPLES, records), (contract.SIGNATURE_IMAGE, encoded)):
        _, name = contract.PREPROCESS_FUNCTIONS[signature]
        answer = families.served(trained, signature, name, raw, tmp_path)
        np.testing.assert_allclose(answer[contract.OUTPUT_SCORES], expected, atol=1e-5)


def test_a_student_is_taught_pruned_and_quantized_and_answers_alike(images, tmp_path: Path) -> None:
    """All of `train:` that compresses, at once, with the trained model as the teacher."""
    trained, encoded, records = images
    told = {
        "image_feature": "image",
        "label_feature": "label",
        "model": asdict(ImageModelHparams("cifar_resnet", 8, 8, 3, (4,), 1, 0.0)),
        "train": {
            **TRAIN,
            "epochs": 4,
            "distill": {"teacher": str(trained.saved_model), "temperature": 2.0, "alpha": 0.5},
            "prune": {"sparsity": 0.5, "scope": "layer", "begin": 0.0, "end": 0.5, "every_steps": 2},
            "quantize_aware": {"begin": 0.5, "momentum": 0.5},
        },
    }
    student = families.train_again("image", told, trained.transform.parent, tmp_path)
    model = keras.models.load_model(student.keras)
    assert prune.sparsity(model) == pytest.approx(0.5, abs=0.03)
    expected = np.asarray(model(decode_images(tf.constant(encoded), height=8, width=8, channels=3)))
    name = contract.INPUT_EXAMPLES
    answer = families.served(student, contract.SIGNATURE_EXAMPLES, name, records, tmp_path)
    np.testing.assert_allclose(answer[contract.OUTPUT_SCORES], expected, atol=1e-5)


def test_rows_are_answered_as_in_training_and_in_the_labels_unit(numbers, tmp_path: Path) -> None:
    trained, records, spec = numbers
    layer = tft.TFTransformOutput(str(trained.transform)).transform_features_layer()
    parsed = tf.io.parse_example(
        tf.constant(records), {name: kind for name, kind in spec.items() if name != "price"}
    )
    rows = layer(parsed)[columns.ROW]
    expected = np.asarray(keras.models.load_model(trained.keras)(rows))
    assert expected.shape == (64,)
    answer = families.served(trained, contract.SIGNATURE_EXAMPLES, contract.INPUT_EXAMPLES, records, tmp_path)
    assert set(answer) == {contract.OUTPUT_VALUES}
    np.testing.assert_allclose(answer[contract.OUTPUT_VALUES], expected, rtol=1e-5)
    prices = np.array([tf.train.Example.FromString(record).features.feature["price"].float_list.value[0]
                       for record in records])  # fmt: skip
    known = np.arange(64) % 7 != 0
    errors = np.abs(expected - prices)[known]
    assert errors.mean() < 0.3 * np.abs(prices - prices.mean())[known].mean()


def test_a_regression_reports_its_own_metrics(numbers) -> None:
    trained, _, _ = numbers
    history = json.loads((trained.run / contract.HISTORY_FILE).read_text())["history"]
    assert {"loss", "mean_absolute_error", "val_mean_absolute_error"} <= set(history)
    assert history["val_loss"][-1] < 0.5 * history["val_loss"][0]


def test_mistakes_have_pictures_that_are_found_by_the_encoded_image(images) -> None:
    import hashlib

    trained, encoded, _ = images
    model = keras.models.load_model(trained.keras)
    scores = np.asarray(model(decode_images(tf.constant(encoded), height=8, width=8, channels=3)))
    names = class_labels.read(tft.TFTransformOutput(str(trained.transform))).names
    wrong = {
        hashlib.sha256(image).hexdigest(): names[int(row.argmax())]
        for index, (image, row) in enumerate(zip(encoded, scores, strict=True))
        if names[int(row.argmax())] != "abc"[index % 3]
    }
    folder = trained.run / contract.SALIENCY_FOLDER
    index_file = folder / contract.SALIENCY_INDEX
    index = json.loads(index_file.read_text()) if index_file.exists() else {}
    assert {digest: item["predicted"] for digest, item in index.items()} == wrong
    for item in index.values():
        with Image.open(folder / item["file"]) as picture:
            assert max(picture.size) == 96 and picture.mode == "RGB"


def things(make_example, kinds: str, size: float) -> list[bytes]:
    random = np.random.default_rng(1)
    return [
        make_example(size=float(random.normal(size, 1)), kind=kind, label="ab"[kind == "x"])
        for kind in kinds * 16
    ]


def test_a_students_rows_must_mean_the_same_to_its_teacher(make_example, tmp_path: Path) -> None:
    """Ids go by frequency and z-scores by the data: the shapes are the same, the numbers are not."""
    spec = {
        "size": tf.io.FixedLenFeature([1], tf.float32),
        "kind": tf.io.FixedLenFeature([1], tf.string),
        "label": tf.io.FixedLenFeature([1], tf.string),
    }
    inputs = {
        "label_feature": "label", "categorical": [], "ignore": [], "crosses": [], "buckets": 4,
        "vocabulary_size": 10, "cross_buckets": 20, "task": "classification",
    }  # fmt: skip
    model = {"name": "mlp", "embedding": 4, "hidden": [8], "dropout": 0.0}
    told = {"inputs": inputs, "model": model, "train": TRAIN}
    folders = {name: tmp_path / name for name in ("teacher", "student", "frequency", "moments")}
    for folder in folders.values():
        folder.mkdir()
    records = things(make_example, "xxy", 5.0)
    teacher = families.train("tabular", records, spec, told, inputs, folders["teacher"])
    distilled = {"teacher": str(teacher.saved_model), "temperature": 2.0, "alpha": 0.5}
    told = {**told, "train": {**TRAIN, "distill": distilled}}
    families.train_again("tabular", told, folders["teacher"], folders["student"])
    others = (("frequency", "yyx", 5.0), ("moments", "xxy", 6.0))
    for name, kinds, size in others:
        records = things(make_example, kinds, size)
        with pytest.raises(TrainingError, match="makes other numbers of the same examples"):
            families.train("tabular", records, spec, told, inputs, folders[name])
