"""Trains a classifier from transformed examples, whatever they are of.

    run(fn_args, f"{__name__}.run_fn", Job(hparams.train, state_root, make_task))

A family of models gives its data and its model as a `Task`; splits, class
names, checkpoints, workers and export are the same for all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
import tensorflow_transform as tft

from modules import contract, export, input_pipeline
from modules.hparams import TrainHparams
from modules.training import identity, loop, splits, warm, workers
from modules.training.checkpoints import CheckpointStore, collect
from modules.training.extensions import Extension
from modules.training.report import FitReport
from modules.training.session import Session, in_float32, prepare

if TYPE_CHECKING:
    from tfx.components import FnArgs


def _without_extensions(model: keras.Model) -> Sequence[Extension]:
    return ()


def _as_it_is(model: keras.Model) -> keras.Model:
    return model


@dataclass(frozen=True)
class Task:
    """What a family of models adds.

    Attributes:
        features: transformed features that make one example.
        label: transformed feature with the class id.
        to_input: those features of one example to the model's input.
        build: number of classes to a new model, (B, ...) float32 to (B, C) probabilities.
        description: JSON-like; two models that differ in it share no checkpoints.
        preprocess: signature -> function from raw inputs (B,) string to the model's input.
        augment: changes training batches.
        resources: what the preprocessing functions hold, to be saved with them.
        extend: what is added to losses and steps of a new model; called in the strategy's scope.
        finish: the trained model in float32 to the one that is written.
    """

    features: tuple[str, ...]
    label: str
    to_input: Callable[[dict[str, tf.Tensor]], tf.Tensor]
    build: Callable[[int], keras.Model]
    description: Any
    preprocess: Mapping[str, export.Preprocess]
    augment: input_pipeline.Augment | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    extend: Callable[[keras.Model], Sequence[Extension]] = _without_extensions
    finish: Callable[[keras.Model], keras.Model] = _as_it_is


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes:
        train: hyperparameters.
        state_root: folder for checkpoints; empty for none.
        make_task: from Transform's output to the task.
    """

    train: TrainHparams
    state_root: str
    make_task: Callable[[tft.TFTransformOutput], Task]


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
    train = job.train
    if workers.wanted(train, os.environ):
        workers.run(run_fn, fn_args, train)
        return
    session = prepare(train)
    transform = tft.TFTransformOutput(fn_args.transform_output)
    task = job.make_task(transform)
    data = splits.load(fn_args, transform, task)
    names = data.names
    with session.scope():
        model = task.build(len(names))
        base_model = fn_args.base_model if train.warm_start else None
        if base_model:
            warm.load(model, base_model)
        extensions = task.extend(model)
    store = _store(fn_args, train, job.state_root, [task.description, names])
    report = loop.fit(
        model,
        data.stream(train, task.augment),
        input_pipeline.evaluation_batches(data.validation, batch_size=train.batch_size),
        session,
        store=store,
        class_counts=data.class_counts,
        extensions=extensions,
        board_folder=fn_args.model_run_dir if train.tensorboard else "",
    )
    if session.is_chief:
        served = task.finish(_servable(model, session, lambda: task.build(len(names))))
        _save(fn_args, served, names, task, report)
        if store is not None:
            store.clear()


def _store(fn_args: FnArgs, train: TrainHparams, state_root: str, description: Any) -> CheckpointStore | None:
    """Where this training's checkpoints lie: the same folder in every execution of the same training."""
    if not state_root:
        return None
    parts = {
        "model": identity.digest(description),
        "data": identity.files_digest([*fn_args.train_files, *fn_args.eval_files]),
        "settings": identity.settings_digest(train),
    }
    if train.warm_start and fn_args.base_model:
        parts["start"] = identity.files_digest([str(warm.keras_path(fn_args.base_model))])
    collect(str(Path(state_root).parent), train.checkpoint.max_age_days, time.time())
    folder = f"{state_root}/{identity.combined(parts)}"
    return CheckpointStore(folder, identity=parts, keep=train.checkpoint.keep)


def _servable(model: keras.Model, session: Session, build: Callable[[], keras.Model]) -> keras.Model:
    """The model in float32 and free of its strategy."""
    plain = session.precision.policy == "float32" and not session.placement.distributed
    return model if plain else in_float32(model, build)


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
