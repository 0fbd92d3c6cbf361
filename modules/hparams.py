"""What a trainer may be told. Standard library only.

    hparams = ImageHparams.from_config(fn_args.custom_config)
    hparams.train.batch_size

The experiment's configuration fills these; the trainer reads nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

CLASSIFICATION, REGRESSION = "classification", "regression"
"""What a model of a table predicts: one of some classes, or a number."""

TABULAR_NETWORKS = ("mlp", "wide_and_deep")
"""Networks for tables, by name."""

IMAGE_NETWORKS = ("cifar_resnet", "separable_resnet", "vit_small", "vit_tiny")
"""Image networks of our own, by name."""

KERAS_NETWORKS = (
    "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtSmall", "ConvNeXtTiny", "ConvNeXtXLarge",
    "DenseNet121", "DenseNet169", "DenseNet201",
    "EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4",
    "EfficientNetB5", "EfficientNetB6", "EfficientNetB7",
    "EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3",
    "EfficientNetV2L", "EfficientNetV2M", "EfficientNetV2S",
    "InceptionResNetV2", "InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small",
    "NASNetLarge", "NASNetMobile", "ResNet101", "ResNet101V2", "ResNet152", "ResNet152V2",
    "ResNet50", "ResNet50V2", "VGG16", "VGG19", "Xception",
)  # fmt: skip
"""Image networks of `keras.applications`, by their names there."""


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
        if "schedule" in values:
            values["schedule"] = ScheduleHparams.from_config(values["schedule"])
        if "checkpoint" in values:
            values["checkpoint"] = CheckpointHparams(**values["checkpoint"])
        if values.get("distill"):
            values["distill"] = DistillHparams(**_with_tuples(values["distill"], ("classes",)))
        if values.get("prune"):
            values["prune"] = PruneHparams(**values["prune"])
        if values.get("quantize_aware"):
            values["quantize_aware"] = QuantizeAwareHparams(**values["quantize_aware"])
        return cls(**values)


@dataclass(frozen=True)
class UnfreezeHparams:
    """A later stage of transfer; see `modules.training.transfer`."""

    freeze: int | str
    epochs: int
    learning_rate: float
    train_norms: bool = False


@dataclass(frozen=True)
class AugmentHparams:
    """Random changes of training images; `pipelines.model_stages.Augment` describes each field."""

    area: float = 1.0
    crop: int = 0
    flip: bool = False
    rotation: float = 0.0
    zoom: float = 0.0
    shift: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    rand_layers: int = 0
    rand_magnitude: float = 0.5
    erase: float = 0.0
    erase_area: float = 0.2
    mixup: float = 0.0
    cutmix: float = 0.0


@dataclass(frozen=True)
class ImageModelHparams:
    """The network, and the size in pixels that images are brought to.

    `pipelines.model_stages.ImageModel` describes each field.
    """

    name: str
    height: int
    width: int
    channels: int
    filters: tuple[int, ...]
    blocks_per_stage: int
    dropout: float
    augment: AugmentHparams = AugmentHparams()
    activation: str = "swish"
    patch: int = 4
    normalization: str = "auto"
    weights: str = "none"
    freeze: int | str = "none"
    cache_features: bool = True
    unfreeze: tuple[UnfreezeHparams, ...] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads a JSON-like mapping; lists become tuples."""
        values = _with_tuples(config, ("filters",))
        values["augment"] = AugmentHparams(**values.get("augment", {}))
        values["unfreeze"] = tuple(UnfreezeHparams(**stage) for stage in values.get("unfreeze", ()))
        return cls(**values)


@dataclass(frozen=True)
class ImageHparams:
    """Everything that preprocessing and training of images is told."""

    image_feature: str
    label_feature: str
    model: ImageModelHparams
    train: TrainHparams
    state_root: str = ""
    weights_digest: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        return cls(
            image_feature=config["image_feature"],
            label_feature=config["label_feature"],
            model=ImageModelHparams.from_config(config["model"]),
            train=TrainHparams.from_config(config["train"]),
            state_root=config.get("state_root", ""),
            weights_digest=config.get("weights_digest", ""),
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


@dataclass(frozen=True)
class TextInputHparams:
    """What Transform is told of texts; `pipelines.text_stages.TextModel` describes each field.

    `vocabulary_digest` only makes Transform run again when the file has changed.
    """

    text_feature: str
    text_pair_feature: str
    label_feature: str
    tokens: str
    unicode: str
    lowercase: bool
    strip_accents: bool
    max_tokens: int
    truncation: str
    vocabulary_size: int
    character_ngram: int
    word_ngrams: int
    character_ngrams: tuple[int, int]
    buckets: int
    vocabulary_file: str = ""
    vocabulary_digest: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        return cls(**_with_tuples(config, ("character_ngrams",)))


@dataclass(frozen=True)
class ChunkHparams:
    """How a long text is cut: tokens of a chunk, tokens shared with the next, and how logits are pooled."""

    tokens: int = 128
    overlap: int = 32
    pooling: str = "mean"


@dataclass(frozen=True)
class PretrainHparams:
    """Masked language modelling before the classes are learned; see `modules.text.pretraining`."""

    epochs: int = 20
    learning_rate: float = 0.001
    batch_size: int = 64
    mask_share: float = 0.15
    whole_words: bool = False


@dataclass(frozen=True)
class LoraHparams:
    """Low-rank adapters; see `modules.text.lora`."""

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("query", "value")


@dataclass(frozen=True)
class TextModelHparams:
    """A network for texts; `pipelines.text_stages.TextModel` describes each field."""

    name: str
    width: int
    dropout: float
    token_dropout: float
    filters: int
    kernels: tuple[int, ...]
    layers: int
    heads: int
    feedforward: int
    positions: str
    pooling: str
    weights: str
    freeze: str
    weights_digest: str = ""
    chunk: ChunkHparams | None = None
    pretrain: PretrainHparams | None = None
    lora: LoraHparams | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        given = _with_tuples(config, ("kernels",))
        if given.get("chunk") is not None:
            given["chunk"] = ChunkHparams(**given["chunk"])
        if given.get("pretrain") is not None:
            given["pretrain"] = PretrainHparams(**given["pretrain"])
        if given.get("lora") is not None:
            given["lora"] = LoraHparams(**_with_tuples(given["lora"], ("targets",)))
        return cls(**given)


@dataclass(frozen=True)
class TextHparams:
    """Everything that training on texts is told."""

    inputs: TextInputHparams
    model: TextModelHparams
    train: TrainHparams
    state_root: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        return cls(
            inputs=TextInputHparams.from_config(config["inputs"]),
            model=TextModelHparams.from_config(config["model"]),
            train=TrainHparams.from_config(config["train"]),
            state_root=config.get("state_root", ""),
        )


INPUT_HPARAMS: dict[str, type[Any]] = {
    "image": ImageInputHparams,
    "tabular": TabularInputHparams,
    "text": TextInputHparams,
}
"""Family of models -> what its Transform is told."""


def _with_tuples(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: tuple(value) if name in names else value for name, value in config.items()}
