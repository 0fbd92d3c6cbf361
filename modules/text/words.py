"""Texts to words, characters and n-grams of both, in the graph.

words(tf.constant(["don't stop"]))           # [["don", "'", "t", "stop"]]
character_ngrams(words, (2, 3))              # [[" d", "do", ...]]
"""

from __future__ import annotations

import tensorflow as tf

# Chinese characters stand for words of their own; the ranges are those of BERT's tokenizer.
_IDEOGRAPHS = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2CEAF}"
    r"\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
_CONTROL = r"[\p{Cc}\p{Cf}\p{Cs}\p{Co}\x{FFFD}]"
_SPACE = r"[\t\n\r\p{Z}]+"


def words(text: tf.Tensor, *, symbols: bool = True) -> tf.RaggedTensor:
    """Splits at spaces, and takes punctuation and ideographs apart.

    Args:
        text: (B,) string, UTF-8.
        symbols: whether signs such as € stand alone too; BERT leaves them with their word.

    Returns:
        (B, words) string.
    """
    alone = _PUNCTUATION + (r"\p{S}" if symbols else "") + _IDEOGRAPHS
    spaced = tf.strings.regex_replace(text, _SPACE, " ")
    clean = tf.strings.regex_replace(spaced, _CONTROL, "")
    return tf.strings.split(tf.strings.regex_replace(clean, f"([{alone}])", r" \1 "))


def characters(text: tf.Tensor, size: int) -> tf.RaggedTensor:
    """Runs of `size` characters, one starting at each: (B, n-grams) string.

    A text shorter than that is one n-gram.
    """
    letters = tf.strings.unicode_split(tf.strings.regex_replace(text, _SPACE, " "), "UTF-8")
    if size == 1:
        return letters
    return tf.strings.ngrams(letters, size, separator="", preserve_short_sequences=True)


def word_ngrams(split: tf.RaggedTensor, size: int) -> tf.RaggedTensor:
    """Runs of 1 to `size` words, joined by a space: (B, n-grams) string."""
    return tf.strings.ngrams(split, list(range(1, size + 1)), separator=" ")


def character_ngrams(split: tf.RaggedTensor, sizes: tuple[int, int]) -> tf.RaggedTensor:
    """Runs of `sizes[0]` to `sizes[1]` characters in words with a space at each end: (B, n-grams) string."""
    flat = tf.strings.join([" ", split.flat_values, " "])
    letters = tf.strings.unicode_split(flat, "UTF-8")
    ngrams = tf.strings.ngrams(letters, list(range(sizes[0], sizes[1] + 1)), separator="")
    return split.with_flat_values(ngrams).merge_dims(1, 2)
