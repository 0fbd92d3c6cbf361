"""Summaries and traces that TensorBoard shows.

    board = Board(folder, histograms_every=5)
    board.scalars(step, {"epoch/loss": 0.4})
    board.close()

Needs no TensorBoard package: its file format is TensorFlow's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

_BINS = 30


class Board:
    """Writes summaries into a folder; with no folder, none."""

    def __init__(self, folder: str, *, histograms_every: int = 0) -> None:
        self._writer = tf.summary.create_file_writer(folder) if folder else None
        self._every = histograms_every
        self._has_graph = False

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes one value for each name."""
        if self._writer is None:
            return
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value, tf.float32), step, _metadata("scalars"))

    def graph(self, make: Callable[[], tf.Graph | None]) -> None:
        """Writes a graph, the first time that there is one."""
        if self._writer is None or self._has_graph:
            return
        graph = make()
        if graph is not None:
            with self._writer.as_default():
                tf.summary.graph(graph)
            self._has_graph = True

    def weights(self, step: int, epoch: int, variables: Sequence[keras.Variable]) -> None:
        """Writes histograms of weights, in the epochs (from 1) for which they are asked for."""
        if self._writer is None or not self._every or epoch % self._every:
            return
        with self._writer.as_default():
            for variable in variables:
                tf.summary.write(variable.path, _histogram(variable), step, _metadata("histograms"))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _metadata(plugin: str) -> tf.compat.v1.SummaryMetadata:
    metadata = tf.compat.v1.SummaryMetadata()
    metadata.plugin_data.plugin_name = plugin
    return metadata


def _histogram(variable: keras.Variable) -> tf.Tensor:
    """(_BINS, 3) float64: left edge, right edge, count, as TensorBoard reads it."""
    values = tf.reshape(tf.cast(variable.value, tf.float64), [-1])
    low, high = tf.reduce_min(values), tf.reduce_max(values)
    high = tf.where(high > low, high, low + 1e-6)
    counts = tf.histogram_fixed_width(values, tf.stack([low, high]), _BINS)
    edges = tf.linspace(low, high, _BINS + 1)
    return tf.stack([edges[:-1], edges[1:], tf.cast(counts, tf.float64)], axis=1)


class Trace:
    """The profiler's trace of some steps, such as `20-30`, for TensorBoard's profile page."""

    def __init__(self, steps: str, folder: str) -> None:
        first, _, last = steps.partition("-")
        self._range = range(int(first), int(last)) if steps and folder else range(0)
        self._folder = folder
        self._running = False

    def until(self, step: int) -> int | None:
        """How many steps may be taken in one call from `step` on, None for any number."""
        if step < self._range.start:
            return self._range.start - step
        return self._range.stop - step if step < self._range.stop else None

    def before(self, step: int) -> None:
        """Starts and stops the profiler where `step` is next."""
        wanted = step in self._range
        if wanted and not self._running:
            tf.profiler.experimental.start(self._folder)
        elif self._running and not wanted:
            tf.profiler.experimental.stop()
        self._running = wanted

    def close(self) -> None:
        """Stops the profiler if it still runs."""
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False
