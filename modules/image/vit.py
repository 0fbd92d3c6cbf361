"""Vision transformers (Dosovitskiy et al., 2020, arXiv:2010.11929), pre-norm, without a class token.

features = vit_tiny(normalised_pixels, hparams)      # (B, tokens, 192)

Tiny and Small have the widths and heads of Touvron et al. (2021, arXiv:2012.12877).
Tokens are averaged by the model's head, as in Beyer et al. (2022, arXiv:2205.01580).
"""

from __future__ import annotations

import keras

from modules.errors import TrainingError
from modules.hparams.image import ImageModelHparams

_EPSILON = 1e-6
_DEPTH = 12


@keras.saving.register_keras_serializable(package="headrace")
class Positions(keras.layers.Layer):
    """Adds a learned vector to each token: (B, T, D) to (B, T, D)."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        self.positions = self.add_weight(
            shape=(1, *input_shape[1:]), initializer=initializer, name="positions"
        )

    def call(self, tokens: keras.KerasTensor) -> keras.KerasTensor:
        return tokens + self.positions


def vit_tiny(pixels: keras.KerasTensor, hparams: ImageModelHparams) -> keras.KerasTensor:
    """12 blocks of width 192 with 3 heads: (B, H, W, C) to (B, tokens, 192)."""
    return _encoder(pixels, hparams, width=192, heads=3)


def vit_small(pixels: keras.KerasTensor, hparams: ImageModelHparams) -> keras.KerasTensor:
    """12 blocks of width 384 with 6 heads: (B, H, W, C) to (B, tokens, 384)."""
    return _encoder(pixels, hparams, width=384, heads=6)


def _encoder(
    pixels: keras.KerasTensor, hparams: ImageModelHparams, *, width: int, heads: int
) -> keras.KerasTensor:
    patch = hparams.patch
    if min(hparams.height, hparams.width) < patch:
        raise TrainingError(
            f"Patches of {patch} pixels do not fit into images of {hparams.height} x {hparams.width}",
            place="model.patch",
            remedy="Take smaller patches, or larger images.",
        )
    x = keras.layers.Conv2D(width, patch, strides=patch, name="patches")(pixels)
    x = keras.layers.Reshape((-1, width), name="tokens")(x)
    x = Positions(name="positions")(x)
    x = keras.layers.Dropout(hparams.dropout, name="tokens_dropout")(x)
    for index in range(_DEPTH):
        x = _block(x, width, heads, hparams.dropout, name=f"block{index}")
    return keras.layers.LayerNormalization(epsilon=_EPSILON, name="final_norm")(x)


def _block(x: keras.KerasTensor, width: int, heads: int, dropout: float, *, name: str) -> keras.KerasTensor:
    y = keras.layers.LayerNormalization(epsilon=_EPSILON, name=f"{name}_norm0")(x)
    y = keras.layers.MultiHeadAttention(
        heads, width // heads, dropout=dropout, flash_attention=False, name=f"{name}_attention"
    )(y, y)
    x = keras.layers.Add(name=f"{name}_add0")([x, y])
    y = keras.layers.LayerNormalization(epsilon=_EPSILON, name=f"{name}_norm1")(x)
    y = keras.layers.Dense(4 * width, activation="gelu", name=f"{name}_dense0")(y)
    y = keras.layers.Dense(width, name=f"{name}_dense1")(y)
    y = keras.layers.Dropout(dropout, name=f"{name}_dropout")(y)
    return keras.layers.Add(name=f"{name}_add1")([x, y])
