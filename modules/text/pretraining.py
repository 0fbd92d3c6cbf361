"""Masked language modelling on the training texts, whose encoder then learns the classes.

pretrain(hparams, vocabulary, start, encoder)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from modules import input_pipeline
from modules.hparams.text import PretrainHparams
from modules.hparams.train import TrainHparams
from modules.text import batching
from modules.text import model as text_model
from modules.text.masking import NOT_CHOSEN, Masking
from modules.training import caching, loop, splits
from modules.training.classifier import Start
from modules.training.extensions import Extension
from modules.training.report import FitReport
from modules.training.session import Session

_VALIDATION_SEED = 1
_PART = "pretraining"


class TokenHead(keras.layers.Layer):
    """(B, P, width) features to (B, P, V) probabilities, by the embedding's own matrix.

    Args:
        embedding: whose matrix is shared (Press and Wolf, 2017, arXiv:1608.05859).
    """

    def __init__(self, embedding: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._shared = [embedding.tokens]
        self._vocabulary = embedding.tokens.input_dim
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6, name="norm")
        self.dense = keras.layers.Dense(embedding.tokens.output_dim, name="dense")

    def build(self, input_shape: Any) -> None:
        self.dense.build(input_shape)
        self.norm.build(input_shape)
        self.bias = self.add_weight(shape=(self._vocabulary,), initializer="zeros", name="bias")
        self.built = True

    def call(self, x: Any) -> Any:
        hidden = self.norm(ops.gelu(self.dense(x), approximate=False))
        matrix = ops.cast(self._shared[0].embeddings, hidden.dtype)
        logits = ops.matmul(hidden, ops.transpose(matrix)) + ops.cast(self.bias, hidden.dtype)
        return ops.softmax(ops.cast(logits, "float32"), axis=-1)

    def compute_output_shape(self, shape: Any) -> Any:
        return (*shape[:-1], self._vocabulary)


def build(encoder: Sequence[keras.layers.Layer]) -> keras.Model:
    """[(B, L) ids, (B, P) places] to (B, P, V) probabilities: only chosen places are worked out."""
    ids = keras.Input((None,), name="tokens")
    places = keras.Input((None,), name="places")
    x = text_model.encode(encoder, ids)
    index = ops.expand_dims(ops.cast(places, "int32"), -1)
    chosen = ops.take_along_axis(x, index, axis=1)
    head = TokenHead(encoder[1], dtype=encoder[1].dtype_policy, name="token_head")
    return keras.Model([ids, places], head(chosen), name="masked_tokens")


def pretrain(
    hparams: PretrainHparams,
    train: TrainHparams,
    start: Start,
    encoder: Sequence[keras.layers.Layer],
    masking: Masking,
    window: int | None = None,
) -> FitReport:
    """Trains an encoder on the texts alone; its labels are not looked at.

    Args:
        hparams: how long, and how much is masked.
        train: whatever else the experiment says of training.
        start: texts, session, and where checkpoints lie.
        encoder: built layers, as `model.encode` takes them.
        masking: how tokens are hidden.
        window: of longer texts so many tokens are seen at a time, others in each epoch.
    """
    session = Session(_settings(hparams, train), start.session.placement, start.session.precision)
    with session.scope():
        model = build(encoder)
    store = start.store.part(_PART) if start.store is not None else None
    extension = Extension(loss=loss, metrics={"masked_accuracy": accuracy})
    stream, validation = _batches(session.hparams, start, masking, window)
    return loop.fit(model, stream, validation, session, store=store, extensions=[extension])


def _settings(hparams: PretrainHparams, train: TrainHparams) -> TrainHparams:
    """The experiment's settings, without what is meant for classes."""
    return replace(
        train,
        epochs=hparams.epochs,
        batch_size=hparams.batch_size,
        learning_rate=hparams.learning_rate,
        early_stopping_patience=hparams.epochs,
        class_weights="none",
        ema_momentum=0.0,
        layer_decay=1.0,
        tensorboard=False,
        profile="",
    )


