"""The `train:` section of an experiment file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.errors import nearest
from pipelines.optimizer_options import OPTIONS
from pipelines.stage import ON_OFF, Stage


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
        [],
        description="piecewise: where each factor begins to hold, ascending, from the end of the warm-up on.",
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
    loss: Literal["cross_entropy", "focal", "mse", "huber"] | None = Field(
        None, description="When not given, cross_entropy for classes and mse for a regression."
    )
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
        True, description="Batch and layer normalisation in few passes in training, instead of Keras's dozen."
    )
    fused_activations: bool = Field(
        True, description="On a processor, large GELU and SiLU in one pass in training, by XLA."
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
        0,
        description="0 is as many as cores may be used, shared among local workers; one where a picture "
        "network's step is a matter of milliseconds.",
    )
    inter_op_threads: Annotated[int, Field(ge=0)] = Field(
        0, description="0 is as many as cores may be used, shared among local workers."
    )
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
        False, description="Begin with the weights behind the model in service, of another training."
    )
    distill: Distill | None = Field(None, description="Learn from a teacher too, in the last stage.")
    prune: Prune | None = Field(None, description="Make most weights zero, in the last stage.")
    quantize_aware: QuantizeAware | None = Field(
        None, description="Learn to lose little when the rewriter quantizes to int8, in the last stage."
    )

    @field_validator("optimizer")
    @classmethod
    def _known(cls, name: str) -> str:
        if name.lower() not in OPTIONS:
            hint = nearest(name.lower(), OPTIONS).lower()
            raise ValueError(f"Keras has no optimizer {name!r}; {hint}")
        return name

    @model_validator(mode="after")
    def _options_of_the_optimizer(self) -> Train:
        known = OPTIONS[self.optimizer.lower()]
        for option in self.optimizer_options:
            if option not in known:
                raise ValueError(
                    f"train.optimizer_options: the optimizer {self.optimizer} has no option {option!r}; "
                    f"{nearest(option, known)}"
                )
        return self

    @model_validator(mode="after")
    def _enough_for_all(self) -> Train:
        parts = self.local_workers * self.accumulate_steps
        if self.batch_size < parts:
            raise ValueError(
                f"train.batch_size {self.batch_size} is smaller than {self.local_workers} workers times "
                f"{self.accumulate_steps} micro-batches"
            )
        return self

    @model_validator(mode="after")
    def _traced(self) -> Train:
        if not self.profile:
            return self
        first, last = (int(step) for step in self.profile.split("-"))
        if first >= last:
            raise ValueError("train.profile must name a first and a later last step, such as 20-30")
        if not self.tensorboard:
            raise ValueError("train.profile needs train.tensorboard: true, whose folder holds the trace")
        return self
