"""The stages of an experiment file: one strict model each, with descriptions, ranges and defaults.

Every default is the right choice for most; what a default costs or limits
stands in its text. `pipelines.config` puts them together and loads files.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[int, Field(ge=1, le=100)]
Fraction = Annotated[float, Field(gt=0, lt=1)]


class Stage(BaseModel):
    """Base of all stages: unknown keys are refused, values are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Splits(Stage):
    """The three splits, and how records are put into them."""

    by: Literal["auto", "hash", "folder", "time"] = Field(
        "auto",
        description="hash: of the key, or of the whole record. folder: train/, validation/, test/. time: "
        "oldest to newest. auto: folder where the data has such folders, else hash.",
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

    source: Literal["digits", "taxi"] | None = Field(
        None, description="A data set that comes with Headrace and is written once into the workspace."
    )
    path: str | None = Field(
        None,
        description="A file, a folder, or a glob; {SPAN}, {VERSION}, {YYYY}, {MM} and {DD} name spans.",
    )
    format: Literal["auto", "tfrecord", "csv", "parquet", "avro", "jsonl", "images"] = Field(
        "auto", description="auto: by the files' endings."
    )
    delimiter: str = Field("", description="Of CSV; a comma, or a tab where the files end in .tsv.")
    encoding: str = Field("utf-8", description="Of CSV and JSON Lines; strict.")
    span: Annotated[int, Field(ge=0)] | None = Field(
        None, description="The span to read; the latest by default."
    )
    window: Annotated[int, Field(ge=1)] = Field(
        1, description="So many spans up to that one are read; with 2 or more the newest is the test split."
    )
    on_bad_record: Literal["fail", "quarantine"] = Field(
        "fail", description="quarantine: bad records are written aside with their reasons, and counted."
    )
    max_bad_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="More bad records than this fail the run even in quarantine."
    )
    image: str = Field("image", description="Feature with the encoded image.")
    text: str = Field("text", description="Feature with the text.")
    label: str = Field("label", description="Feature with the class name.")
    exclude: list[str] = Field([], description="Features that are not read at all, such as names of people.")
    splits: Splits = Splits()

    @model_validator(mode="after")
    def _one_origin(self) -> Data:
        if (self.source is None) == (self.path is None):
            raise ValueError("exactly one of data.source and data.path must be given")
        return self


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


class ImageModel(Stage):
    """A network for images, and the size that they are brought to."""

    family: Literal["image"] = "image"
    name: Literal["separable_resnet"] = "separable_resnet"
    height: Annotated[int, Field(ge=4, le=1024)] = Field(32, description="Pixels.")
    width: Annotated[int, Field(ge=4, le=1024)] = Field(32, description="Pixels.")
    channels: Literal[1, 3, 4] = 3
    filters: list[Annotated[int, Field(ge=1, le=4096)]] = Field(
        [32, 64, 128], min_length=1, description="Channels of each stage; each later stage halves the size."
    )
    blocks_per_stage: Annotated[int, Field(ge=1, le=32)] = 2
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    augment_shift: Annotated[int, Field(ge=0, le=64)] = Field(
        0, description="Training images are moved by up to so many pixels."
    )


class TabularModel(Stage):
    """A network for tables. Features come from the schema: texts and numbers, all but the label."""

    family: Literal["tabular"] = "tabular"
    name: Literal["wide_and_deep", "mlp"] = "wide_and_deep"
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


FAMILIES: dict[str, type[Stage]] = {"image": ImageModel, "tabular": TabularModel}
Model = Annotated[ImageModel | TabularModel, Field(discriminator="family")]


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
    xla: Literal["auto", "on", "off", "autocluster"] = Field(
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
    onednn: Literal["auto", "on", "off"] = Field(
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


class Rewrite(Stage):
    """Which candidates are built, and what they must keep to."""

    candidates: list[Literal["frozen", "float16"]] = Field(
        ["frozen", "float16"], description="Each costs about ten seconds of building and judging."
    )
    objective: Literal["latency", "size", "throughput"] = "latency"
    max_drop: Annotated[float, Field(ge=0, le=100)] = Field(
        1.0,
        description="Points of accuracy that a candidate may lose, as an upper bound: with no "
        "disagreement at all, 1 point at 0.95 needs 299 validation examples.",
    )
    confidence: Fraction = Field(0.95, description="Of each one-sided bound.")
    max_examples: Annotated[int, Field(ge=1)] = Field(3000, description="Validation examples judged at most.")
    candidate_timeout_s: Annotated[float, Field(gt=0)] = Field(
        600.0, description="For each build and judgement."
    )


class Evaluation(Stage):
    """What a model must reach on the test split."""

    min_accuracy: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="Overall.")
    min_class_accuracy: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="On every class.")
    max_drop: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="Accuracy that may be lost against the latest blessed model."
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
    server: PushServer | None = Field(
        None, description="Asked after each push; a version that it does not serve well is withdrawn."
    )


class Beam(Stage):
    """Options for every Beam component."""

    args: list[str] = Field([], description="Beam pipeline options, such as --direct_num_workers=2.")