def _batches(
    train: TrainHparams, start: Start, masking: Masking, window: int | None
) -> tuple[input_pipeline.TrainingStream, tf.data.Dataset]:
    """Training batches, hidden anew in every epoch, and validation batches, always hidden the same."""
    hidden = _hidden(masking, window)
    by_length = batching.by_length(masking.vocabulary.specials.padding)
    stream = input_pipeline.TrainingStream(
        start.training,
        examples=start.examples,
        batch_size=train.batch_size,
        seed=train.seed,
        augment=hidden,
        batching=by_length,
        shuffle_buffer=splits.shuffle_buffer(caching.element_bytes(start.training.element_spec)),
    )
    plain = input_pipeline.evaluation_batches(
        start.validation, batch_size=train.batch_size, batching=by_length
    )
    validation = plain.enumerate().map(
        lambda index, batch: hidden(*batch, seed=tf.stack([tf.constant(_VALIDATION_SEED, tf.int64), index]))
    )
    return stream, validation


def _hidden(masking: Masking, window: int | None) -> input_pipeline.Augment:
    def apply(tokens: tf.Tensor, _: tf.Tensor, *, seed: tf.Tensor) -> tuple[Any, tf.Tensor]:
        if window is not None:
            tokens = windows(tokens, window, masking.vocabulary.specials.padding, tf.cast(seed, tf.int64))
        hidden, target = masking(tokens, tf.cast(seed, tf.int64))
        places, wanted = _gathered(target, masking.share)
        return (hidden, places), wanted

    return apply


def windows(tokens: tf.Tensor, size: int, padding: int, seed: tf.Tensor) -> tf.Tensor:
    """A stretch of each text from a place that is drawn, its first token in front, as chunks have it.

    Args:
        tokens: (B, L) ids.
        size: tokens of a stretch, the first one counted; shorter texts stay as they are.
        padding: id of padding.
        seed: (2,) int64.

    Returns:
        (B, min(size, L)) ids.
    """
    width = tf.minimum(size, tf.shape(tokens)[1])
    room = tf.maximum(batching.lengths_of(tokens, padding) - width, 0)
    drawn = tf.random.stateless_uniform(tf.shape(room), tf.random.fold_in(seed, 1))
    begin = tf.cast(drawn * tf.cast(room + 1, tf.float32), tf.int32)
    places = begin[:, None] + tf.range(1, width)[None]
    return tf.concat([tokens[:, :1], tf.gather(tokens, places, axis=1, batch_dims=1)], axis=1)


def _gathered(target: tf.Tensor, share: float) -> tuple[tf.Tensor, tf.Tensor]:
    """The chosen places of each text, (B, P) float32, and what stands there; P by the length alone.

    A text with more chosen than twice the share keeps the first of them.
    """
    length = tf.shape(target)[1]
    room = tf.minimum(length, tf.cast(tf.math.ceil(2.0 * share * tf.cast(length, tf.float32)), tf.int32))
    chosen = tf.not_equal(target, NOT_CHOSEN)
    order = tf.argsort(tf.where(chosen, 0, 1), axis=1, stable=True)[:, :room]
    return tf.cast(order, tf.float32), tf.gather(target, order, axis=1, batch_dims=1)


def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy over the chosen tokens of each text: (B,) float32; 0 where none was chosen."""
    ids, chosen = _labels(labels)
    probability = tf.gather(predictions, ids, axis=2, batch_dims=2)
    return _mean(-tf.math.log(tf.maximum(probability, 1e-9)), chosen)


def accuracy(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Share of the chosen tokens that are guessed: (B,) float32."""
    ids, chosen = _labels(labels)
    guessed = tf.argmax(predictions, axis=-1, output_type=tf.int32)
    return _mean(tf.cast(tf.equal(guessed, ids), tf.float32), chosen)


def _labels(labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    chosen = tf.cast(tf.not_equal(labels, NOT_CHOSEN), tf.float32)
    return tf.cast(tf.maximum(labels, 0.0), tf.int32), chosen


def _mean(values: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(values * chosen, axis=1) / tf.maximum(tf.reduce_sum(chosen, axis=1), 1.0)
