"""Trains a model of table rows: TFX's Trainer calls `run_fn`, its Tuner `tuner_fn`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tensorflow_transform as tft

from modules import contract, input_pipeline
from modules.hparams.tabular import REGRESSION, TabularHparams
from modules.tabular import columns
from modules.tabular import model as tabular_model
from modules.training import classifier, probes, search, tuned, warm

if TYPE_CHECKING:
    from tfx.components import FnArgs
    from tfx.components.tuner.component import TunerFnResult


def run_fn(fn_args: FnArgs) -> None:
    """Trains, then writes the SavedModel, the `.keras` model and the history.

    Args:
        fn_args: TFX's; `custom_config` as `TabularHparams.from_config` takes it.

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
    hparams = TabularHparams.from_config(config)
    return classifier.Job(
        hparams.train, hparams.state_root, lambda transform: _task(hparams, transform, fn_args.train_files)
    )


def _task(
    hparams: TabularHparams, transform: tft.TFTransformOutput, train_files: Sequence[str]
) -> classifier.Task:
    regression = hparams.inputs.task == REGRESSION
    target = _target(train_files, transform) if regression else None
    label = hparams.inputs.label_feature
    raw_spec = dict(transform.raw_feature_spec())
    layout = columns.layout({name: spec.dtype.name for name, spec in raw_spec.items()}, hparams.inputs)
    # One more index, for values outside the vocabulary.
    sizes = [transform.vocabulary_size_by_name(columns.vocabulary(name)) + 1 for name in layout.categorical]
    raw_spec.pop(label)
    transform_layer = transform.transform_features_layer()

    def preprocess(raw: tf.Tensor) -> tf.Tensor:
        row = transform_layer(tf.io.parse_example(raw, raw_spec))[columns.ROW]
        return tf.ensure_shape(tf.reshape(row, (-1, layout.width)), (None, layout.width))

    tables = _tables(hparams, layout, transform)
    words = {name: table.entries for name, table in zip(layout.categorical, tables, strict=True)}
    return classifier.Task(
        features=(columns.ROW,),
        label=label,
        to_input=lambda features: tf.ensure_shape(features[columns.ROW], (None, layout.width)),
        batched=True,
        build=lambda class_count: tabular_model.build(
            hparams, layout, category_sizes=sizes, class_count=class_count, target=target
        ),
        description=[asdict(hparams.inputs), asdict(hparams.model), asdict(layout), sizes],
        preprocess={contract.SIGNATURE_EXAMPLES: preprocess},
        resources={"transform_layer": transform_layer},
        regression=regression,
        tables=tables,
        probes=probes.examples(raw_spec, words) if hparams.train.distill else (),
    )


def _tables(
    hparams: TabularHparams, layout: columns.Layout, transform: tft.TFTransformOutput
) -> list[warm.Table]:
    """The columns' vocabularies; which layers of a network of one's own go by them is not known."""
    ours = hparams.model.name in tabular_model.MODELS
    purposes = ("deep", "wide") if ours else ()
    return [
        warm.Table(
            vocabulary=columns.vocabulary(name),
            entries=transform.vocabulary_by_name(columns.vocabulary(name)),
            layers=tuple(tabular_model.table_name(purpose, name) for purpose in purposes),
        )
        for name in layout.categorical
    ]


def _target(patterns: Sequence[str], transform: tft.TFTransformOutput) -> tabular_model.Target:
    """The constant features that Transform measured, read from the first example."""
    spec = transform.transformed_feature_spec()
    wanted = {name: spec[name] for name in (contract.LABEL_MEAN, contract.LABEL_VARIANCE)}
    first = next(iter(input_pipeline.read_examples(patterns, wanted).take(1)))
    mean, variance = (float(tf.reshape(first[name], [])) for name in wanted)
    # A label that is the same everywhere has nothing to scale by.
    return tabular_model.Target(mean, math.sqrt(variance) or 1.0)
