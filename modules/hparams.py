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


def field_names(hparams: type[Any]) -> tuple[str, ...]:
    """The names of a hyperparameter class's fields, in order."""
    return tuple(field.name for field in fields(hparams))


@dataclass(frozen=True)
class ImageInputHparams:
    """What Transform is told of images: no more than changes its result, so that little re-runs it."""

    image_feature: str
    label_feature: str
    height: int
    width: int
    channels: int


@dataclass(frozen=True)
class TabularInputHparams:
    """What Transform is told of tables; `pipelines.config.TabularModel` describes each field."""

    label_feature: str
    categorical: tuple[str, ...]
    ignore: tuple[str, ...]
    crosses: tuple[tuple[str, ...], ...]
    buckets: int
    vocabulary_size: int
    cross_buckets: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        given = dict(config)
        given["categorical"] = tuple(given["categorical"])
        given["ignore"] = tuple(given["ignore"])
        given["crosses"] = tuple(tuple(names) for names in given["crosses"])
        return cls(**given)


@dataclass(frozen=True)
class TabularModelHparams:
    """A network for tables; `pipelines.config.TabularModel` describes each field."""

    name: str
    embedding: int
    hidden: tuple[int, ...]
    dropout: float


@dataclass(frozen=True)
class TabularHparams:
    """Everything that training on tables is told."""

    inputs: TabularInputHparams
    model: TabularModelHparams
    train: TrainHparams

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        model = dict(config["model"])
        model["hidden"] = tuple(model["hidden"])
        return cls(
            inputs=TabularInputHparams.from_config(config["inputs"]),
            model=TabularModelHparams(**model),
            train=TrainHparams(**config["train"]),
        )
