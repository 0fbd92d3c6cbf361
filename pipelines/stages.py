"""The stages of an experiment file: one strict model each, with descriptions, ranges and defaults.

Every default is the right choice for most; what a default costs or limits
stands in its text. `pipelines.config` puts them together and loads files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from components.rewriter import catalogue
from modules.hparams import IMAGE_NETWORKS, KERAS_NETWORKS, TABULAR_NETWORKS
from pipelines.errors import nearest
from pipelines.lineage import database
from pipelines.stage import Stage
from pipelines.text_stages import TextModel


def known_technique(name: str) -> str:
    """Raises ValueError where there is no rewrite technique of that name."""
    if name not in catalogue.TECHNIQUES:
        raise ValueError(f"there is no technique {name!r}. {nearest(name, catalogue.TECHNIQUES)}")
    return name


Share = Annotated[int, Field(ge=1, le=100)]


def _on_off(value: Any) -> Any:
    """What was written: YAML reads a bare on or off as true or false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


ON_OFF = BeforeValidator(_on_off)
Fraction = Annotated[float, Field(gt=0, lt=1)]
TechniqueName = Annotated[str, AfterValidator(known_technique)]


class Splits(Stage):
    """The three splits, and how records are put into them."""

    by: Literal["auto", "hash", "folder", "time"] = Field(
        "auto",
        description="hash: of the key, or of the whole record. folder: train/, validation/, test/, or files "
        "named so, such as test.csv. time: oldest to newest. auto: folder where there are such, else hash.",
    )
    key: str = Field(
        "",
        description="Feature that is hashed, so that records with one value never cross splits; "
        "with by: time, the feature with the time.",
    )

    train: Share = Field(6, description="Fitting, and calibration of rewrites.")
    validation: Share = Field(2, description="Early stopping, and judging candidates.")
    test: Share = Field(2, description="Evaluation and blessing; nothing is chosen on it.")


class Data(Stage):
    """What to read."""

    source: Literal["digits", "fashion", "languages", "taxi"] | None = Field(
        None, description="A data set that comes with Headrace and is written once into the workspace."
    )
    path: str | None = Field(
        None,
        description="A file, a folder, or a glob; {SPAN}, {VERSION}, {YYYY}, {MM} and {DD} name spans.",
    )
    format: Literal["auto", "tfrecord", "csv", "tsv", "parquet", "avro", "jsonl", "images"] = Field(
        "auto", description="auto: by the files' endings."
    )
    delimiter: str = Field("", description="Of CSV; a comma, or a tab where the files end in .tsv.")
    encoding: str = Field(
        "utf-8", description="Of CSV, TSV and JSON Lines, by Python's names; strict. Features are UTF-8."
    )
    missing_values: list[str] = Field(
        [],
        description="Texts that stand for a missing cell in tables, such as nan; an empty one does anyway.",
    )
    span: Annotated[int, Field(ge=0)] | None = Field(
        None, description="The span to read; the latest by default."
    )
    window: Annotated[int, Field(ge=1)] = Field(
        1,
        description="So many spans up to that one are read; with 2 or more the newest is the test split (a "
        "first one alone is split like any data).",
    )
    on_bad_record: Literal["fail", "quarantine"] = Field(
        "fail", description="quarantine: bad records are written aside with their reasons, and counted."
    )
    max_bad_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="More bad records than this fail the run even in quarantine."
    )
    image: str = Field("image", description="Feature with the encoded image.")
    text: str = Field("text", description="Feature with the text.")
    text_pair: str | None = Field(
        None, description="Feature with a second text, where each example is a pair."
    )
    label: str = Field("label", description="Feature with the class name.")
    exclude: list[str] = Field([], description="Features that are not read at all, such as names of people.")
    splits: Splits = Splits()

    @model_validator(mode="after")
    def _one_origin(self) -> Data:
        if (self.source is None) == (self.path is None):
            raise ValueError("exactly one of data.source and data.path must be given")
        return self

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, name: str) -> str:
        try:
            "".encode(name)
        except LookupError as error:
            raise ValueError(
                f"{name!r} is no encoding of texts; for example utf-8, latin-1, cp1252"
            ) from error
        return name


