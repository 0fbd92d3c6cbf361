"""Batches for masked language modelling (Devlin et al., 2019, arXiv:1810.04805).

    masking = Masking(vocabulary, share=0.15)
    tokens, target = masking(tokens, seed)

Of the chosen tokens 80 % become the mask, 10 % another token, 10 % stay. All
randomness comes of the seed that is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from modules.text.model import Vocabulary

_MASKED, _OTHER = 0.8, 0.1
NOT_CHOSEN = -1.0
"""In targets, where nothing is to be predicted."""


@dataclass(frozen=True)
class Masking:
    """How tokens are hidden.

    Attributes:
        vocabulary: of the ids.
        share: of the tokens that are chosen.
        inside: (V,) booleans, ids that continue the word before them; then words
            are chosen whole. None for tokens each by itself.
    """

    vocabulary: Vocabulary
    share: float = 0.15
    inside: tuple[bool, ...] | None = None

    def __call__(self, tokens: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Hides some tokens.

        Args:
            tokens: (B, L) float32 ids.
            seed: (2,) int64.

        Returns:
            The tokens to read, and the tokens to predict, `NOT_CHOSEN` elsewhere: (B, L) float32 each.
        """
        # Split, not counted on from: seeds count epochs, and the next ones would be drawn from twice.
        of_choice, of_how, of_other = tf.unstack(tf.random.split(seed, 3))
        chosen = self._chosen(tokens, of_choice)
        how = tf.random.stateless_uniform(tf.shape(tokens), of_how)
        specials = self.vocabulary.specials
        other = tf.random.stateless_uniform(
            tf.shape(tokens), of_other, specials.first, self.vocabulary.size, tf.int32
        )
        hidden = tf.where(how < _MASKED, float(specials.mask), tokens)
        hidden = tf.where((how >= _MASKED) & (how < _MASKED + _OTHER), tf.cast(other, tokens.dtype), hidden)
        return tf.where(chosen, hidden, tokens), tf.where(chosen, tokens, NOT_CHOSEN)

    def _chosen(self, tokens: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        draws = tf.random.stateless_uniform(tf.shape(tokens), seed)
        if self.inside is not None:
            # Each piece takes the draw of its word's first piece.
            continues = tf.gather(tf.constant(self.inside), tf.cast(tokens, tf.int32))
            draws = _of_first(draws, continues)
        return (draws < self.share) & self._ordinary(tokens)

    def _ordinary(self, tokens: tf.Tensor) -> tf.Tensor:
        specials = self.vocabulary.specials
        ordinary = tf.ones_like(tokens, tf.bool)
        for special in (specials.padding, specials.start, specials.separator, specials.mask):
            ordinary &= tf.not_equal(tokens, float(special))
        return ordinary


def _of_first(draws: tf.Tensor, continues: tf.Tensor) -> tf.Tensor:
    """(B, L) with each value replaced by that of the nearest place before it that continues nothing."""
    places = tf.broadcast_to(tf.range(tf.shape(draws)[1]), tf.shape(draws))
    starts = tf.where(continues, 0, places)
    return tf.gather(draws, _running_maximum(starts), axis=1, batch_dims=1)


def _running_maximum(values: tf.Tensor) -> tf.Tensor:
    return tf.transpose(tf.scan(tf.maximum, tf.transpose(values), initializer=tf.zeros_like(values[:, 0])))
