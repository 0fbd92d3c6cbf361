"""Trains an image classifier: TFX's Trainer calls `run_fn`, its Tuner `tuner_fn`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow_transform as tft

from modules import contract, export, input_pipeline
from modules.hparams import ImageHparams
from modules.image import model as image_model
from modules.image.decode import decode_image, decode_images
from modules.training import classifier, search, tuned

if TYPE_CHECKING:
    from tfx.components import FnArgs
    from tfx.components.tuner.component import TunerFnResult


def run_fn(fn_args: FnArgs) -> None:
    """Trains, then writes the SavedModel, the `.keras` model and the history.

    Args:
        fn_args: TFX's; `custom_config` as `ImageHparams.from_config` takes it.

    Raises:
        TrainingError: see `classifier.run`.
    """
    job = _job(tuned.configured(fn_args), fn_args.train_files)
    classifier.run(fn_args, f"{__name__}.{run_fn.__name__}", job)


def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
    """What TFX's Tuner calls; `custom_config` holds `tune` besides.

    Raises:
        TrainingError: see `search.tuner`.
    """
    return search.tuner(fn_args, lambda config: _job(config, fn_args.train_files))


def _job(config: Mapping[str, Any], train_files: Sequence[str]) -> classifier.Job:
    hparams = ImageHparams.from_config(config)
    return classifier.Job(
        hparams.train, hparams.state_root, lambda transform: _task(hparams, transform, train_files)
    )


def _task(
    hparams: ImageHparams, transform: tft.TFTransformOutput, train_files: Sequence[str]
) -> classifier.Task:
    size = {
        "height": hparams.model.height,
        "width": hparams.model.width,
        "channels": hparams.model.channels,
    }
    mean, variance = _moments(train_files, transform)
    return classifier.Task(
        features=(hparams.image_feature,),
        label=hparams.label_feature,
        to_input=lambda features: decode_image(tf.reshape(features[hparams.image_feature], []), **size),
        build=lambda class_count: image_model.build(
            hparams.model, class_count=class_count, mean=mean, variance=variance
        ),
        description=asdict(hparams.model),
        preprocess=_preprocess(hparams.image_feature, size),
        augment=_shift_fn(hparams),
    )


def _preprocess(feature: str, size: dict[str, int]) -> dict[str, export.Preprocess]:
    spec = {feature: tf.io.FixedLenFeature([], tf.string)}
    return {
        contract.SIGNATURE_EXAMPLES: lambda raw: decode_images(
            tf.io.parse_example(raw, spec)[feature], **size
        ),
        contract.SIGNATURE_IMAGE: lambda encoded: decode_images(encoded, **size),
    }


def _moments(patterns: Sequence[str], transform: tft.TFTransformOutput) -> tuple[list[float], list[float]]:
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
