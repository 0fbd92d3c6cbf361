"""The vectorised engine: TFMA's metrics, thresholds and files, with whole batches at a time.

    evaluate(pipeline, files, models, config, label, output_path)

Each file of the split is read, answered and summed up in one go; only sums per
slice travel through Beam. What follows the sums (derived metrics, changes
against the baseline, thresholds, blessing, files) is TFMA's own code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.evaluators import metrics_plots_and_validations_evaluator as tfma_evaluator
from tensorflow_model_analysis.evaluators import metrics_validator
from tensorflow_model_analysis.metrics import metric_types
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util, model_util
from tfx_bsl.coders import example_coder

from components.evaluator import confusion, measures, predict
from components.evaluator.measures import Batch, Plan
from components.evaluator.slices import Column, SliceKey, slices_of
from components.serving import examples, runtimes
from components.serving.servable import Servable, class_index

CHUNK_ROWS = 65_536
"""Examples whose scores are summed up at a time."""

_READ = 64
_BATCH_BYTES = 4 << 20
"""About so much of serialized examples is given to a model at a time, and at least _READ of them."""

_SUMS, _PAIRS = "sums", "pairs"
"""What `_Sum` puts out: sums by slice, and counts of label and predicted class."""

Sums = list[np.ndarray]


def evaluate(
    pipeline: beam.Pipeline,
    files: Sequence[str],
    models: predict.Models,
    config: config_pb2.EvalConfig,
    label: str,
    output_path: str,
    shared_models: Any,
) -> None:
    """Adds prediction, metrics and TFMA's writers to `pipeline`.

    Args:
        pipeline: to add to.
        files: gzipped TFRecords of raw Examples.
        models: the servables.
        config: TFMA's configuration.
        label: label feature.
        output_path: folder of the result files.
        shared_models: TFMA's placeholders for the models.

    Raises:
        UnsupportedError: the configuration needs TFMA's own engine.
    """
    full = config_util.update_eval_config_with_defaults(config, has_baseline=bool(models.baseline))
    plan = measures.plan_of(full)
    baseline = model_util.get_baseline_model_spec(full)
    summed = (
        pipeline
        | "Files" >> beam.Create(list(files))
        | "Spread" >> beam.Reshuffle()
        | "Sum" >> beam.ParDo(_Sum(models, label, full, plan)).with_outputs(_PAIRS, main=_SUMS)
    )
    if Servable.read(models.candidate).class_names:
        _ = summed[_PAIRS] | "Confusion" >> confusion.WriteConfusion(output_path)
    sliced = (
        summed[_SUMS]
        | "Add" >> beam.CombinePerKey(_add)
        | "Values" >> beam.MapTuple(lambda key, sums: (key, _values(plan, sums)))
        | "Derive"
        >> tfma_evaluator._AddDerivedCrossSliceAndDiffMetrics(
            plan.derived, [], [], baseline.name if baseline else None
        )
        | "WithoutPrivate" >> beam.MapTuple(tfma_evaluator._remove_private_metrics)
    )
    metrics = sliced | "Metrics" >> beam.Map(tfma_evaluator._filter_by_key_type, metric_types.MetricKey)
    evaluation = {
        tfma.METRICS_KEY: metrics,
        tfma.PLOTS_KEY: sliced
        | "Plots" >> beam.Map(tfma_evaluator._filter_by_key_type, metric_types.PlotKey),
        tfma.VALIDATIONS_KEY: metrics | "Validate" >> beam.Map(metrics_validator.validate_metrics, full),
    }
    writers = tfma.default_writers(output_path, eval_shared_model=shared_models, eval_config=full)
    _ = evaluation | "Write" >> tfma.WriteResults(writers)


def _add(parts: Iterable[Sums]) -> Sums:
    """Element-wise sums; Beam may call it on sums of sums."""
    total: Sums | None = None
    for part in parts:
        total = list(part) if total is None else [a + b for a, b in zip(total, part, strict=True)]
    return total or []


def _values(plan: Plan, sums: Sums) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for measure, part in zip(plan.measures, sums, strict=True):
        found.update(measure.values(part))
    return found


class _Sum(beam.DoFn):
    """A file to (slice key, sums of each measure), and beside it to counted pairs of classes."""

    def __init__(self, models: predict.Models, label: str, config: config_pb2.EvalConfig, plan: Plan) -> None:
        super().__init__()
        self._models = models
        self._label = label
        self._specs = [tuple(spec.feature_keys) for spec in config.slicing_specs] or [()]
        self._names = [spec.name for spec in config.model_specs]
        self._plan = plan

    def setup(self) -> None:
        self._candidate = runtimes.load(self._models.candidate)
        self._baseline = runtimes.load(self._models.baseline) if self._models.baseline else None
        self._decoder = example_coder.ExamplesToRecordBatchDecoder()

    def process(self, file: str) -> Iterator[Any]:
        chunk = _Chunk()
        for records in _batches(file):
            chunk.add(self._numbers(records), self._columns(records), self._scores(records))
            if chunk.rows >= CHUNK_ROWS:
                yield from self._sum_up(chunk)
                chunk = _Chunk()
        if chunk.rows:
            yield from self._sum_up(chunk)

    def _numbers(self, records: Sequence[bytes]) -> np.ndarray | None:
        """(B,) float32 labels of a regression; None for classes."""
        if self._candidate.servable.class_names:
            return None
        return examples.numbers_of(records, self._label)

    def _columns(self, records: Sequence[bytes]) -> dict[str, pa.Array]:
        """Slicing features, and the label of classes, of serialized Examples, as list arrays."""
        wanted = {name for spec in self._specs for name in spec}
        if self._candidate.servable.class_names:
            wanted.add(self._label)
        if not wanted:
            return {}  # whole numbers beside others, as labels may be, could not be decoded
        decoded = self._decoder.DecodeBatch(list(records))
        return {name: decoded.column(name) for name in wanted & set(decoded.schema.names)}

    def _scores(self, records: Sequence[bytes]) -> list[np.ndarray]:
        """(B, C + 1) of each model, in the candidate's class order, or (B,); see `predict`."""
        if not self._candidate.servable.class_names:
            models = [self._candidate, self._baseline] if self._baseline else [self._candidate]
            return [model.predict(records).scores.reshape(-1) for model in models]
        scores = [predict.with_unknown(self._candidate.predict(records).scores)]
        if self._baseline is not None:
            own = self._baseline.predict(records).scores
            names = self._candidate.servable.class_names
            wanted = predict.reorder(own, self._baseline.servable.class_names, names)
            scores.append(predict.with_unknown(wanted))
        return scores

    def _sum_up(self, chunk: _Chunk) -> Iterator[Any]:
        yield from self._pairs(chunk)
        yield from self._sums(chunk)

    def _pairs(self, chunk: _Chunk) -> Iterator[Any]:
        names = self._candidate.servable.class_names
        if names:
            column = chunk.column(self._label)
            labels = [str(value) for value in column.values]
            codes = column.first_of(chunk.rows)
            for counted in confusion.of_batch(labels, codes, chunk.stacked(0), names):
                yield beam.pvalue.TaggedOutput(_PAIRS, counted)

    def _sums(self, chunk: _Chunk) -> Iterator[tuple[SliceKey, Sums]]:
        columns = {name: chunk.column(name) for spec in self._specs for name in spec}
        batch = Batch(self._labels(chunk), self._by_model(chunk))
        for members in slices_of(self._specs, columns, chunk.rows):
            size = len(members.keys)
            sums = [item.sums(batch, members.rows, members.codes, size) for item in self._plan.measures]
            for code, key in enumerate(members.keys):
                yield key, [part[code] for part in sums]

    def _labels(self, chunk: _Chunk) -> np.ndarray:
        """(B,) int64 class ids, C where the candidate does not know the class; or numbers."""
        if chunk.numbers:
            return np.concatenate(chunk.numbers)
        names = self._candidate.servable.class_names
        index = class_index(names)
        column = chunk.column(self._label)
        known = np.array([index.get(str(value), len(names)) for value in column.values] + [len(names)])
        return known[column.first_of(chunk.rows)].astype(np.int64)

    def _by_model(self, chunk: _Chunk) -> dict[str, np.ndarray]:
        # TFMA leaves out the name of a model that is the only one.
        if len(chunk.scores[0]) == 1:
            return {"": chunk.stacked(0), self._names[0]: chunk.stacked(0)}
        return {predict_name: chunk.stacked(number) for number, predict_name in enumerate(self._names)}


