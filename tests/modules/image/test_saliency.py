"""Grad-CAM: the place that decides is the place that is shown."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules import contract
from modules.image import saliency


def bright_spot_model() -> keras.Model:
    """Class 1 is a bright spot anywhere: one convolution that passes brightness on."""
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(1, 2, strides=2, use_bias=False, kernel_initializer="ones", name="features")(
        inputs
    )
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    dense = keras.layers.Dense(2, "softmax", name="scores")
    model = keras.Model(inputs, dense(x))
    dense.set_weights([np.array([[-0.1, 0.1]], np.float32), np.array([1.0, -1.0], np.float32)])
    return model


def spot(row: int, column: int) -> np.ndarray:
    image = np.zeros((8, 8, 1), np.float32)
    image[row, column] = 255.0
    return image


def test_the_spot_is_found() -> None:
    images = tf.constant(np.stack([spot(1, 6), spot(7, 0)]))
    heat = saliency.grad_cam(bright_spot_model(), images, [1, 1])
    assert heat.shape == (2, 4, 4)
    assert np.unravel_index(heat[0].argmax(), (4, 4)) == (0, 3)
    assert np.unravel_index(heat[1].argmax(), (4, 4)) == (3, 0)
    assert heat.max() == 1.0 and np.count_nonzero(heat) == 2


def test_nothing_speaks_for_the_other_class() -> None:
    heat = saliency.grad_cam(bright_spot_model(), tf.constant(spot(1, 6)[None]), [0])
    np.testing.assert_array_equal(heat, np.zeros((1, 4, 4)))


@pytest.mark.parametrize(
    ("tokens", "aspect", "shape"), [(12, 0.75, (3, 4)), (16, 1.0, (4, 4)), (6, 1.5, (3, 2))]
)
def test_tokens_become_the_grid_they_were(tokens: int, aspect: float, shape: tuple[int, int]) -> None:
    assert saliency._as_grid(np.zeros((1, tokens)), aspect).shape == (1, *shape)


def test_only_mistakes_get_pictures_the_surest_first(tmp_path) -> None:
    model = bright_spot_model()
    examples = [(b"right", spot(0, 0), 1), (b"wrong", spot(1, 6), 0), (b"dark", np.zeros((8, 8, 1), "f"), 0)]
    assert saliency.write(model, examples, tmp_path, ["dark", "spot"]) == 1
    folder = tmp_path / contract.SALIENCY_FOLDER
    (item,) = json.loads((folder / contract.SALIENCY_INDEX).read_text()).values()
    assert item == {"file": "00.png", "predicted": "spot"}
    assert (folder / "00.png").read_bytes()[:4] == b"\x89PNG"


def test_a_model_without_pooling_gets_none(tmp_path) -> None:
    inputs = keras.Input((8, 8, 1))
    model = keras.Model(inputs, keras.layers.Dense(2, "softmax")(keras.layers.Flatten()(inputs)))
    assert saliency.write(model, [(b"x", spot(0, 0), 0)], tmp_path, ["a", "b"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_overlay_is_red_where_the_heat_is() -> None:
    heat = np.array([[1.0, 0.0], [0.0, 0.0]], np.float32)
    picture = np.asarray(saliency.overlay(np.full((10, 10, 3), 100.0), heat), int)
    assert picture.shape == (96, 96, 3)
    assert picture[0, 0, 0] > picture[0, 0, 2] + 50
    assert np.ptp(picture[-1, -1]) <= 1


def test_a_model_without_places_before_pooling_gets_none(tmp_path) -> None:
    """One whose own network gives a vector."""
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Flatten(name="pool")(keras.layers.GlobalAveragePooling2D()(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2, "softmax")(x))
    examples = [(b"x", spot(0, 0), label) for label in (0, 1)]
    assert saliency.write(model, examples, tmp_path, ["a", "b"]) == 0
    assert list(tmp_path.iterdir()) == []