class Distances(Stage):
    """How far features may move: L-infinity of categories, Jensen-Shannon divergence of numbers.

    What so few examples may differ by chance comes on top.
    """

    default: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="For features without a limit of their own; null leaves them out."
    )
    features: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field({}, description="Feature -> limit.")


class Validation(Stage):
    """What the data must be before anything is trained on it."""

    schema_file: str | None = Field(
        None,
        description="A curated schema (headrace schema init); an inferred one stops nothing by itself.",
    )
    fail_on: list[str] = Field(
        ["all"], description="Kinds of anomalies that stop a run, by TFDV's names in lower case, or all."
    )
    drift: Distances = Field(
        Distances(default=0.3, features={}),
        description="Training split against that of the latest run with other data.",
    )
    skew: Distances = Field(
        Distances(default=None, features={}),
        description="Validation and test splits against the training split. Off by default: splits by "
        "hash differ by chance alone, and folders often on purpose.",
    )


Freeze = Literal["all", "none"] | Annotated[int, Field(ge=0)]


class Unfreeze(Stage):
    """A later stage of transfer, which begins where the best epoch of the one before stands."""

    freeze: Freeze = Field("none", description="As model.freeze, in this stage.")
    epochs: Annotated[int, Field(ge=1)] = Field(description="At most.")
    learning_rate: Annotated[float, Field(gt=0)] = Field(description="Peak; small, to keep what was learned.")
    train_norms: bool = Field(
        False, description="Whether batch normalisation learns too; small data is better off without."
    )


def _known(name: str, known: Sequence[str], kind: str) -> str:
    """A name that is known, or the dotted path of a function of the user's."""
    if name not in known and "." not in name:
        near = nearest(name, known)
        raise ValueError(f"there is no {kind} network {name!r}. {near} One of your own is module.function")
    return name


def _known_image_network(name: str) -> str:
    return _known(name, (*IMAGE_NETWORKS, *KERAS_NETWORKS), "image")


class Augment(Stage):
    """Random changes of training images, each image and each epoch by its own chance.

    Applied in this order; 0, false and 1.0 (of area) are off.
    """

    area: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="A part of at least this share of the picture is cut out and brought to size. Below 1 "
        "pictures are decoded anew in every epoch.",
    )
    crop: Annotated[int, Field(ge=0, le=64)] = Field(
        0, description="Moved by up to so many pixels, edges mirrored; needs no resampling."
    )
    flip: bool = Field(False, description="Left and right exchanged, every second time.")
    rotation: Annotated[float, Field(ge=0, le=180)] = Field(0.0, description="Degrees, either way.")
    zoom: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="Share, in or out.")
    shift: Annotated[float, Field(ge=0, le=0.5)] = Field(0.0, description="Share of height and width.")
    brightness: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="Share of the range, either way."
    )
    contrast: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="Share, either way.")
    saturation: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="Share, either way; of RGB.")
    rand_layers: Annotated[int, Field(ge=0, le=8)] = Field(
        0, description="RandAugment: operations one after another, drawn for each image."
    )
    rand_magnitude: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="RandAugment: strength.")
    erase: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="Probability that a rectangle is filled with the image's mean."
    )
    erase_area: Annotated[float, Field(gt=0.02, le=1)] = Field(0.2, description="Its share at most.")
    mixup: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="Alpha; images and labels are mixed in pairs. Classification only."
    )
    cutmix: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="Alpha; a square of another image is pasted. With mixup too, each batch draws one."
    )


