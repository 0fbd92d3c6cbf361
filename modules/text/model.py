"""Text models by name, in the Keras functional API.

    model = build(hparams, Vocabulary(size=8000, specials=OWN), class_count=77)

Every model takes (B, L) float32 token ids, of any length L, and returns
(B, class_count) float32 probabilities. Whole numbers up to 2^24 are exact in
float32, which is what the rest of the chain hands to a model's core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras
from keras import ops

from modules import user_code
from modules.errors import TrainingError
from modules.hparams.text import TextHparams
from modules.text import layers
from modules.text.tokens import OWN, Specials

EMBEDDING, BLOCK, FINAL_NORM = "embedding", "block{}", "final_norm"
"""Names of the encoder's layers."""


@dataclass(frozen=True)
class Vocabulary:
    """What a model must know of its tokens: how many ids there are, and the special ones."""

    size: int
    specials: Specials = OWN


@dataclass(frozen=True)
class Shape:
    """The shape of a transformer encoder: an experiment's, or that of published weights."""

    width: int
    layers: int
    heads: int
    feedforward: int
    positions: int
    types: int = 0
    rotary: bool = False
    norm: str = "pre"
    embedding_norm: bool = False
    epsilon: float = 1e-6
    tanh_gelu: bool = False


def shape_of(hparams: TextHparams) -> Shape:
    """The encoder that an experiment describes."""
    model = hparams.model
    longest = model.chunk.tokens if model.chunk else hparams.inputs.max_tokens
    return Shape(
        width=model.width,
        layers=model.layers,
        heads=model.heads,
        feedforward=model.feedforward or 4 * model.width,
        positions=longest if model.positions == "learned" else 0,
        types=2 if hparams.inputs.text_pair_feature else 0,
        rotary=model.positions == "rotary",
    )


def build(
    hparams: TextHparams, vocabulary: Vocabulary, *, class_count: int, shape: Shape | None = None
) -> keras.Model:
    """Builds the model that `hparams.model.name` names.

    Args:
        hparams: the network, and what Transform was told.
        vocabulary: of the token ids.
        class_count: width of the output.
        shape: of the encoder, where weights were published; else the experiment's.

    Raises:
        TrainingError: there is no model of that name.
    """
    model = hparams.model
    network = _network(model.name)
    inputs = keras.Input((None,), name="tokens")
    padding = vocabulary.specials.padding
    parts = _Parts(hparams, vocabulary, shape or shape_of(hparams), class_count)
    if model.chunk is None or model.name == "ngrams":
        logits = network(inputs, parts)
    else:
        chunks = layers.Chunks(model.chunk.tokens, model.chunk.overlap, padding, name="chunks")(inputs)
        pool = layers.PoolChunks(model.chunk.pooling, padding, name="pool_chunks")
        logits = pool([network(chunks, parts), chunks, inputs])
    scores = keras.layers.Activation("softmax", dtype="float32", name="scores")(logits)
    return keras.Model(inputs, scores, name=model.name.rpartition(".")[2])


@dataclass(frozen=True)
class _Parts:
    hparams: TextHparams
    vocabulary: Vocabulary
    shape: Shape
    class_count: int


Network = Callable[[keras.KerasTensor, _Parts], keras.KerasTensor]


def _network(name: str) -> Network:
    if name in MODELS:
        return MODELS[name]
    if "." in name:
        own = user_code.function(name, "model.name")
        return lambda ids, parts: own(Parts(ids, parts), parts.class_count)
    raise TrainingError(
        f"There is no text model {name!r}",
        place="model.name",
        remedy=f"Known models: {', '.join(sorted(MODELS))}; one of your own is named as module.function.",
    )


