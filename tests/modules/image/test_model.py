"""Image models: shapes, probabilities, a falling loss."""

from __future__ import annotations

import numpy as np
import pytest

from modules.errors import TrainingError
from modules.hparams import ImageModelHparams
from modules.image import model as image_model


def hparams(**changes) -> ImageModelHparams:
    settings = {
        "name": "separable_resnet",
        "height": 8,
        "width": 8,
        "channels": 1,
        "filters": (8, 16),
        "blocks_per_stage": 1,
        "dropout": 0.1,
    }
    return ImageModelHparams(**{**settings, **changes})


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [(8, 8), (9, 13)])
def test_every_model_gives_probabilities(channels: int, size: tuple[int, int]) -> None:
    for name in image_model.BACKBONES:
        chosen = hparams(name=name, channels=channels, height=size[0], width=size[1])
        model = image_model.build(
            chosen, class_count=5, mean=[100.0] * channels, variance=[2000.0] * channels
        )
        scores = np.asarray(model(np.full((3, *size, channels), 128.0, np.float32)))
        assert scores.shape == (3, 5)
        np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-5)


def test_a_constant_channel_does_not_divide_by_zero() -> None:
    model = image_model.build(hparams(), class_count=2, mean=[7.0], variance=[0.0])
    assert np.isfinite(np.asarray(model(np.full((1, 8, 8, 1), 7.0, np.float32)))).all()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(TrainingError, match="no image model 'resnet'"):
        image_model.build(hparams(name="resnet"), class_count=2, mean=[0.0], variance=[1.0])