class ImageModel(Stage):
    """A network for images, and the size that they are brought to."""

    family: Literal["image"] = "image"
    name: Annotated[str, AfterValidator(_known_image_network)] = Field(
        "separable_resnet",
        description="separable_resnet, cifar_resnet, vit_tiny, vit_small, any network of keras.applications "
        "such as MobileNetV2, or module.function of your own.",
    )
    height: Annotated[int, Field(ge=4, le=1024)] = Field(32, description="Pixels.")
    width: Annotated[int, Field(ge=4, le=1024)] = Field(32, description="Pixels.")
    channels: Literal[1, 3, 4] = 3
    filters: list[Annotated[int, Field(ge=1, le=4096)]] = Field(
        [32, 64, 128], min_length=1, description="Channels of each stage; each later stage halves the size."
    )
    blocks_per_stage: Annotated[int, Field(ge=1, le=32)] = 2
    activation: Literal["swish", "relu", "mish"] = Field("swish", description="Of the residual networks.")
    patch: Annotated[int, Field(ge=1, le=64)] = Field(
        4, description="Side of a transformer's patches, in pixels."
    )
    normalization: Literal["auto", "data", "backbone"] = Field(
        "auto",
        description="data: mean and variance of the training split. backbone: as the network's authors did. "
        "auto: backbone with pretrained weights, else data.",
    )
    weights: str = Field(
        "none",
        description="none, imagenet (downloaded by Keras), or a .keras or .weights.h5 file or SavedModel, "
        "whose head is left out.",
    )
    freeze: Freeze = Field(
        "none",
        description="What rests while train.epochs are trained: all of the backbone, none of it, or its "
        "lowest N layers as Keras counts them.",
    )
    cache_features: bool = Field(
        True,
        description="With freeze: all, features are computed once, of unchanged images; false augments "
        "images and computes features in every epoch.",
    )
    unfreeze: list[Unfreeze] = Field([], description="Stages that follow, each with its own rate.")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    augment: Augment = Augment()


def _known_table_network(name: str) -> str:
    return _known(name, TABULAR_NETWORKS, "table")


class TabularModel(Stage):
    """A network for tables. Features come from the schema: texts and numbers, all but the label."""

    family: Literal["tabular"] = "tabular"
    name: Annotated[str, AfterValidator(_known_table_network)] = Field(
        "wide_and_deep", description="wide_and_deep, mlp, or module.function of your own."
    )
    task: Literal["classification", "regression"] = Field(
        "classification", description="regression: the label is a number, which is predicted in its own unit."
    )
    categorical: list[str] = Field([], description="Numbers that are codes, not amounts.")
    ignore: list[str] = Field([], description="Features that the model must not see.")
    crosses: list[Annotated[list[str], Field(min_length=2, max_length=3)]] = Field(
        [], description="Pairs or triples of features whose combinations count, for the wide part."
    )
    buckets: Annotated[int, Field(ge=2, le=1000)] = Field(10, description="Quantiles of each number.")
    vocabulary_size: Annotated[int, Field(ge=1)] = Field(1000, description="Most frequent values kept.")
    cross_buckets: Annotated[int, Field(ge=2)] = Field(1000, description="Hash buckets of each cross.")
    embedding: Annotated[int, Field(ge=1, le=1024)] = Field(8, description="Width for each category.")
    hidden: list[Annotated[int, Field(ge=1)]] = Field([64, 32], description="Widths of the dense layers.")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1


FAMILIES: dict[str, type[Stage]] = {"image": ImageModel, "tabular": TabularModel, "text": TextModel}
Model = Annotated[ImageModel | TabularModel | TextModel, Field(discriminator="family")]


