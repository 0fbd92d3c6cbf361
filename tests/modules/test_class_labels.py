"""Classes and their counts, as Transform's full pass finds them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
import tensorflow_transform as tft

from modules import class_labels, contract
from modules.errors import TrainingError

LABELS = ["new york", "rome", "new york", "7", "rome", "rome"]


def _plain(text: tf.Tensor) -> tf.Tensor:
    return tft.compute_and_apply_vocabulary(text, vocab_filename=contract.LABEL_VOCABULARY)


def _transformed(folder: Path, to_ids: Any) -> tuple[list[int], tft.TFTransformOutput]:
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

    spec = {"label": tf.io.FixedLenFeature([], tf.string)}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))
    rows = [{"label": label} for label in LABELS]
    with tft_beam.Context(temp_dir=str(folder / "temporary")):
        (made, _), graph = (rows, metadata) | tft_beam.AnalyzeAndTransformDataset(
            lambda inputs: {"label": to_ids(tf.reshape(inputs["label"], [-1]))}
        )
        graph | "Write" >> tft_beam.WriteTransformFn(str(folder / "transform"))
    return [int(row["label"]) for row in made], tft.TFTransformOutput(str(folder / "transform"))


def test_names_and_counts_are_those_of_the_ids(tmp_path: Path) -> None:
    ids, output = _transformed(tmp_path, class_labels.class_ids)
    classes = class_labels.read(output)
    assert classes.names == ["rome", "new york", "7"]
    assert classes.counts == [3, 2, 1]
    assert [classes.names[index] for index in ids] == LABELS


def test_an_unseen_label_has_no_class(tmp_path: Path) -> None:
    _, output = _transformed(tmp_path, class_labels.class_ids)
    layer = output.transform_features_layer()
    assert layer({"label": tf.constant(["oslo", "new york"])})["label"].numpy().tolist() == [-1, 1]


def test_a_label_that_is_no_text_is_named() -> None:
    output = SimpleNamespace(
        vocabulary_file_by_name=lambda name: "there", vocabulary_by_name=lambda name: [b"3 caf\xe9"]
    )
    with pytest.raises(TrainingError, match=r"no UTF-8 text: b'3 caf\\xe9'"):
        class_labels.read(output)


def test_a_plain_vocabulary_has_no_counts(tmp_path: Path) -> None:
    ids, output = _transformed(tmp_path, _plain)
    classes = class_labels.read(output)
    assert classes.counts is None
    assert [classes.names[index] for index in ids] == LABELS
