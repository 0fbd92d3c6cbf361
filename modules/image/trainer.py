"""Trains an image classifier: TFX's Trainer calls `run_fn`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from modules import contract, export, input_pipeline
from modules.errors import TrainingError
from modules.hparams import ImageHparams
from modules.image import model as image_model
from modules.image.decode import decode_image, decode_images
from modules.training import identity, loop, workers
from modules.training.checkpoints import CheckpointStore
from modules.training.report import FitReport
from modules.training.session import Session, in_float32, prepare

if TYPE_CHECKING:
    from tfx.components import FnArgs


def run_fn(fn_args: FnArgs) -> None:
    """Trains, then writes the SavedModel, the `.keras` model and the history.

    Args:
        fn_args: TFX's; `custom_config` as `ImageHparams.from_config` takes it.

    Raises:
        TrainingError: an empty split, a label outside the vocabulary, or a loss
            that is no finite number.
    """
    hparams = ImageHparams.from_config(fn_args.custom_config)
    if workers.wanted(hparams.train, os.environ):
        workers.run(f"{__name__}.{run_fn.__name__}", fn_args, hparams.train)
        return
    session = prepare(hparams.train)
    transform = tft.TFTransformOutput(fn_args.transform_output)
    class_names = [name.decode() for name in transform.vocabulary_by_name(contract.LABEL_VOCABULARY)]

    train = _decoded(fn_args.train_files, transform, hparams, len(class_names))
    validation = _decoded(fn_args.eval_files, transform, hparams, len(class_names))
    class_counts = _count(train, "train", class_names)
    _count(validation, "validation", class_names)
    mean, variance = _moments(fn_args.train_files, transform)

    def build() -> keras.Model:
        return image_model.build(hparams.model, class_count=len(class_names), mean=mean, variance=variance)

    with session.scope():
        model = build()
    store = _store(fn_args, hparams, class_names)
    report = loop.fit(
        model,
        input_pipeline.TrainingStream(
            train,
            examples=sum(class_counts),
            batch_size=hparams.train.batch_size,
            seed=hparams.train.seed,
            augment=_shift_fn(hparams),
        ),
        input_pipeline.evaluation_batches(validation, batch_size=hparams.train.batch_size),
        session,
        store=store,
        class_counts=class_counts,
        board_folder=fn_args.model_run_dir if hparams.train.tensorboard else "",
    )
    if session.is_chief:
        _save(fn_args, _servable(model, session, build), class_names, hparams, report)
        if store is not None:
            store.clear()


def _servable(model: keras.Model, session: Session, build: Callable[[], keras.Model]) -> keras.Model:
    """The model in float32 and free of its strategy."""
    plain = session.precision.policy == "float32" and not session.placement.distributed
    return model if plain else in_float32(model, build)


def _store(fn_args: FnArgs, hparams: ImageHparams, class_names: list[str]) -> CheckpointStore | None:
    """Where this training's checkpoints lie: the same folder in every execution of the same training."""
    if not hparams.state_root:
        return None
    parts = {
        "model": identity.digest([asdict(hparams.model), class_names]),
        "data": identity.files_digest([*fn_args.train_files, *fn_args.eval_files]),
        "settings": identity.settings_digest(hparams.train),
    }
    folder = f"{hparams.state_root}/{identity.combined(parts)}"
    return CheckpointStore(folder, identity=parts, keep=hparams.train.checkpoint.keep)


def _decoded(
    patterns: list[str], transform: tft.TFTransformOutput, hparams: ImageHparams, class_count: int
) -> tf.data.Dataset:
    """Single (image, one-hot label) pairs, decoded once and kept in memory."""
    spec = transform.transformed_feature_spec()
    wanted = {name: spec[name] for name in (hparams.image_feature, hparams.label_feature)}

    def decode(features: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        image = decode_image(
            tf.reshape(features[hparams.image_feature], []),
            height=hparams.model.height,
            width=hparams.model.width,
            channels=hparams.model.channels,
        )
        return image, tf.one_hot(tf.reshape(features[hparams.label_feature], []), class_count)

    dataset = input_pipeline.read_examples(patterns, wanted)
    return dataset.map(decode, num_parallel_calls=input_pipeline.AUTOTUNE).cache()


def _count(dataset: tf.data.Dataset, split: str, class_names: list[str]) -> list[int]:
    """Reads the split once (which fills its cache), checks labels, and counts each class."""
    count = 0
    counts = np.zeros(len(class_names), np.int64)
    for _, labels in dataset.batch(1024).as_numpy_iterator():
        if not np.all(labels.sum(axis=1) == 1):
            raise TrainingError(
                f"The {split} split has a label that the training split has not",
                place=f"split {split}, example {count + int(np.argmin(labels.sum(axis=1)))}",
                remedy=f"Classes seen in training: {', '.join(class_names)}. Correct the label, or add data.",
            )
        count += len(labels)
        counts += labels.sum(axis=0).astype(np.int64)
    if not count:
        raise TrainingError(
            f"The {split} split is empty",
            place=f"split {split}",
            remedy="Give it a larger share (data.splits), or more data.",
        )
    return [int(value) for value in counts]


def _moments(patterns: list[str], transform: tft.TFTransformOutput) -> tuple[list[float], list[float]]:
    """The constant features that Transform measured, read from the first example."""
    spec = transform.transformed_feature_spec()
    wanted = {name: spec[name] for name in (contract.IMAGE_MEAN, contract.IMAGE_VARIANCE)}
    first = next(iter(input_pipeline.read_examples(patterns, wanted).take(1)))
    return first[contract.IMAGE_MEAN].numpy().tolist(), first[contract.IMAGE_VARIANCE].numpy().tolist()


def _shift_fn(hparams: ImageHparams) -> input_pipeline.Augment | None:
    """Moves each batch by up to `augment_shift` pixels, edges repeated."""
    shift = hparams.model.augment_shift
    if not shift:
        return None

    def apply(images: tf.Tensor, labels: tf.Tensor, *, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        padding = [[0, 0], [shift, shift], [shift, shift], [0, 0]]
        padded = tf.pad(images, padding, mode="SYMMETRIC")
        moved = tf.image.stateless_random_crop(padded, tf.shape(images), seed)
        return tf.ensure_shape(moved, images.shape), labels

    return apply


def _save(
    fn_args: FnArgs,
    model: keras.Model,
    class_names: list[str],
    hparams: ImageHparams,
    report: FitReport,
) -> None:
    size = {
        "height": hparams.model.height,
        "width": hparams.model.width,
        "channels": hparams.model.channels,
    }
    spec = {hparams.image_feature: tf.io.FixedLenFeature([], tf.string)}

    def preprocess_image(encoded: tf.Tensor) -> tf.Tensor:
        return decode_images(encoded, **size)

    def preprocess_examples(examples: tf.Tensor) -> tf.Tensor:
        return preprocess_image(tf.io.parse_example(examples, spec)[hparams.image_feature])

    export.save(
        fn_args.serving_model_dir,
        model,
        class_names,
        {
            contract.SIGNATURE_EXAMPLES: preprocess_examples,
            contract.SIGNATURE_IMAGE: preprocess_image,
        },
    )
    keras_path = Path(fn_args.serving_model_dir).parent / contract.KERAS_MODEL
    keras_path.parent.mkdir(parents=True, exist_ok=True)
    model.save(keras_path)
    run_dir = Path(fn_args.model_run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / contract.HISTORY_FILE).write_text(json.dumps(report.to_json(), indent=1))