class Schedule(Stage):
    """How the learning rate moves after the warm-up."""

    name: Literal["constant", "cosine", "exponential", "polynomial", "piecewise"] = "cosine"
    unit: Literal["epochs", "steps"] = Field("epochs", description="Of warmup, every and boundaries.")
    warmup: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Length of the linear rise from zero; train.warmup_fraction when not given."
    )
    floor: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="Share of the peak at which cosine and polynomial end, and exponential stops."
    )
    rate: Annotated[float, Field(gt=0, le=1)] = Field(
        0.95, description="exponential: factor for each `every`."
    )
    every: Annotated[float, Field(gt=0)] = Field(1.0, description="exponential: see rate.")
    power: Annotated[float, Field(gt=0)] = Field(1.0, description="polynomial: 1 is a straight line.")
    boundaries: list[Annotated[float, Field(gt=0)]] = Field(
        [], description="piecewise: where each factor begins to hold, ascending."
    )
    factors: list[Annotated[float, Field(ge=0)]] = Field(
        [], description="piecewise: shares of the peak, one a boundary."
    )
    restarts: Annotated[int, Field(ge=0)] = Field(
        0, description="How often the schedule starts again from the peak, at equal distances."
    )

    @model_validator(mode="after")
    def _pieces(self) -> Schedule:
        if len(self.boundaries) != len(self.factors):
            raise ValueError("schedule.boundaries and schedule.factors must have the same length")
        if self.boundaries != sorted(set(self.boundaries)):
            raise ValueError("schedule.boundaries must ascend")
        if self.name == "piecewise" and not self.boundaries:
            raise ValueError("schedule.name=piecewise needs schedule.boundaries and schedule.factors")
        return self


class Checkpoint(Stage):
    """When the state of training is written down, so that a killed run goes on from there."""

    every_steps: Annotated[int, Field(ge=0)] = Field(0, description="Optimizer steps; 0 is never by steps.")
    every_minutes: Annotated[float, Field(ge=0)] = Field(5.0, description="0 is never by time.")
    keep: Annotated[int, Field(ge=1)] = Field(
        2, description="Latest checkpoints that are kept; each holds the best epoch's weights too."
    )
    resume: bool = Field(True, description="Go on from the latest checkpoint of the same training.")
    max_age_days: Annotated[float, Field(gt=0)] = Field(
        14.0, description="Unfinished trainings of this experiment that are older lose their checkpoints."
    )


class Distill(Stage):
    """A teacher whose answers count beside the labels."""

    teacher: str = Field(
        description="A pushed model of this workspace (fashion, or fashion@2: the model it was rewritten "
        "from), a .keras file, or the folder of a SavedModel that Headrace trained."
    )
    temperature: Annotated[float, Field(gt=0, le=100)] = Field(2.0, description="Evens out probabilities.")
    alpha: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="The teacher's share of the loss.")
    feature_weight: Annotated[float, Field(ge=0)] = Field(
        0.0, description="Of matching what examples of a batch are alike to both; needs a .keras teacher."
    )
    classes: list[str] = Field([], description="Of a .keras file from elsewhere, in its scores' order.")


class Prune(Stage):
    """Small weights become zero while training, and stay zero."""

    sparsity: Annotated[float, Field(gt=0, lt=1)] = Field(0.8, description="Share of zeros in the end.")
    scope: Literal["layer", "global"] = Field(
        "global", description="layer: the same share in each kernel; global: over all of them."
    )
    begin: Annotated[float, Field(ge=0, lt=1)] = Field(0.1, description="Share of the training before.")
    end: Annotated[float, Field(gt=0, le=1)] = Field(
        0.6, description="Share of the training after which masks are final; the rest is fine-tuning."
    )
    every_steps: Annotated[int, Field(ge=1)] = Field(50, description="Steps from one mask to the next.")

    @model_validator(mode="after")
    def _ordered(self) -> Prune:
        if self.begin >= self.end:
            raise ValueError("prune.begin must be below prune.end")
        return self


class QuantizeAware(Stage):
    """Dense layers and convolutions compute with int8 numbers while training."""

    begin: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.5, description="Share of the training before; only ranges are observed in it."
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.99, description="Of the inputs' ranges.")


