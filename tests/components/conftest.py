"""A small trained model with the exporter's contract, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.rewriter.base import Contract
from modules import contract as names

CLASSES = ["cat", "dog", "owl"]


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract(
        core=names.CORE_FUNCTION,
        class_names=names.CLASS_NAMES_FUNCTION,
        preprocessing=names.PREPROCESSING_MODULE,
        signatures={name: names.PREPROCESS_FUNCTIONS[name] for name in names.FAMILY_SIGNATURES["image"]},
        scores=names.OUTPUT_SCORES,
        classes=names.OUTPUT_CLASSES,
    )


@pytest.fixture(scope="session")
def model_uri(tmp_path_factory) -> Path:
    """An exported image model of 8 x 8 grey pixels and three classes, with random weights."""
    import keras
    import tensorflow as tf

    from modules import export
    from modules.hparams.image import ImageModelHparams
    from modules.image import model as image_model
    from modules.image.decode import decode_images

    keras.utils.set_random_seed(3)
    hparams = ImageModelHparams("separable_resnet", 8, 8, 1, (16, 32), 1, 0.0)
    model = image_model.build(hparams, class_count=3, mean=[100.0], variance=[4000.0])
    folder = tmp_path_factory.mktemp("model")
    spec = {"image": tf.io.FixedLenFeature([], tf.string)}

    def preprocess_image(encoded):
        return decode_images(encoded, height=8, width=8, channels=1)

    export.save(
        str(folder / "Format-Serving"),
        model,
        CLASSES,
        {
            names.SIGNATURE_EXAMPLES: lambda raw: preprocess_image(tf.io.parse_example(raw, spec)["image"]),
            names.SIGNATURE_IMAGE: preprocess_image,
        },
    )
    return folder


@pytest.fixture(scope="session")
def records(make_example, png) -> list[bytes]:
    """60 noise images with labels, as serialized Examples."""
    import numpy as np

    rng = np.random.default_rng(11)
    return [
        make_example(image=png(rng.integers(0, 256, (8, 8))), label=CLASSES[number % 3])
        for number in range(60)
    ]


@pytest.fixture(scope="session")
def examples_uri(tmp_path_factory, write_tfrecord, records) -> Path:
    """An Examples artifact's folder with one split, `validation`."""
    folder = tmp_path_factory.mktemp("examples")
    write_tfrecord(folder / "Split-validation" / "data_tfrecord-00000-of-00001.gz", records, "GZIP")
    return folder
