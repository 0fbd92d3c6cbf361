"""Which trainings are so small that their operations run on one thread."""

from __future__ import annotations

import dataclasses

import pytest

from modules.hparams.image import ImageHparams
from modules.image.trainer import is_small
from pipelines import config, create


def _hparams(experiment: str, *changes: str) -> ImageHparams:
    made = ImageHparams.from_config(create._hparams(config.load(experiment, list(changes))))
    return dataclasses.replace(made, state_root="")


@pytest.mark.parametrize(
    ("experiment", "changes", "small"),
    [
        ("digits", (), True),
        ("digits", ("train.batch_size=512",), False),
        ("digits", ("model.filters=[256, 512]",), False),
        ("digits", ("model.name=vit_tiny",), False),
        ("fashion", (), False),
    ],
)
def test_small_steps(experiment: str, changes: tuple[str, ...], small: bool) -> None:
    assert is_small(_hparams(experiment, *changes)) is small
