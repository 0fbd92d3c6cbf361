"""What a trainer may be told. Standard library only.

    hparams = ImageHparams.from_config(fn_args.custom_config)
    hparams.train.batch_size

The experiment's configuration fills these; the trainer reads nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True)
class ScheduleHparams:
    """How the learning rate moves; see `modules.training.schedules`."""

    name: str = "cosine"
    unit: str = "epochs"
    warmup: float | None = None
    floor: float = 0.0
    rate: float = 0.95
    every: float = 1.0
    power: float = 1.0
    boundaries: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()
    restarts: int = 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads a JSON-like mapping; lists become tuples."""
        return cls(**_with_tuples(config, ("boundaries", "factors")))


@dataclass(frozen=True)
class CheckpointHparams:
    """When the state of training is written down; see `modules.training.checkpoints`."""

    every_steps: int = 0
    every_minutes: float = 5.0
    keep: int = 2
    resume: bool = True
    max_age_days: float = 14.0


@dataclass(frozen=True)
class TrainHparams:
    """How to train. Units: epochs, examples, and 1/step for rates.

    `pipelines.config.Train` describes each; the defaults are the same.
    """

    epochs: int = 30
    batch_size: int = 64
    learning_rate: float = 0.002
    learning_rate_scaling: str = "none"
    reference_batch_size: int = 256
    weight_decay: float = 0.0005
    decay_norms_and_biases: bool = False
    layer_decay: float = 1.0
    warmup_fraction: float = 0.05
    schedule: ScheduleHparams = ScheduleHparams()
    optimizer: str = "adamw"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "cross_entropy"
    label_smoothing: float = 0.05
    focal_gamma: float = 2.0
    huber_delta: float = 1.0
    class_weights: str = "none"
    early_stopping_patience: int = 8
    reduce_on_plateau_patience: int = 0
    reduce_on_plateau_factor: float = 0.5
    accumulate_steps: int = 1
    clip: str = "global_norm"
    clip_at: float = 1.0
    ema_momentum: float = 0.0
    precision: str = "auto"
    xla: str = "auto"
    fused_normalization: bool = True
    recompute: bool = False
    strategy: str = "auto"
    local_workers: int = 1
    worker_timeout_s: float = 300.0
    sync_batch_norm: bool = False
    steps_per_call: int = 0
    devices: str = "auto"
    onednn: str = "auto"
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    checkpoint: CheckpointHparams = CheckpointHparams()
    deterministic: bool = False
    seed: int = 17
    tensorboard: bool = True
    histograms: int = 0
    profile: str = ""
    warm_start: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping of an experiment's `train:`.

        Raises:
            TypeError: a key is unknown.
        """
        values = dict(config)
        if "schedule" in values:
            values["schedule"] = ScheduleHparams.from_config(values["schedule"])
        if "checkpoint" in values:
            values["checkpoint"] = CheckpointHparams(**values["checkpoint"])
        return cls(**values)


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
    state_root: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        return cls(
            image_feature=config["image_feature"],
            label_feature=config["label_feature"],
            model=ImageModelHparams(**_with_tuples(config["model"], ("filters",))),
            train=TrainHparams.from_config(config["train"]),
            state_root=config.get("state_root", ""),
        )


def field_names(hparams: type[Any]) -> tuple[str, ...]:
    """The names of a hyperparameter class's fields, in order."""
    return tuple(item.name for item in fields(hparams))


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


INPUT_HPARAMS: dict[str, type[Any]] = {"image": ImageInputHparams, "tabular": TabularInputHparams}
"""Family of models -> what its Transform is told."""


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


def _with_tuples(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: tuple(value) if name in names else value for name, value in config.items()}