class Parts:
    """What a network of the user's own is given: a text's tokens, embedded, and which of them are real.

    Attributes:
        hparams: the experiment's `model:` settings.
        real: (B, L) 1 for tokens, 0 for padding.
    """

    def __init__(self, ids: keras.KerasTensor, parts: _Parts) -> None:
        self.hparams = parts.hparams.model
        self.real = layers.RealTokens(parts.vocabulary.specials.padding, name="real")(ids)
        self._ids, self._parts = ids, parts

    def embedded(self) -> keras.KerasTensor:
        """The tokens' embeddings, (B, L, model.width), 0 where there is padding."""
        return embedded(self._ids, self._parts) * ops.expand_dims(self.real, -1)

    def pooled(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """(B, L, D) to (B, D) over real tokens, as `model.pooling` says."""
        pooled: keras.KerasTensor = layers.PoolTokens(self.hparams.pooling, name="pool")([x, self.real])
        return pooled


def embedded(ids: keras.KerasTensor, parts: _Parts) -> keras.KerasTensor:
    """(B, L) ids to (B, L, width), which know nothing of their places."""
    embedding = layers.TokenEmbedding(
        parts.vocabulary.size,
        parts.hparams.model.width,
        types=parts.shape.types,
        separator=parts.vocabulary.specials.separator,
        dropout=parts.hparams.model.dropout,
        name=EMBEDDING,
    )
    return embedding(ids)


def ngrams(ids: keras.KerasTensor, parts: _Parts) -> keras.KerasTensor:
    """A bag of hashed n-grams (Joulin et al., 2017, arXiv:1607.01759); linear where `width` is 0."""
    model = parts.hparams.model
    bag = layers.NgramBag(parts.hparams.inputs.buckets, model.width or parts.class_count, name="bag")
    x = bag(ids)
    if not model.width:
        return x
    x = keras.layers.Dropout(model.dropout, name="dropout")(x)
    return keras.layers.Dense(parts.class_count, name="logits")(x)


def cnn(ids: keras.KerasTensor, parts: _Parts) -> keras.KerasTensor:
    """Convolutions of several widths, of each filter the maximum over time (Kim, 2014, arXiv:1408.5882)."""
    model, vocabulary = parts.hparams.model, parts.vocabulary
    real = layers.RealTokens(vocabulary.specials.padding, name="real")(ids)
    # Padding is silent, so that a filter at the end of a text sees the same however long the batch is.
    x = embedded(ids, parts) * ops.expand_dims(real, -1)
    pooled = [
        layers.PoolTokens("max", name=f"pool{size}")(
            [
                keras.layers.Conv1D(
                    model.filters, size, padding="same", activation="relu", name=f"filters{size}"
                )(x),
                real,
            ]
        )
        for size in model.kernels
    ]
    x = keras.layers.Concatenate(name="pooled")(pooled) if len(pooled) > 1 else pooled[0]
    x = keras.layers.Dropout(model.dropout, name="dropout")(x)
    return keras.layers.Dense(parts.class_count, name="logits")(x)


def transformer(ids: keras.KerasTensor, parts: _Parts) -> keras.KerasTensor:
    """A transformer encoder, its tokens pooled, and one dense layer."""
    model = parts.hparams.model
    x = encode(encoder_layers(parts.shape, parts.vocabulary, model.dropout), ids)
    real = layers.RealTokens(parts.vocabulary.specials.padding, name="pooled_real")(ids)
    x = layers.PoolTokens(model.pooling, name="pool")([x, real])
    x = keras.layers.Dropout(model.dropout, name="dropout")(x)
    return keras.layers.Dense(parts.class_count, name="logits")(x)


def encoder_layers(shape: Shape, vocabulary: Vocabulary, dropout: float) -> list[keras.layers.Layer]:
    """New layers of an encoder: embedding, blocks, and with pre-norm the last normalisation."""
    embedding = layers.TokenEmbedding(
        vocabulary.size,
        shape.width,
        positions=shape.positions,
        types=shape.types,
        separator=vocabulary.specials.separator,
        normalised=shape.embedding_norm,
        epsilon=shape.epsilon,
        dropout=dropout,
        name=EMBEDDING,
    )
    blocks = [
        layers.EncoderBlock(
            shape.width,
            shape.heads,
            shape.feedforward,
            norm=shape.norm,
            rotary=shape.rotary,
            tanh_gelu=shape.tanh_gelu,
            epsilon=shape.epsilon,
            dropout=dropout,
            name=BLOCK.format(index),
        )
        for index in range(shape.layers)
    ]
    real = layers.RealTokens(vocabulary.specials.padding, name="real")
    last = [keras.layers.LayerNormalization(epsilon=shape.epsilon, name=FINAL_NORM)]
    return [real, embedding, *blocks, *(last if shape.norm == "pre" else [])]


def encode(encoder: Sequence[keras.layers.Layer], ids: keras.KerasTensor) -> keras.KerasTensor:
    """(B, L) ids through an encoder's layers: (B, L, width)."""
    real, embedding, *others = encoder
    mask, x = real(ids), embedding(ids)
    for layer in others:
        x = layer([x, mask]) if isinstance(layer, layers.EncoderBlock) else layer(x)
    return x


def encoder_of(model: keras.Model) -> list[keras.layers.Layer]:
    """The encoder's layers of a built transformer, as `encode` takes them."""
    names = {layer.name: layer for layer in model.layers}
    blocks = [layer for layer in model.layers if isinstance(layer, layers.EncoderBlock)]
    last = [names[FINAL_NORM]] if FINAL_NORM in names else []
    return [names["real"], names[EMBEDDING], *blocks, *last]


MODELS: dict[str, Network] = {
    "ngrams": ngrams,
    "cnn": cnn,
    "transformer": transformer,
}
