"""What a trainer may be told. Standard library only.

    hparams = ImageHparams.from_config(fn_args.custom_config)
    hparams.train.batch_size

The experiment's configuration fills these; the trainer reads nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class TrainHparams:
    """How to train. Units: epochs, examples, and 1/step for rates."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    warmup_fraction: float
    label_smoothing: float
    early_stopping_patience: int
    seed: int


@dataclass(frozen=True)
class ImageModelHparams:
    """The network, and the size in pixels that images are brought to."""

    name: str
    height: int
    width: int
    channels: int
    filters: tuple[int, ...]
    blocks_per_stage: int
    dropout: float
    augment_shift: int


@dataclass(frozen=True)
class ImageHparams:
    """Everything that preprocessing and training of images is told."""

    image_feature: str
    label_feature: str
    model: ImageModelHparams
    train: TrainHparams

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        model = dict(config["model"])
        model["filters"] = tuple(model["filters"])
        return cls(
            image_feature=config["image_feature"],
            label_feature=config["label_feature"],
            model=ImageModelHparams(**model),
            train=TrainHparams(**config["train"]),
        )


def field_names(hparams: type[TrainHparams] | type[ImageModelHparams]) -> tuple[str, ...]:
    """The names of a hyperparameter class's fields, in order."""
    return tuple(field.name for field in fields(hparams))
