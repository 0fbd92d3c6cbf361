"""Trains a model of classes or numbers from transformed examples, whatever they are of.

    run(fn_args, f"{__name__}.run_fn", Job(hparams.train, state_root, make_task))

A family of models gives its data and its model as a `Task`; splits, class
names, checkpoints, workers and export are the same for all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
import tensorflow_transform as tft

from modules import class_labels, contract, export, input_pipeline
from modules.hparams.train import TrainHparams
from modules.training import (
    distill,
    freezing,
    hosts,
    identity,
    precision_trial,
    rebuild,
    splits,
    transfer,
    warm,
    workers,
)
from modules.training.checkpoints import CheckpointStore, collect
from modules.training.compression import Compression
from modules.training.extensions import Extension
from modules.training.report import FitReport
from modules.training.session import Session, prepare

if TYPE_CHECKING:
    from tfx.components import FnArgs


def _without_extensions(model: keras.Model) -> Sequence[Extension]:
    return ()


@dataclass(frozen=True)
class Start:
    """What is at hand before the training.

    Attributes:
        training: single (input, one-hot label) pairs.
        validation: the same of the validation split.
        examples: of `training`.
        session: where the model lives.
        store: of checkpoints, if any.
    """

    training: tf.data.Dataset
    validation: tf.data.Dataset
    examples: int
    session: Session
    store: CheckpointStore | None


def _from_scratch(model: keras.Model, start: Start) -> Mapping[str, Any]:
    return {}


def _unexplained(model: keras.Model, folder: Path, class_names: Sequence[str]) -> None:
    """Models of other things than images have no pictures."""


def _as_it_is(model: keras.Model) -> keras.Model:
    return model


@dataclass(frozen=True)
class Task:
    """What a family of models adds.

    Attributes:
        features: transformed features that make one example.
        label: transformed feature with the class id, or for a regression the number.
        to_input: those features of one example to the model's input.
        batched: whether `to_input` takes batches of examples.
        to_training: the same with a seed, where training takes a random part of an example.
        build: number of classes to a new model, (B, ...) float32 to (B, C) probabilities.
        description: JSON-like; two models that differ in it share no checkpoints.
        preprocess: signature -> function from raw inputs (B,) string to the model's input.
        augment: changes training batches.
        resources: what the preprocessing functions hold, to be saved with them.
        batching: how examples come together; needed where their shapes differ.
        prepare: gives a new model its first weights, and returns what is to be recorded of that;
            not called where a checkpoint will.
        regression: whether the label is a number; the model then gives (B,) float32.
        explain: writes pictures of mistakes from the trained model, the run's folder and the class names.
        stages: parts of the training that differ in what is frozen; none for one part.
        extend: what is added to losses and steps of a new model; called in the strategy's scope.
        finish: the trained model in float32 to the one that is written.
        tables: vocabularies whose entries have weights of their own.
        probes: serialized Examples, which a teacher must encode as `preprocess` does; none for images,
            whose teacher may have another size.
    """

    features: tuple[str, ...]
    label: str
    to_input: Callable[[dict[str, tf.Tensor]], tf.Tensor]
    build: Callable[[int], keras.Model]
    description: Any
    preprocess: Mapping[str, export.Preprocess]
    batched: bool = False
    to_training: splits.ToTraining | None = None
    augment: input_pipeline.Augment | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    batching: input_pipeline.Batching = input_pipeline.plain_batches
    prepare: Callable[[keras.Model, Start], Mapping[str, Any]] = _from_scratch
    regression: bool = False
    explain: Callable[[keras.Model, Path, Sequence[str]], Any] = _unexplained
    stages: Sequence[transfer.Stage] = ()
    extend: Callable[[keras.Model], Sequence[Extension]] = _without_extensions
    finish: Callable[[keras.Model], keras.Model] = _as_it_is
    tables: Sequence[warm.Table] = ()
    probes: Sequence[bytes] = ()


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes:
        train: hyperparameters.
        state_root: folder for checkpoints; empty for none.
        make_task: from Transform's output to the task.
        small: whether a step is a matter of milliseconds, as `session.prepare` takes it.
    """

    train: TrainHparams
    state_root: str
    make_task: Callable[[tft.TFTransformOutput], Task]
    small: bool = False


