"""Exact outputs of the image preprocessing, and of the decoder it shares with serving."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.image.decode import decode_image, decode_images
from modules.image.preprocessing import preprocessing_fn

CONFIG = {"image_feature": "image", "label_feature": "label", "height": 2, "width": 2, "channels": 1}


@pytest.mark.parametrize("in_graph", [False, True])
def test_an_image_of_the_right_size_is_decoded_exactly(png, in_graph: bool) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    call = lambda one: decode_image(one, height=4, width=4, channels=3)  # noqa: E731
    decoded = (tf.function(call) if in_graph else call)(tf.constant(png(pixels)))
    assert decoded.dtype == tf.float32
    np.testing.assert_array_equal(decoded.numpy(), pixels)


def test_grey_becomes_colour_and_sizes_are_brought_to_one(png) -> None:
    decoded = decode_images(tf.constant([png(40, size=9), png(40, size=3)]), height=5, width=7, channels=3)
    assert decoded.shape == (2, 5, 7, 3)
    np.testing.assert_allclose(decoded.numpy(), 40, atol=1e-3)


def test_decoding_inside_tf_data_is_the_same(png) -> None:
    encoded = [png(level, size=6) for level in (0, 100, 255)]
    dataset = tf.data.Dataset.from_tensor_slices(encoded).map(
        lambda one: decode_image(one, height=6, width=6, channels=1)
    )
    direct = decode_images(tf.constant(encoded), height=6, width=6, channels=1)
    np.testing.assert_array_equal(np.stack(list(dataset.as_numpy_iterator())), direct.numpy())


def test_bytes_that_are_no_image_raise() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode_image(tf.constant(b"rubbish"), height=2, width=2, channels=1)


def test_transform_gives_ids_moments_and_the_image_itself(tmp_path, png) -> None:
    """Through Transform: vocabulary by frequency, moments over all pixels of the analysed data."""
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

    images = [png([[0, 100], [0, 100]]), png([[200, 200], [200, 200]]), png([[50, 50], [50, 50]])]
    rows = [
        {"image": [image], "label": [label]} for image, label in zip(images, [b"b", b"a", b"b"], strict=True)
    ]
    spec = {name: tf.io.FixedLenFeature([1], tf.string) for name in ("image", "label")}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))
    with beam.Pipeline(runner="FnApiRunner") as pipeline, tft_beam.Context(temp_dir=str(tmp_path)):
        (data, _), _ = (pipeline | beam.Create(rows), metadata) | tft_beam.AnalyzeAndTransformDataset(
            lambda inputs: preprocessing_fn(inputs, CONFIG)
        )
        _ = (
            data
            | beam.Map(
                lambda row: (row["image"], int(row["label"]), row["image_mean"], row["image_variance"])
            )
            | (beam.combiners.ToList() | beam.Map(_check_rows, images))
        )


def _check_rows(rows, images) -> None:
    pixels = np.array([0, 100, 0, 100, 200, 200, 200, 200, 50, 50, 50, 50], np.float64)
    by_image = {image: (label, mean, variance) for image, label, mean, variance in rows}
    assert set(by_image) == set(images)
    assert [by_image[image][0] for image in images] == [0, 1, 0]
    for _, mean, variance in by_image.values():
        np.testing.assert_allclose(mean, [pixels.mean()], rtol=1e-6)
        np.testing.assert_allclose(variance, [pixels.var()], rtol=1e-4)
