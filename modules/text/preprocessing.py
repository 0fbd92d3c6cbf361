"""Transform's part for texts: the vocabulary, the label's, and the tokens of each text.

Tokens are made here, not in tf.data, so that they are made once, and the graph
that makes them is the one that is served.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from modules.class_labels import class_ids
from modules.hparams.text import TextInputHparams
from modules.text import tokens, vocabulary
from modules.text.wordpiece import Lookup


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Maps raw features to transformed ones.

    Args:
        inputs: the text, the second text where there is one, and the label: each
            (B, 1) string, or sparse where values may be missing.
        custom_config: see `TextInputHparams.from_config`.

    Returns:
        `tokens`, sparse (B, tokens) int64, and the label (B,) int64, an index
        into the vocabulary `label`, -1 where it was not seen in training.
    """
    hparams = TextInputHparams.from_config(custom_config)
    text = _text(inputs[hparams.text_feature])
    pair = _text(inputs[hparams.text_pair_feature]) if hparams.text_pair_feature else None
    lookup, specials, longest = _lookup(text, pair, hparams)
    ids = tokens.encode(text, pair, hparams, lookup, specials, longest)
    return {
        tokens.TOKENS: ids.to_sparse(),
        hparams.label_feature: _label(inputs[hparams.label_feature]),
    }


def _text(value: Any) -> tf.Tensor:
    """(B,) string; a missing text is an empty one."""
    if isinstance(value, tf.sparse.SparseTensor | tf.compat.v1.SparseTensor):
        dense = tf.sparse.to_dense(
            tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1]), default_value=""
        )
        return tf.squeeze(dense, axis=1)
    return tf.reshape(value, [-1])


def _lookup(
    text: tf.Tensor, pair: tf.Tensor | None, hparams: TextInputHparams
) -> tuple[Lookup | None, tokens.Specials, int]:
    """How tokens are found in the vocabulary, which a full pass makes or a file gives."""
    if hparams.tokens == tokens.NGRAMS:
        return None, tokens.OWN, 0
    texts = [tokens.normalised(part, hparams) for part in (text, pair) if part is not None]
    counted = tokens.units(tf.concat(texts, 0), hparams)
    specials, longest = tokens.OWN, tokens.LONGEST_PIECE
    if hparams.vocabulary_file:
        lines = vocabulary.read_published(hparams.vocabulary_file)
        specials = vocabulary.published_specials(lines)
        longest = max(len(line.removeprefix("##")) for line in lines)
        path = vocabulary.given(counted, lines)
    elif hparams.tokens == tokens.WORDPIECE:
        path = vocabulary.learned_pieces(counted, hparams.vocabulary_size)
    else:
        path = tft.vocabulary(counted, top_k=hparams.vocabulary_size, vocab_filename=tokens.VOCABULARY)

    def lookup(token: tf.Tensor) -> tf.Tensor:
        return tft.apply_vocabulary(token, path, default_value=-1)

    return lookup, specials, longest


def _label(value: Any) -> tf.Tensor:
    flat = tf.reshape(value if isinstance(value, tf.Tensor) else value.values, [-1])
    text = flat if flat.dtype == tf.string else tf.strings.as_string(flat)
    return class_ids(text)
