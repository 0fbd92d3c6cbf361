"""Keras layers for token ids: embeddings, encoder blocks, pooling, chunks, bags of n-grams.

Ids come as (B, L) whole numbers; padding is an id of its own, and every layer
that mixes positions is told which are real, so that a text's answer does not
depend on how far its batch is padded. Layers that take ids do not let Keras
cast them: in 16 bits, ids over 256 would be others.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

PACKAGE = "headrace"
_FAR_BELOW = -1e4
"""Added to what must not be attended to; large enough for a softmax, small enough for 16 bits."""


@keras.saving.register_keras_serializable(package=PACKAGE)
class RealTokens(keras.layers.Layer):
    """(B, L) ids to (B, L) float32: 1 for tokens, 0 for padding."""

    def __init__(self, padding: int = 0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.padding = padding

    def call(self, ids: Any) -> Any:
        return ops.cast(ops.not_equal(ids, self.padding), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "padding": self.padding}


@keras.saving.register_keras_serializable(package=PACKAGE)
class TokenEmbedding(keras.layers.Layer):
    """(B, L) ids to (B, L, width): the token, its place, and which of two texts it is of.

    Args:
        vocabulary: different ids.
        width: of an embedding.
        positions: how many places have an embedding; 0 for none. Later places share the last.
        types: 2 where ids hold pairs; the second text begins after the first `separator`.
        separator: its id.
        normalised: layer normalisation and dropout of the sum, as BERT has it.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        positions: int = 0,
        types: int = 0,
        separator: int = 3,
        normalised: bool = False,
        epsilon: float = 1e-6,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self._config: dict[str, Any] = {
            "vocabulary": vocabulary,
            "width": width,
            "positions": positions,
            "types": types,
            "separator": separator,
            "normalised": normalised,
            "epsilon": epsilon,
            "dropout": dropout,
        }
        self.tokens = _embedding(vocabulary, width, "tokens")
        self.places = _embedding(positions, width, "places") if positions else None
        self.types = _embedding(types, width, "types") if types else None
        self.norm = keras.layers.LayerNormalization(epsilon=epsilon, name="norm") if normalised else None
        self.drop = keras.layers.Dropout(dropout, name="dropout")

    def build(self, input_shape: Any) -> None:
        for layer in (self.tokens, self.places, self.types):
            if layer is not None:
                layer.build(input_shape)
        if self.norm is not None:
            self.norm.build((*input_shape, self._config["width"]))
        self.built = True

    def call(self, ids: Any, training: bool = False) -> Any:
        ids = ops.cast(ids, "int32")
        x = self.tokens(ids)
        if self.places is not None:
            place = ops.minimum(ops.arange(ops.shape(ids)[1]), self._config["positions"] - 1)
            x = x + self.places(place)[None]
        if self.types is not None:
            x = x + self.types(self._types(ids))
        if self.norm is not None:
            x = self.norm(x)
        return self.drop(x, training=training)

    def _types(self, ids: Any) -> Any:
        """0 up to the first separator, 1 after it and in padding never."""
        ends = ops.cast(ops.equal(ids, self._config["separator"]), "int32")
        before = ops.cumsum(ends, axis=1) - ends
        return ops.minimum(before, self._config["types"] - 1)

    def compute_output_shape(self, shape: Any) -> Any:
        return (*shape, self._config["width"])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config}