class _Chunk:
    """Scores and features of consecutive batches."""

    def __init__(self) -> None:
        self.rows = 0
        self.scores: list[list[np.ndarray]] = []
        self.numbers: list[np.ndarray] = []
        self._columns: list[dict[str, pa.Array]] = []
        self._sizes: list[int] = []

    def add(self, numbers: np.ndarray | None, columns: dict[str, pa.Array], scores: list[np.ndarray]) -> None:
        """A batch: labels of a regression or None, features, and each model's scores."""
        size = len(scores[0])
        self.rows += size
        self._sizes.append(size)
        if numbers is not None:
            self.numbers.append(numbers)
        self._columns.append(columns)
        self.scores.append(scores)

    def column(self, name: str) -> Column:
        return Column.of([part.get(name) for part in self._columns], self._sizes)

    def stacked(self, number: int) -> np.ndarray:
        return np.concatenate([part[number] for part in self.scores])


def _batches(file: str) -> Iterator[list[bytes]]:
    """The records of a gzipped TFRecord, so many at a time as a model takes well."""
    waiting: list[bytes] = []
    size = 0
    for records in tf.data.TFRecordDataset(file, "GZIP").batch(_READ).as_numpy_iterator():
        waiting.extend(records)
        size += sum(map(len, records))
        if size >= _BATCH_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting
