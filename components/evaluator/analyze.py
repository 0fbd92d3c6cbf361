"""Metrics and validation by TFMA, of predictions made through the runtimes.

TFMA itself would have to know a model's format, and mixes no two formats in
one comparison. Here the scores are features, and an extractor hands them to
TFMA as predictions; metrics, slices, thresholds and result files stay TFMA's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from google.protobuf import json_format
from tensorflow_model_analysis import types as tfma_types
from tensorflow_model_analysis.extractors import (
    example_weights_extractor,
    extractor,
    features_extractor,
    labels_extractor,
    slice_key_extractor,
    unbatch_extractor,
)
from tensorflow_model_analysis.proto import config_pb2
from tfx_bsl.tfxio import tf_example_record

from components.errors import ServableError
from components.evaluator import confusion, measures, predict, vectorized
from components.serving.servable import Servable

CANDIDATE = "candidate"
BASELINE = "baseline"
TFMA, VECTORIZED = "tfma", "vectorized"
_BATCH = 64


def parse_config(text: str, *, has_baseline: bool) -> config_pb2.EvalConfig:
    """TFMA's configuration from JSON; without a baseline, no change is checked."""
    config = json_format.Parse(text, config_pb2.EvalConfig())
    if has_baseline:
        return config
    kept = [spec for spec in config.model_specs if not spec.is_baseline]
    del config.model_specs[:]
    config.model_specs.extend(kept)
    for metrics in config.metrics_specs:
        del metrics.model_names[:]
        metrics.model_names.append(CANDIDATE)
        for metric in metrics.metrics:
            _drop_change(metric.threshold)
            for per_slice in metric.per_slice_thresholds:
                _drop_change(per_slice.threshold)
    return config


def _drop_change(threshold: Any) -> None:
    threshold.ClearField("change_threshold")


def analyze(
    pipeline: beam.Pipeline,
    files: Sequence[str],
    models: predict.Models,
    config: config_pb2.EvalConfig,
    label: str,
    output_path: str,
    engine: str,
) -> str:
    """Adds prediction, metrics and TFMA's writers to `pipeline`; returns the engine that is used.

    Args:
        pipeline: to add to.
        files: gzipped TFRecords of raw Examples.
        models: the servables.
        config: TFMA's configuration.
        label: label feature.
        output_path: folder of the result files.
        engine: `tfma`, `vectorized`, or `auto`: vectorized where that can do what is asked.

    Raises:
        ServableError: `vectorized` is asked for, and cannot do it.
    """
    if engine != TFMA:
        shared = _shared_models(bool(models.baseline))
        try:
            vectorized.evaluate(pipeline, files, models, config, label, output_path, shared)
            return VECTORIZED
        except measures.UnsupportedError as error:
            if engine == VECTORIZED:
                raise ServableError(
                    f"The vectorized evaluation does not do {error}",
                    place="evaluation.engine",
                    remedy="Use evaluation.engine: auto, which leaves it to TFMA.",
                ) from error
    records = pipeline | "Read" >> beam.Create(list(files)) | beam.io.ReadAllFromTFRecord()
    _analyze_by_tfma(records, models, config, label, output_path)
    return TFMA


def _analyze_by_tfma(
    records: beam.PCollection,
    models: predict.Models,
    config: config_pb2.EvalConfig,
    label: str,
    output_path: str,
) -> None:
    has_baseline = bool(models.baseline)
    kept = sorted({key for spec in config.slicing_specs for key in spec.feature_keys})
    tfxio = tf_example_record.TFExampleBeamRecord(
        physical_format="inmem", raw_record_column_name=tfma.ARROW_INPUT_COLUMN
    )
    predicted = (
        records
        | "Batch" >> beam.BatchElements(min_batch_size=_BATCH, max_batch_size=_BATCH)
        | "Predict" >> beam.ParDo(predict.Predict(models, label, kept))
    )
    names = Servable.read(models.candidate).class_names
    if names:  # else it predicts a number
        pairs = predicted | "Pairs" >> beam.Map(confusion.of_record, label, names)
        _ = pairs | "Confusion" >> confusion.WriteConfusion(output_path)
    _ = (
        predicted
        | "ToArrow" >> tfxio.BeamSource()
        | "Analyze"
        >> tfma.ExtractEvaluateAndWriteResults(
            eval_shared_model=_shared_models(has_baseline),
            eval_config=config,
            extractors=_extractors(config, has_baseline),
            output_path=output_path,
        )
    )


