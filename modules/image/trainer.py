"""Trains an image classifier: TFX's Trainer calls `run_fn`, its Tuner `tuner_fn`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from modules import contract, export, input_pipeline
from modules.hparams.image import ImageHparams
from modules.image import augmentation, saliency
from modules.image import model as image_model
from modules.image.decode import decode_image, decode_images, decode_part
from modules.training import classifier, search, transfer, tuned
from modules.training.splits import ToTraining

if TYPE_CHECKING:
    from tfx.components import FnArgs
    from tfx.components.tuner.component import TunerFnResult

_PRODUCTS_PER_WEIGHT = {"separable_resnet": 1, "cifar_resnet": 9}
"""Separable convolutions are almost all pointwise; the others look at 3 x 3 pixels."""

_FEW_PRODUCTS = 2**25
"""Of a batch, forwards. With 2**24 (digits), a second thread was seen to shorten nothing, and on a busy
machine to cost 1.4 times the processor time: threads spin while they wait for each other."""

_MAX_EXPLAINED = 2000
"""Validation examples that mistakes are looked for among."""


def run_fn(fn_args: FnArgs) -> None:
    """Trains, then writes the SavedModel, the `.keras` model and the history.

    Args:
        fn_args: TFX's; `custom_config` as `ImageHparams.from_config` takes it.

    Raises:
        TrainingError: see `classifier.run`.
    """
    classifier.run(fn_args, f"{__name__}.{run_fn.__name__}", _job(tuned.configured(fn_args), fn_args))


def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
    """What TFX's Tuner calls; `custom_config` holds `tune` besides.

    Raises:
        TrainingError: see `search.tuner`.
    """
    return search.tuner(fn_args, lambda config: _job(config, fn_args))


def _job(config: Mapping[str, Any], fn_args: FnArgs) -> classifier.Job:
    hparams = ImageHparams.from_config(config)

    def make_task(transform: tft.TFTransformOutput) -> classifier.Task:
        return _task(hparams, transform, fn_args.train_files, fn_args.eval_files)

    return classifier.Job(hparams.train, hparams.state_root, make_task, small=is_small(hparams))


def is_small(hparams: ImageHparams) -> bool:
    """Whether a step is so little work that a second thread costs more than it gives."""
    model = hparams.model
    if model.name not in _PRODUCTS_PER_WEIGHT:
        return False
    # Roughly: where pixels become a quarter, filters double.
    weights = model.filters[0] ** 2 * model.blocks_per_stage * len(model.filters)
    pixels = hparams.train.batch_size * model.height * model.width
    return pixels * weights * _PRODUCTS_PER_WEIGHT[model.name] <= _FEW_PRODUCTS


def _task(
    hparams: ImageHparams,
    transform: tft.TFTransformOutput,
    train_files: Sequence[str],
    eval_files: Sequence[str],
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
        description=[asdict(hparams.model), hparams.weights_digest],
        preprocess=_preprocess(hparams.image_feature, size),
        to_training=_random_part(hparams, size),
        augment=augmentation.of_batches(hparams.model.augment),
        stages=_stages(hparams),
        explain=lambda model, folder, names: saliency.write(
            model, _encoded_examples(hparams, transform, eval_files, size), folder, names
        ),
    )


def _random_part(hparams: ImageHparams, size: dict[str, int]) -> ToTraining | None:
    area = hparams.model.augment.area
    if area >= 1:
        return None
    return lambda features, seed: decode_part(
        tf.reshape(features[hparams.image_feature], []), seed, area=area, **size
    )


def _encoded_examples(
    hparams: ImageHparams, transform: tft.TFTransformOutput, patterns: Sequence[str], size: dict[str, int]
) -> Iterator[tuple[bytes, np.ndarray, int]]:
    """Up to 2,000 (encoded image, pixels, class id) of a split, one after the other."""
    spec = transform.transformed_feature_spec()
    wanted = {name: spec[name] for name in (hparams.image_feature, hparams.label_feature)}

    def made(features: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        encoded = tf.reshape(features[hparams.image_feature], [])
        return encoded, decode_image(encoded, **size), tf.reshape(features[hparams.label_feature], [])

    examples = input_pipeline.read_examples(patterns, wanted).take(_MAX_EXPLAINED)
    for encoded, pixels, label in examples.map(made, input_pipeline.AUTOTUNE).as_numpy_iterator():
        yield encoded, pixels, int(label)


def _stages(hparams: ImageHparams) -> list[transfer.Stage]:
    """The parts of the training; none where nothing is frozen at any time."""
    model, train = hparams.model, hparams.train
    if model.freeze == "none" and not model.unfreeze:
        return []
    first = transfer.Stage(
        freeze=model.freeze,
        epochs=train.epochs,
        learning_rate=train.learning_rate,
        train_norms=model.freeze == "none",
        cache_features=model.cache_features,
    )
    return [first, *(transfer.Stage(**asdict(stage)) for stage in model.unfreeze)]


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