class Train(Stage):
    """How to train."""

    epochs: Annotated[int, Field(ge=1)] = Field(30, description="At most; early stopping ends sooner.")
    batch_size: Annotated[int, Field(ge=1)] = Field(
        64, description="Examples in one optimizer step, over all replicas and micro-batches."
    )
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.002, description="Peak, after warm-up.")
    learning_rate_scaling: Literal["none", "linear", "square_root"] = Field(
        "none", description="By batch_size / reference_batch_size."
    )
    reference_batch_size: Annotated[int, Field(ge=1)] = Field(
        256, description="The batch size that learning_rate is meant for, when it is scaled."
    )
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0005, description="Decoupled, times the rate.")
    decay_norms_and_biases: bool = Field(
        False, description="Whether weight decay also takes vectors and scalars."
    )
    layer_decay: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="Learning rate of a layer, as a share of the rate of the layer above it."
    )
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(0.05, description="Of all planned steps.")
    schedule: Schedule = Schedule()
    optimizer: str = Field("adamw", description="Any optimizer of Keras, such as sgd, adam, lion.")
    optimizer_options: dict[str, Any] = Field(
        {}, description="More arguments of the optimizer, such as {momentum: 0.9, nesterov: true}."
    )
    loss: Literal["cross_entropy", "focal", "mse", "huber"] = "cross_entropy"
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = Field(0.05, description="Classification.")
    focal_gamma: Annotated[float, Field(ge=0)] = Field(2.0, description="focal: 0 is cross-entropy.")
    huber_delta: Annotated[float, Field(gt=0)] = Field(1.0, description="huber: where it becomes linear.")
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced weighs each class by the inverse of its count in training."
    )
    early_stopping_patience: Annotated[int, Field(ge=1)] = Field(
        8, description="Epochs without a better loss."
    )
    reduce_on_plateau_patience: Annotated[int, Field(ge=0)] = Field(
        0, description="Epochs without a better loss until the rate is reduced; 0 is never."
    )
    reduce_on_plateau_factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    accumulate_steps: Annotated[int, Field(ge=1)] = Field(
        1, description="Micro-batches that one step's batch is cut into, to save memory."
    )
    clip: Literal["none", "norm", "value", "global_norm"] = Field(
        "global_norm", description="Of gradients: each tensor's norm, each value, or the norm of all."
    )
    clip_at: Annotated[float, Field(gt=0)] = 1.0
    ema_momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="Moving average of the weights, such as 0.999; it is what is judged and served."
    )
    precision: Literal["auto", "float32", "mixed_float16", "mixed_bfloat16"] = Field(
        "auto", description="auto takes 16 bits only where the device is measured to gain by it."
    )
    xla: Annotated[Literal["auto", "on", "off", "autocluster"], ON_OFF] = Field(
        "auto", description="auto measures both ways in runs long enough to pay for compiling."
    )
    fused_normalization: bool = Field(
        True, description="One kernel for batch normalisation in training, instead of Keras's dozen."
    )
    recompute: bool = Field(
        False, description="Activations are computed again in the backward pass: less memory, a third slower."
    )
    strategy: str = Field(
        "auto",
        description="auto, one_device, mirrored, multi_worker, tpu, or the dotted path of a function "
        "that returns a tf.distribute.Strategy.",
    )
    local_workers: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Worker processes that the Trainer starts on this machine."
    )
    worker_timeout_s: Annotated[float, Field(gt=0)] = Field(
        300.0, description="How long workers wait for each other at the start."
    )
    sync_batch_norm: bool = Field(
        False, description="Batch statistics over all replicas, not each one's own; not with XLA."
    )
    steps_per_call: Annotated[int, Field(ge=0)] = Field(
        0, description="Steps in one call of the runtime; 0 chooses about a quarter of a second."
    )
    devices: Literal["auto", "cpu", "gpu"] = Field(
        "auto", description="cpu hides GPUs; gpu fails where there is none."
    )
    onednn: Annotated[Literal["auto", "on", "off"], ON_OFF] = Field(
        "auto", description="Intel's kernels. on and off train in a process of its own."
    )
    intra_op_threads: Annotated[int, Field(ge=0)] = Field(
        0, description="0 is as many as cores may be used, shared among local workers."
    )
    inter_op_threads: Annotated[int, Field(ge=0)] = Field(0, description="0 as above.")
    checkpoint: Checkpoint = Checkpoint()
    deterministic: bool = Field(
        False, description="Bit-identical weights in every run on one machine; nothing is chosen by timing."
    )
    seed: Annotated[int, Field(ge=0)] = 17
    cache: Annotated[Literal["auto", "memory", "disk", "off"], ON_OFF] = Field(
        "auto",
        description="Of examples as the model takes them. auto: memory where they take a quarter of what is "
        "free, else disk where they take half of what is free, else made anew in every epoch.",
    )
    tensorboard: bool = Field(True, description="Scalars and graph, in the Trainer's model_run.")
    histograms: Annotated[int, Field(ge=0)] = Field(
        0, description="Of all weights, for TensorBoard, every so many epochs; 0 is never."
    )
    profile: Annotated[str, Field(pattern=r"^(\d+-\d+)?$")] = Field(
        "", description="Steps to write a profiler trace of, such as 20-30; see headrace profile."
    )
    warm_start: bool = Field(
        False, description="Begin with the weights behind the latest blessed model of another training."
    )
    distill: Distill | None = Field(None, description="Learn from a teacher too.")
    prune: Prune | None = Field(None, description="Make most weights zero.")
    quantize_aware: QuantizeAware | None = Field(
        None, description="Learn to lose little when the rewriter quantizes to int8."
    )