def _shared_models(has_baseline: bool) -> Any:
    """Placeholders: TFMA counts models by them, and drops a baseline it has none for."""
    candidate = tfma_types.EvalSharedModel(model_name=CANDIDATE, model_type="runtime", model_path="")
    if not has_baseline:
        return candidate
    return [
        candidate,
        tfma_types.EvalSharedModel(
            model_name=BASELINE, model_type="runtime", model_path="", is_baseline=True
        ),
    ]


def _extractors(config: config_pb2.EvalConfig, has_baseline: bool) -> list[extractor.Extractor]:
    return [
        features_extractor.FeaturesExtractor(eval_config=config),
        labels_extractor.LabelsExtractor(eval_config=config),
        example_weights_extractor.ExampleWeightsExtractor(eval_config=config),
        extractor.Extractor("ScoresToPredictions", beam.Map(_to_predictions, has_baseline)),
        unbatch_extractor.UnbatchExtractor(),
        slice_key_extractor.SliceKeyExtractor(eval_config=config),
    ]


def _to_predictions(batch: dict[str, Any], has_baseline: bool) -> dict[str, Any]:
    features = batch[tfma.FEATURES_KEY]
    candidate = np.asarray(features[predict.CANDIDATE_SCORES])
    predictions: Any = candidate
    if has_baseline:
        predictions = {CANDIDATE: candidate, BASELINE: np.asarray(features[predict.BASELINE_SCORES])}
    return {**batch, tfma.PREDICTIONS_KEY: predictions}


def summarize(output_path: str, *, has_baseline: bool) -> dict[str, Any]:
    """What TFMA found, small enough to read: metrics per slice and model, and failures."""
    result = {"metrics": {CANDIDATE: _metrics(output_path, CANDIDATE if has_baseline else None)}}
    if has_baseline:
        result["metrics"][BASELINE] = _metrics(output_path, BASELINE)
    validation = tfma.load_validation_result(output_path)
    return {**result, "blessed": bool(validation.validation_ok), "failures": _failures(validation)}


def _metrics(output_path: str, model: str | None) -> dict[str, dict[str, float]]:
    """Slice -> metric -> value; the overall slice is called `overall`."""
    result = tfma.load_eval_result(output_path, model_name=model)
    found: dict[str, dict[str, float]] = {}
    for slice_key, by_output in result.slicing_metrics:
        name = ", ".join(f"{key}={value}" for key, value in slice_key) or "overall"
        values = by_output[""][""]
        found[name] = {
            metric: float(value["doubleValue"]) for metric, value in values.items() if "doubleValue" in value
        }
    return found


def _failures(validation: Any) -> list[str]:
    sentences = []
    for per_slice in validation.metric_validations_per_slice:
        where = ", ".join(
            f"{key.column}={key.bytes_value.decode()}" for key in per_slice.slice_key.single_slice_keys
        )
        for failure in per_slice.failures:
            change = " (change against the baseline)" if failure.metric_key.is_diff else ""
            value = failure.metric_value.double_value.value
            sentences.append(
                f"{failure.metric_key.name}{change} on {where or 'all examples'} is {value:.4f}; "
                f"expected {_bounds(failure.metric_threshold, is_diff=failure.metric_key.is_diff)}"
            )
    if validation.missing_slices:
        sentences.append(f"{len(validation.missing_slices)} slices with thresholds are missing")
    return sentences


def _bounds(threshold: Any, *, is_diff: bool) -> str:
    if not is_diff:
        limits = threshold.value_threshold
        if limits.HasField("upper_bound"):
            return f"at most {limits.upper_bound.value:g}"
        return f"at least {limits.lower_bound.value:g}"
    change = threshold.change_threshold
    if change.HasField("relative"):
        return f"at most {change.relative.value:.0%} of the baseline's"
    return f"at least {change.absolute.value:g}"


def write_summary(folder: str, summary: dict[str, Any]) -> None:
    """Writes `summary.json` beside TFMA's own result files."""
    Path(folder, "summary.json").write_text(json.dumps(summary, indent=1))
