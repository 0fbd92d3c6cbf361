"""What preprocessing and training of tables are told, and which networks there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from modules.hparams.train import TrainHparams

CLASSIFICATION, REGRESSION = "classification", "regression"
"""What a model of a table predicts: one of some classes, or a number."""


TABULAR_NETWORKS = ("mlp", "wide_and_deep")
"""Networks for tables, by name."""


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
    task: str = CLASSIFICATION

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
    state_root: str = ""

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
            train=TrainHparams.from_config(config["train"]),
            state_root=config.get("state_root", ""),
        )