class Rewrite(Stage):
    """Which candidates are built, and what they must keep to."""

    candidates: Literal["auto"] | list[TechniqueName] = Field(
        "auto",
        description="Each costs about ten seconds of building and judging. auto: those that pay for the "
        "objective, of those that the target loads.",
    )
    objective: Literal["latency", "size", "throughput"] = Field(
        "latency", description="latency: of one example. throughput: examples a second at batch 32."
    )
    target: Literal["tf_serving", "tf_serving_tflite", "triton", "edge"] = Field(
        "tf_serving",
        description="What loads the pushed folder. tf_serving: SavedModels with all signatures. "
        "tf_serving_tflite: also TFLite (--prefer_tflite_model). triton: ONNX and TensorRT. edge: TFLite.",
    )
    fixed: str = Field(
        "",
        description="The candidate that goes on whatever the clock says, if it keeps to the gate.",
    )
    max_drop: Annotated[float, Field(ge=0, le=100)] = Field(
        1.0,
        description="Points of accuracy that a candidate may lose, as an upper bound: with no "
        "disagreement at all, 1 point at 0.95 needs 299 validation examples.",
    )
    max_slice_drop: Annotated[float, Field(ge=0, le=100)] = Field(
        5.0,
        description="The same on each class that is large enough to tell: 5 points need 59 examples. "
        "A smaller one refuses a candidate only where the loss is certain.",
    )
    confidence: Fraction = Field(0.95, description="Of each one-sided bound.")
    keep: Annotated[int, Field(ge=0)] = Field(
        0, description="So many of the best candidates stay in the Rewriter's report, as files."
    )
    max_examples: Annotated[int, Field(ge=1)] = Field(3000, description="Validation examples judged at most.")
    candidate_timeout_s: Annotated[float, Field(gt=0)] = Field(
        600.0, description="For each build and judgement."
    )
    candidate_memory_mb: Annotated[float, Field(gt=0)] | None = Field(
        None, description="For each build and judgement, in MiB; off when not given."
    )

    @model_validator(mode="after")
    def _candidates_are_known_and_loaded(self) -> Rewrite:
        if isinstance(self.candidates, str):
            return self
        for name in self.candidates:
            runtime = catalogue.TECHNIQUES[name].runtime
            if name != catalogue.IDENTITY and runtime not in catalogue.LOADS[self.target]:
                known = ", ".join(catalogue.techniques_for(self.target))
                raise ValueError(f"the target {self.target} does not load {name}; it loads {known}")
        return self


