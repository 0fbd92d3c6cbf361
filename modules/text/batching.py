"""Batches of texts of similar length, so that short texts cost little.

    batching = by_length(padding=0)
    for tokens, labels in batching(examples, 64, seed): ...       # (64, L) float32, L of the longest

A stretch of the shuffled stream is sorted by length, cut into batches, and the
batches shuffled again. There are as many batches as without, the smaller one
last, and they follow from seed and order alone, so a training can go on in the
middle.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from modules.input_pipeline import AUTOTUNE, Batching

_BATCHES_PER_STRETCH = 32
_STEPS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Lengths that batches are padded to, so that XLA compiles for few; beyond, multiples of the last."""


def by_length(padding: int) -> Batching:
    """Batching for (tokens (N,) float32, label) pairs of any N."""

    def batches(dataset: tf.data.Dataset, batch_size: int, seed: tf.Tensor | None) -> tf.data.Dataset:
        stretches = dataset.padded_batch(
            batch_size * _BATCHES_PER_STRETCH, padding_values=(float(padding), 0.0)
        ).enumerate()
        return stretches.flat_map(lambda index, pair: _cut(index, pair, batch_size, seed, padding))

    return batches


def _cut(
    index: tf.Tensor, pair: tuple[Any, ...], batch_size: int, seed: tf.Tensor | None, padding: int
) -> tf.data.Dataset:
    tokens, labels = pair
    lengths = lengths_of(tokens, padding)
    width = padded_length(tf.reduce_max(lengths))
    room = tf.maximum(width - tf.shape(tokens)[1], 0)
    tokens = tf.pad(tokens, [[0, 0], [0, room]], constant_values=float(padding))
    rows = tf.shape(tokens)[0]
    whole, rest = rows // batch_size, rows % batch_size
    order = tf.argsort(lengths, stable=True)
    numbers = tf.range(whole)
    if seed is not None:
        numbers = tf.random.experimental.stateless_shuffle(numbers, tf.stack([seed, index]))
    # The rest is the shortest texts, and comes last, as with plain batching.
    starts = tf.concat([rest + numbers * batch_size, tf.zeros([tf.minimum(rest, 1)], tf.int32)], 0)
    sizes = tf.concat([tf.fill([whole], batch_size), tf.fill([tf.minimum(rest, 1)], rest)], 0)

    def batch(start: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        chosen = order[start : start + size]
        longest = padded_length(tf.reduce_max(tf.gather(lengths, chosen)))
        return tf.gather(tokens[:, :longest], chosen), tf.gather(labels, chosen)

    return tf.data.Dataset.from_tensor_slices((starts, sizes)).map(batch, num_parallel_calls=AUTOTUNE)


def lengths_of(tokens: tf.Tensor, padding: int) -> tf.Tensor:
    """Where the last token of each row stands, from 1; 0 for none: (B,) int32."""
    places = tf.range(1, tf.shape(tokens)[1] + 1)
    return tf.reduce_max(tf.where(tf.equal(tokens, float(padding)), 0, places), axis=1)


def padded_length(length: tf.Tensor) -> tf.Tensor:
    """The length that a batch whose longest text has `length` tokens is padded to: () int32."""
    last = _STEPS[-1]
    steps = tf.constant(_STEPS)
    place = tf.minimum(tf.searchsorted(steps, [length])[0], len(_STEPS) - 1)
    return tf.where(length > last, -(-length // last) * last, steps[place])
