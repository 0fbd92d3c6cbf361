"""Texts to token ids, in the graph, as one function for training and serving.

    ids = encode(text, None, hparams, lookup, specials)       # (B, tokens) int64, ragged

Sequence models get `[start] text [separator]`, or `[start] text [separator]
pair [separator]`; the bag of n-grams gets hash buckets. Padding is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from modules.hparams.text import TextInputHparams
from modules.text import words
from modules.text.normalise import normalise
from modules.text.wordpiece import Lookup, pieces_of

TOKENS = "tokens"
"""The transformed feature: (tokens,) int64 of each example."""

VOCABULARY = "tokens"
"""Name of the vocabulary that Transform writes of words, n-grams or pieces."""

LONGEST_PIECE = 16
"""Characters of a learned piece."""

NGRAMS, WORDS, CHARACTERS, WORDPIECE = "ngrams", "words", "characters", "wordpiece"


@dataclass(frozen=True)
class Specials:
    """Ids that stand for no token of the text.

    Attributes:
        first: id of the vocabulary's first line.
    """

    padding: int = 0
    unknown: int = 1
    start: int = 2
    separator: int = 3
    mask: int = 4
    first: int = 5


OWN = Specials()
"""Of a vocabulary learned here: the special ids come before it."""


def normalised(text: tf.Tensor, hparams: TextInputHparams) -> tf.Tensor:
    """(B,) string as the experiment wants it."""
    return normalise(
        text, form=hparams.unicode, lowercase=hparams.lowercase, strip_accents=hparams.strip_accents
    )


def units(text: tf.Tensor, hparams: TextInputHparams) -> tf.RaggedTensor:
    """What a vocabulary is counted over: words, or character n-grams, of normalised texts."""
    if hparams.tokens == CHARACTERS:
        return words.characters(text, hparams.character_ngram)
    # A published vocabulary goes with the splitting that it was made by.
    return words.words(text, symbols=not hparams.vocabulary_file)


def encode(
    text: tf.Tensor,
    pair: tf.Tensor | None,
    hparams: TextInputHparams,
    lookup: Lookup | None,
    specials: Specials,
    longest: int = LONGEST_PIECE,
) -> tf.RaggedTensor:
    """Token ids of texts, or of pairs of texts.

    Args:
        text: (B,) string, raw.
        pair: (B,) string, or None for single texts.
        hparams: kind of tokens, and how many are kept.
        lookup: token -> line in the vocabulary, -1 where it is not there; None for n-grams.
        specials: ids that go around.
        longest: characters of the longest piece.

    Returns:
        (B, tokens) int64: at most `max_tokens`, special ids included.
    """
    parts = [normalised(part, hparams) for part in (text, pair) if part is not None]
    if lookup is None:
        return _hashed(parts, hparams)
    ids = [_ids(part, hparams, lookup, specials, longest) for part in parts]
    room = hparams.max_tokens - 1 - len(ids)
    kept = _fit(ids, room, hparams.truncation)
    return _framed(kept, specials)


def _hashed(parts: list[tf.Tensor], hparams: TextInputHparams) -> tf.RaggedTensor:
    """Hash buckets from 1 on, of word and character n-grams; those of a pair's second text are others."""
    buckets = []
    for side, part in enumerate(parts):
        split = truncate(words.words(part), hparams.max_tokens, hparams.truncation)
        kinds = {"w": words.word_ngrams(split, hparams.word_ngrams)} if hparams.word_ngrams else {}
        if hparams.character_ngrams[1]:
            kinds["c"] = words.character_ngrams(split, hparams.character_ngrams)
        for kind, ngrams in kinds.items():
            named = tf.strings.join([f"{kind}{side or ''} ", ngrams.flat_values])
            hashed = tf.strings.to_hash_bucket_fast(named, hparams.buckets) + 1
            buckets.append(ngrams.with_flat_values(hashed))
    return tf.concat(buckets, axis=1)


def _ids(
    text: tf.Tensor, hparams: TextInputHparams, lookup: Lookup, specials: Specials, longest: int
) -> tf.RaggedTensor:
    found = units(text, hparams)

    def shifted(tokens: tf.Tensor) -> tf.Tensor:
        line = lookup(tokens)
        return tf.where(line < 0, line, line + specials.first)

    if hparams.tokens == WORDPIECE:
        return pieces_of(found, shifted, unknown=specials.unknown, longest=longest)
    ids = shifted(found.flat_values)
    return found.with_flat_values(tf.where(ids < 0, tf.constant(specials.unknown, tf.int64), ids))


def truncate(ragged: tf.RaggedTensor, limit: int | tf.Tensor, side: str) -> tf.RaggedTensor:
    """Keeps at most `limit` of each row.

    Args:
        ragged: (B, N) of any type.
        limit: one number, or (B,) int64.
        side: what is kept: `head`, `tail`, or `both` (the first half and the last).
    """
    length = tf.cast(ragged.row_lengths(), tf.int64)
    limit = tf.broadcast_to(tf.cast(limit, tf.int64), tf.shape(length))
    head = {"head": limit, "tail": tf.zeros_like(limit), "both": (limit + 1) // 2}[side]
    index = tf.cast(tf.ragged.range(length).flat_values, tf.int64)
    row = tf.cast(ragged.value_rowids(), tf.int64)
    of_row = [tf.gather(value, row) for value in (length, limit, head)]
    kept = (index < of_row[2]) | (index >= of_row[0] - (of_row[1] - of_row[2])) | (of_row[0] <= of_row[1])
    return tf.ragged.boolean_mask(ragged, ragged.with_flat_values(kept))


def _fit(ids: list[tf.RaggedTensor], room: int, side: str) -> list[tf.RaggedTensor]:
    """Cuts to `room` in all; of a pair each text has half, and what the other leaves."""
    if len(ids) == 1:
        return [truncate(ids[0], room, side)]
    first, second = ids
    half = (room + 1) // 2
    spare = room - tf.minimum(tf.cast(second.row_lengths(), tf.int64), room - half)
    kept = truncate(first, spare, side)
    return [kept, truncate(second, room - tf.cast(kept.row_lengths(), tf.int64), side)]


def _framed(ids: list[tf.RaggedTensor], specials: Specials) -> tf.RaggedTensor:
    rows = ids[0].nrows()
    separator = tf.fill([rows, 1], tf.constant(specials.separator, tf.int64))
    parts = [tf.fill([rows, 1], tf.constant(specials.start, tf.int64))]
    for part in ids:
        parts += [tf.cast(part, tf.int64), separator]
    return tf.concat(parts, axis=1)