class Evaluation(Stage):
    """What a model must reach on the test split."""

    min_accuracy: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="Overall.")
    min_class_accuracy: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="On every class.")
    max_drop: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="Accuracy that may be lost against the latest blessed model."
    )
    max_error: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Regression: mean absolute error overall, in the label's unit; no limit by default."
    )
    max_error_rise: Annotated[float, Field(ge=0)] = Field(
        0.02, description="Regression: share of the latest blessed model's error that may be added to it."
    )
    engine: Literal["auto", "tfma", "vectorized"] = Field(
        "auto",
        description="vectorized computes TFMA's common metrics over whole batches, with the same values, "
        "thresholds and files; auto leaves to TFMA what that does not do.",
    )


class Infra(Stage):
    """What the served bytes must answer before they are pushed."""

    examples: Annotated[int, Field(ge=1, le=1000)] = Field(32, description="Real examples sent.")
    timeout_s: Annotated[float, Field(gt=0)] = Field(300.0, description="For starting a server and loading.")
    max_p99_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Of one example by gRPC, one request at a time; off when not given."
    )
    max_memory_mb: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Of the whole server process; off when not given."
    )


class PushServer(Stage):
    """The server that watches the serving folder, and must serve what is pushed."""

    url: str | None = Field(None, description="Of its REST API, instead of host and rest_port.")
    host: str = "127.0.0.1"
    rest_port: Annotated[int, Field(ge=1, le=65535)] = 8501
    model: str | None = Field(None, description="Its name there; the one under serving/ when not given.")
    timeout_s: Annotated[float, Field(gt=0)] = Field(
        120.0, description="The version must be AVAILABLE within this."
    )
    tolerance: Annotated[float, Field(ge=0)] = Field(
        1e-3, description="Absolute, on scores: the server's TensorFlow and device may be others."
    )

    @property
    def rest_url(self) -> str:
        return self.url or f"http://{self.host}:{self.rest_port}"


class Push(Stage):
    """Where the model goes."""

    model: str | None = Field(None, description="Name under serving/; the experiment's when not given.")
    to: list[str] = Field(
        [],
        description="Folders or URLs (s3://, gs://, file://, any that fsspec knows) that get copies of "
        "what is in service, below a folder of the model's name; the workspace's own folder stays the first.",
    )
    server: PushServer | None = Field(
        None, description="Asked after each push; a version that it does not serve well is withdrawn."
    )

    @field_validator("to")
    @classmethod
    def _without_secrets(cls, urls: list[str]) -> list[str]:
        for url in urls:
            if "@" in url.partition("://")[2].partition("/")[0]:
                # Not shown: it would be in the error's text, and in a log.
                raise ValueError("an address holds a user or a password; give them by the environment")
        return urls


class Beam(Stage):
    """Options for every Beam component."""

    args: list[str] = Field([], description="Beam pipeline options, such as --direct_num_workers=2.")


class Retry(Stage):
    """When a failed node is tried again; not part of any cache key."""

    count: Annotated[int, Field(ge=1, le=100)] = Field(2, description="Tries after the first.")
    backoff_s: Annotated[float, Field(ge=0)] = Field(10.0, description="Before the second try.")
    factor: Annotated[float, Field(ge=1)] = Field(2.0, description="By which each later wait is longer.")
    on: list[str] = Field(
        ["crash", "timeout"],
        min_length=1,
        description="crash: the process ended without a word. timeout: see timeouts_s. error: any "
        "exception but a user's mistake. Else names of exception classes, such as UnavailableError.",
    )


class Metadata(Stage):
    """A MySQL, MariaDB or PostgreSQL database that is there already; `HEADRACE_METADATA` comes before it."""

    url: str = Field(description=f"{database.EXPECTED}; without a password, since it is recorded.")
    password_env: str = Field(
        database.PASSWORD_VARIABLE, description="Environment variable that holds the password."
    )
    password_file: str | None = Field(None, description="File that holds the password; comes first.")

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str) -> str:
        if database.Server.of(url).password:
            raise ValueError("metadata.url holds a password, which would be recorded; use password_env")
        return url
