"""What training is told, whatever it trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from modules.hparams.reading import with_tuples


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
        return cls(**with_tuples(config, ("boundaries", "factors")))


@dataclass(frozen=True)
class CheckpointHparams:
    """When the state of training is written down; see `modules.training.checkpoints`."""

    every_steps: int = 0
    every_minutes: float = 5.0
    keep: int = 2
    resume: bool = True
    max_age_days: float = 14.0


@dataclass(frozen=True)
class DistillHparams:
    """What a teacher adds; see `modules.training.distill`. `teacher` is a path here."""

    teacher: str
    temperature: float = 2.0
    alpha: float = 0.5
    feature_weight: float = 0.0
    classes: tuple[str, ...] = ()
    teacher_digest: str = ""


@dataclass(frozen=True)
class PruneHparams:
    """How many weights become zero, and when; see `modules.training.prune`."""

    sparsity: float = 0.8
    scope: str = "global"
    begin: float = 0.1
    end: float = 0.6
    every_steps: int = 50


@dataclass(frozen=True)
class QuantizeAwareHparams:
    """Training with rounded numbers; see `modules.training.quantize_aware`."""

    begin: float = 0.5
    momentum: float = 0.99


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
    fused_activations: bool = True
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
    cache: str = "auto"
    tensorboard: bool = True
    histograms: int = 0
    profile: str = ""
    warm_start: bool = False
    distill: DistillHparams | None = None
    prune: PruneHparams | None = None
    quantize_aware: QuantizeAwareHparams | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping of an experiment's `train:`.

        Raises:
            TypeError: a key is unknown.
        """
        values = dict(config)
        if values.get("loss") is None:  # that of classes; a regression's is said
            values.pop("loss", None)
        if "schedule" in values:
            values["schedule"] = ScheduleHparams.from_config(values["schedule"])
        if "checkpoint" in values:
            values["checkpoint"] = CheckpointHparams(**values["checkpoint"])
        if values.get("distill"):
            values["distill"] = DistillHparams(**with_tuples(values["distill"], ("classes",)))
        if values.get("prune"):
            values["prune"] = PruneHparams(**values["prune"])
        if values.get("quantize_aware"):
            values["quantize_aware"] = QuantizeAwareHparams(**values["quantize_aware"])
        return cls(**values)