@keras.saving.register_keras_serializable(package=PACKAGE)
class EncoderBlock(keras.layers.Layer):
    """Self-attention and a feed-forward network with residuals (Vaswani et al., 2017, arXiv:1706.03762).

    Args:
        width: of the features, in and out.
        heads: of attention; must divide `width`.
        feedforward: width of the hidden dense layer.
        norm: `pre` (before each part; Xiong et al., 2020, arXiv:2002.04745) or `post`, as BERT has it.
        rotary: turns queries and keys by their places (Su et al., 2021, arXiv:2104.09864).
        tanh_gelu: takes GELU by its approximation with tanh, as weights that were trained so want it.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward: int,
        *,
        norm: str = "pre",
        rotary: bool = False,
        tanh_gelu: bool = False,
        epsilon: float = 1e-6,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._config: dict[str, Any] = {
            "width": width,
            "heads": heads,
            "feedforward": feedforward,
            "norm": norm,
            "rotary": rotary,
            "tanh_gelu": tanh_gelu,
            "epsilon": epsilon,
            "dropout": dropout,
        }
        self._heads, self._pre, self._rotary = heads, norm == "pre", rotary
        self.query, self.key, self.value, self.attention_output = (
            _dense(width, name) for name in ("query", "key", "value", "attention_output")
        )
        self.inner, self.outer = _dense(feedforward, "inner"), _dense(width, "outer")
        self.attention_norm = keras.layers.LayerNormalization(epsilon=epsilon, name="attention_norm")
        self.norm = keras.layers.LayerNormalization(epsilon=epsilon, name="norm")
        self.drops = [keras.layers.Dropout(dropout, name=f"dropout_{index}") for index in range(3)]

    def build(self, input_shape: Any) -> None:
        shape = input_shape[0]
        for layer in (self.query, self.key, self.value, self.attention_output, self.inner):
            layer.build(shape)
        self.outer.build((*shape[:-1], self._config["feedforward"]))
        self.attention_norm.build(shape)
        self.norm.build(shape)
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Takes [(B, L, width) features, (B, L) 1 for real tokens]."""
        x, real = inputs
        attended = self._attend(self.attention_norm(x) if self._pre else x, real, training)
        x = x + self.drops[0](attended, training=training)
        x = x if self._pre else self.attention_norm(x)
        hidden = self.inner(self.norm(x) if self._pre else x)
        hidden = ops.gelu(hidden, approximate=self._config["tanh_gelu"])
        x = x + self.drops[1](self.outer(hidden), training=training)
        return x if self._pre else self.norm(x)

    def _attend(self, x: Any, real: Any, training: bool) -> Any:
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        if self._rotary:
            query, key = rotated(query), rotated(key)
        size = self._config["width"] // self._heads
        logits = ops.einsum("bqhd,bkhd->bhqk", query, key) / size**0.5
        logits = logits + (1.0 - ops.cast(real, logits.dtype))[:, None, None, :] * _FAR_BELOW
        weights = ops.cast(ops.softmax(ops.cast(logits, "float32")), value.dtype)
        weights = self.drops[2](weights, training=training)
        mixed = ops.einsum("bhqk,bkhd->bqhd", weights, value)
        return self.attention_output(ops.reshape(mixed, (-1, ops.shape(x)[1], self._config["width"])))

    def _split(self, x: Any) -> Any:
        return ops.reshape(x, (-1, ops.shape(x)[1], self._heads, self._config["width"] // self._heads))

    def compute_output_shape(self, shape: Any) -> Any:
        return shape[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config}


def _embedding(size: int, width: int, name: str) -> keras.layers.Embedding:
    normal = keras.initializers.TruncatedNormal(stddev=0.05)
    return keras.layers.Embedding(size, width, embeddings_initializer=normal, name=name)


def _dense(width: int, name: str) -> keras.layers.Dense:
    # Not BERT's deviation of 0.02: at a width of 128 attention then begins all but flat.
    return keras.layers.Dense(width, kernel_initializer="glorot_uniform", name=name)


def rotated(x: Any) -> Any:
    """Turns pairs of features by an angle that grows with the place: (B, L, H, D), D even."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-ops.arange(half, dtype="float32") / half)
    angles = ops.arange(ops.shape(x)[1], dtype="float32")[:, None] * rates[None]
    cosine, sine = (
        ops.cast(value, x.dtype)[None, :, None, :] for value in (ops.cos(angles), ops.sin(angles))
    )
    first, second = x[..., :half], x[..., half:]
    return ops.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)


@keras.saving.register_keras_serializable(package=PACKAGE)
class PoolTokens(keras.layers.Layer):
    """[(B, L, W) features, (B, L) real] to (B, W): the mean or the maximum of real tokens, or the first."""

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = mode

    def call(self, inputs: Any) -> Any:
        x, real = inputs
        if self.mode == "first":
            return x[:, 0]
        real = ops.cast(real, x.dtype)[..., None]
        if self.mode == "max":
            return ops.max(x * real + (1.0 - real) * _FAR_BELOW, axis=1)
        return ops.sum(x * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[0][0], shape[0][2])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "mode": self.mode}


@keras.saving.register_keras_serializable(package=PACKAGE)
class Chunks(keras.layers.Layer):
    """(B, L) ids to (B x K, T): overlapping chunks, each with the start id in front.

    Args:
        tokens: T, of a chunk; where the batch's texts are shorter, their length.
        overlap: tokens that neighbours share.
        padding: id of padding, which fills the last chunk.
    """

    def __init__(self, tokens: int, overlap: int, padding: int = 0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.tokens, self.overlap, self.padding = tokens, overlap, padding

    def call(self, ids: Any) -> Any:
        length = ops.shape(ids)[1]
        body = ops.minimum(self.tokens, length) - 1
        step = self.tokens - 1 - self.overlap
        count = ops.maximum(-(-(length - 1 - self.overlap) // step), 1)
        places = ops.arange(count)[:, None] * step + ops.arange(body)[None] + 1
        inside = ops.cast(places < length, ids.dtype)
        taken = ops.take(ids, ops.minimum(places, length - 1), axis=1)
        taken = taken * inside + self.padding * (1 - inside)
        starts = ops.tile(ids[:, :1, None], (1, count, 1))
        return ops.reshape(ops.concatenate([starts, taken], axis=2), (-1, body + 1))

    def compute_output_shape(self, shape: Any) -> Any:
        return (None, None)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "tokens": self.tokens,
            "overlap": self.overlap,
            "padding": self.padding,
        }


@keras.saving.register_keras_serializable(package=PACKAGE)
class PoolChunks(keras.layers.Layer):
    """[(B x K, C) logits, (B x K, T) chunks, (B, L) ids] to (B, C), over chunks with more than the start."""

    def __init__(self, mode: str = "mean", padding: int = 0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.mode, self.padding = mode, padding

    def call(self, inputs: Any) -> Any:
        logits, chunks, ids = inputs
        rows = ops.shape(ids)[0]
        real = ops.cast(ops.any(ops.not_equal(chunks[:, 1:], self.padding), axis=1), logits.dtype)
        shaped = ops.reshape(logits, (rows, -1, logits.shape[-1]))
        weight = ops.reshape(real, (rows, -1, 1))
        # A text without a token still has its first chunk.
        first = ops.cast(ops.equal(ops.arange(ops.shape(weight)[1]), 0), weight.dtype)[None, :, None]
        weight = ops.maximum(weight, first)
        if self.mode == "max":
            return ops.max(shaped * weight + (1.0 - weight) * _FAR_BELOW, axis=1)
        return ops.sum(shaped * weight, axis=1) / ops.sum(weight, axis=1)

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[2][0], shape[0][-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "mode": self.mode, "padding": self.padding}


@keras.saving.register_keras_serializable(package=PACKAGE)
class NgramBag(keras.layers.Layer):
    """(B, N) hash buckets to (B, width): the weighted sum of their embeddings, of length-free scale.

    Each n-gram weighs its inverse document frequency, and the weights of a text
    have the norm 1, as in TF-IDF.

    Args:
        buckets: ids are 1 to `buckets`, 0 is padding.
        width: of the sum.
    """

    def __init__(self, buckets: int, width: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.buckets, self.width = buckets, width

    def build(self, input_shape: Any) -> None:
        self.embeddings = self.add_weight(
            shape=(self.buckets + 1, self.width), initializer="zeros", name="embeddings"
        )
        self.weights_of_ngrams = self.add_weight(
            shape=(self.buckets + 1,), initializer="ones", trainable=False, name="inverse_frequency"
        )
        self.built = True

    def call(self, ids: Any) -> Any:
        ids = ops.cast(ids, "int32")
        present = ops.cast(ops.not_equal(ids, 0), "float32")
        weight = ops.cast(ops.take(self.weights_of_ngrams, ids, axis=0), "float32") * present
        norm = ops.sqrt(ops.sum(ops.square(weight), axis=1, keepdims=True))
        weight = weight / ops.maximum(norm, 1e-6)
        vectors = ops.take(self.embeddings, ids, axis=0)
        return ops.squeeze(ops.matmul(ops.cast(weight, vectors.dtype)[:, None, :], vectors), axis=1)

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[0], self.width)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "buckets": self.buckets, "width": self.width}