@dataclass(frozen=True)
class Fitted:
    """What a training came to.

    Attributes:
        model: with the best weights, as it was trained.
        task: of the job.
        names: of the classes; none for a regression.
        compression: what may be left to do to the model.
        store: of checkpoints, if any.
        report: what happened.
        session: with the precision that was settled on.
    """

    model: keras.Model
    task: Task
    names: Sequence[str]
    compression: Compression
    store: CheckpointStore | None
    report: FitReport
    session: Session


def run(fn_args: FnArgs, run_fn: str, job: Job) -> None:
    """Trains, then writes the SavedModel, the `.keras` model and the history.

    Args:
        fn_args: TFX's.
        run_fn: dotted path of the caller, which other workers of this machine run too.
        job: what to train.

    Raises:
        TrainingError: an empty split, a label outside the vocabulary, or what
            `loop.fit` raises.
    """
    if workers.wanted(job.train, os.environ):
        workers.run(run_fn, fn_args, job.train)
        return
    hosts.announce(run_fn, fn_args, os.environ)
    session = prepare(job.train, small=job.small)
    board_folder = fn_args.model_run_dir if job.train.tensorboard else ""
    done = fit(fn_args, job, session, board_folder=board_folder)
    if session.is_chief:
        plain = _servable(done.model, done.session, lambda: done.task.build(len(done.names)))
        served = done.compression.finish(done.task.finish(plain))
        _save(fn_args, served, done.names, done.task, done.report)
        if done.store is not None:
            done.store.clear()


def fit(
    fn_args: FnArgs,
    job: Job,
    session: Session,
    *,
    board_folder: str = "",
    echo: Callable[[str], None] = print,
) -> Fitted:
    """Reads the data, builds the model and trains it; writes nothing but checkpoints.

    Args:
        fn_args: TFX's, of a Trainer or a Tuner.
        job: what to train.
        session: of `prepare`.
        board_folder: for TensorBoard; empty for none.
        echo: takes progress lines.

    Raises:
        TrainingError: see `run`.
    """
    transform = tft.TFTransformOutput(fn_args.transform_graph_path)
    task = job.make_task(transform)
    classes = class_labels.Classes([], None) if task.regression else class_labels.read(transform)
    sources = _sources(fn_args, transform, task, classes)
    with splits.explained(classes.names):
        return _fitted(fn_args, job, session, task, sources, board_folder, echo)


def _fitted(
    fn_args: FnArgs,
    job: Job,
    session: Session,
    task: Task,
    sources: splits.Sources,
    board_folder: str,
    echo: Callable[[str], None],
) -> Fitted:
    train, names = job.train, sources.class_names
    loaded = splits.load(sources, train, augment=task.augment, work_folder=job.state_root)
    session = _settled(session, task, names, loaded)
    with session.scope():
        model = task.build(len(names))
        compression = _compression(model, task, train, names, session)
        extensions = [*task.extend(model), *compression.extensions]
    if session.rebuilds and session.is_chief:
        rebuild.check(lambda: task.build(len(names)), _first_inputs(session, task, loaded))
    base_model = fn_args.base_model if train.warm_start else None
    store = _store(fn_args, job, [task.description, names], base_model)
    prepared: Mapping[str, Any] = {}
    if base_model:
        changed = warm.load(model, base_model, warm.Meaning(names, task.tables, task.build))
        prepared = {"warm_start": changed}
        echo(warm.describe(changed))
    elif not goes_on(store, train):
        start = Start(loaded.pairs, loaded.validation_pairs, sum(loaded.class_counts), session, store)
        prepared = task.prepare(model, start)
    report = transfer.fit(
        model,
        task.stages,
        loaded.stream,
        loaded.validation,
        session,
        store=store,
        class_counts=loaded.class_counts,
        extensions=extensions,
        board_folder=board_folder,
        echo=echo,
    )
    report = replace(report, choices={**report.choices, **prepared, "input": loaded.record})
    return Fitted(model, task, names, compression, store, report, session)


def _compression(
    model: keras.Model, task: Task, train: TrainHparams, names: Sequence[str], session: Session
) -> Compression:
    """What is added to the last stage, whose layers rest or are trained as they do then."""
    last = task.stages[-1] if task.stages else None
    if last is not None:
        freezing.apply(model, last.freeze, train_norms=last.train_norms)
        train = replace(train, epochs=last.epochs)
    made = Compression(
        model,
        train,
        names,
        replicas=session.placement.replicas,
        encoded=distill.Encoded(task.preprocess, task.probes),
    )
    if last is not None:
        freezing.apply(model, "none")
    return made


def goes_on(store: CheckpointStore | None, train: TrainHparams) -> bool:
    """Whether a checkpoint gives the model its first weights."""
    return store is not None and train.checkpoint.resume and store.latest() is not None


def _settled(session: Session, task: Task, names: Sequence[str], loaded: splits.Loaded) -> Session:
    if not session.precision.tentative:
        return session
    inputs = _first_inputs(session, task, loaded)
    # What is trained on features of a resting backbone is another, far smaller model.
    whole = sum(stage.epochs for stage in task.stages if not stage.on_features)
    epochs = whole if task.stages else session.hparams.epochs
    steps = epochs * (sum(loaded.class_counts) // session.hparams.batch_size)
    return precision_trial.settle(session, lambda: task.build(len(names)), inputs, steps)


def _first_inputs(session: Session, task: Task, loaded: splits.Loaded) -> Any:
    batches = input_pipeline.evaluation_batches(
        loaded.pairs, batch_size=session.hparams.batch_size, batching=task.batching
    )
    return next(iter(batches.take(1)))[0]


def _sources(
    fn_args: FnArgs, transform: tft.TFTransformOutput, task: Task, classes: class_labels.Classes
) -> splits.Sources:
    spec = transform.transformed_feature_spec()
    return splits.Sources(
        train=fn_args.train_files,
        validation=fn_args.eval_files,
        features={name: spec[name] for name in task.features},
        label=(task.label, spec[task.label]),
        class_names=classes.names,
        class_counts=classes.counts,
        to_input=task.to_input,
        to_training=task.to_training,
        batching=task.batching,
        batched=task.batched,
    )


def _store(fn_args: FnArgs, job: Job, description: Any, base_model: str | None) -> CheckpointStore | None:
    """Where this training's checkpoints lie: the same folder in every execution of the same training."""
    if not job.state_root:
        return None
    parts = {
        "model": identity.digest(description),
        "data": identity.files_digest([*fn_args.train_files, *fn_args.eval_files]),
        "settings": identity.settings_digest(job.train),
    }
    if base_model:
        parts["start"] = identity.files_digest([str(warm.keras_path(base_model))])
    checkpoint = job.train.checkpoint
    collect(str(Path(job.state_root).parent), checkpoint.max_age_days, time.time())
    folder = f"{job.state_root}/{identity.combined(parts)}"
    return CheckpointStore(folder, identity=parts, keep=checkpoint.keep)


def _servable(model: keras.Model, session: Session, build: Callable[[], keras.Model]) -> keras.Model:
    """The model in float32 and free of its strategy."""
    return rebuild.in_float32(model, build) if session.rebuilds else model


def _save(
    fn_args: FnArgs, model: keras.Model, class_names: Sequence[str], task: Task, report: FitReport
) -> None:
    export.save(fn_args.serving_model_dir, model, class_names, task.preprocess, task.resources)
    keras_path = Path(fn_args.serving_model_dir).parent / contract.KERAS_MODEL
    keras_path.parent.mkdir(parents=True, exist_ok=True)
    model.save(keras_path)
    run_dir = Path(fn_args.model_run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / contract.HISTORY_FILE).write_text(json.dumps(report.to_json(), indent=1))
    task.explain(model, run_dir, class_names)
