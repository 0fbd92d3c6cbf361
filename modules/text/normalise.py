"""Unicode normalisation as operations on code points, in the graph.

    normalise(tf.constant(["\\uff23afe\\u0301"]), lowercase=True)      # ["caf\\u00e9"]

Core TensorFlow lower-cases but does not normalise. tensorflow-text does, by
operations of its own, which every server of the model would have to load; so
the tables of Python's unicodedata are constants here, and a model is served by
plain TensorFlow. They are searched, not hashed: constants need no resources.

What differs from the standard: several marks on one letter are composed in the
order in which they stand, without sorting them by class first.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import tensorflow as tf

_FORMS: dict[str, Literal["NFKC", "NFD"]] = {"nfkc": "NFKC", "nfd": "NFD"}
FORMS = (*_FORMS, "none")

_PAIR = 1 << 21
"""More than there are code points, so that a pair is one number."""

# Hangul syllables are composed by arithmetic (Unicode standard, 3.12).
_HANGUL, _LEADING, _VOWEL, _TRAILING = 0xAC00, 0x1100, 0x1161, 0x11A7
_LEADINGS, _VOWELS, _TRAILINGS = 19, 21, 28
_ROUNDS = 2
"""Of composition: letters with up to two marks, and syllables of three."""


@dataclass(frozen=True)
class Expansions:
    """What single code points become: those that change, ascending, and their replacements in one row.

    Attributes:
        keys: (N,) int32.
        starts: (N,) int32, into `values`.
        lengths: (N,) int32; 0 drops the code point.
        values: (M,) int32.
    """

    keys: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    values: np.ndarray


def normalise(
    text: tf.Tensor, *, form: str = "nfkc", lowercase: bool = False, strip_accents: bool = False
) -> tf.Tensor:
    """Normalised texts; bytes that are no UTF-8 become U+FFFD.

    Args:
        text: (B,) string.
        form: of `FORMS`.
        lowercase: by Unicode's full mapping, before and after the form is changed.
        strip_accents: drops nonspacing marks, those of composed letters too.

    Returns:
        (B,) string, UTF-8.
    """
    points = tf.strings.unicode_decode(_lower(text, lowercase), "UTF-8", errors="replace")
    if form != "none" or strip_accents:
        points = _expand(points, expansions(form, strip_accents))
    if form == "nfkc" and not strip_accents:
        for _ in range(_ROUNDS):
            points = _compose(points)
    return _lower(tf.strings.unicode_encode(points, "UTF-8"), lowercase)


def _lower(text: tf.Tensor, lowercase: bool) -> tf.Tensor:
    if not lowercase:
        return text
    # Cut and stray bytes would make the operation fail.
    valid = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
    return tf.strings.lower(valid, encoding="utf-8")


@functools.cache
def expansions(form: str, strip_accents: bool) -> Expansions:
    """The code points that a form changes, each by itself."""
    found = {
        point: new
        for point in _assigned()
        if (new := _expanded(chr(point), form, strip_accents)) != chr(point)
    }
    lengths = np.array([len(new) for new in found.values()], np.int32)
    return Expansions(
        keys=np.array(list(found), np.int32),
        starts=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32),
        lengths=lengths,
        values=np.array([ord(letter) for new in found.values() for letter in new], np.int32),
    )


def _assigned() -> Iterable[int]:
    surrogates = range(0xD800, 0xE000)
    return (point for point in range(0x80, sys.maxunicode + 1) if point not in surrogates)


def _expanded(letter: str, form: str, strip_accents: bool) -> str:
    if not strip_accents:
        return letter if form == "none" else unicodedata.normalize(_FORMS[form], letter)
    apart = unicodedata.normalize("NFKD" if form == "nfkc" else "NFD", letter)
    kept = "".join(part for part in apart if unicodedata.category(part) != "Mn")
    return kept if form == "nfd" else unicodedata.normalize("NFC", kept)


@functools.cache
def _compositions() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of code points (first * _PAIR + second), ascending, and what each composes to."""
    found = {}
    for point in _assigned():
        apart = unicodedata.decomposition(chr(point))
        if not apart or apart.startswith("<") or unicodedata.normalize("NFC", chr(point)) != chr(point):
            continue
        parts = [int(part, 16) for part in apart.split()]
        if len(parts) == 2:
            found[parts[0] * _PAIR + parts[1]] = point
    keys = sorted(found)
    return np.array(keys, np.int64), np.array([found[key] for key in keys], np.int32)


def _search(keys: tf.Tensor, wanted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Place of each wanted number among ascending keys, and whether it is there."""
    place = tf.minimum(tf.searchsorted(keys, wanted), tf.size(keys) - 1)
    return place, tf.equal(tf.gather(keys, place), wanted)


def _expand(points: tf.RaggedTensor, table: Expansions) -> tf.RaggedTensor:
    flat = points.flat_values
    place, found = _search(tf.constant(table.keys), flat)
    # Everything that can be copied lies in one row: replacements, then the text itself.
    source = tf.concat([tf.constant(table.values), flat], 0)
    own = tf.size(table.values) + tf.range(tf.size(flat))
    starts = tf.where(found, tf.gather(tf.constant(table.starts), place), own)
    lengths = tf.where(found, tf.gather(tf.constant(table.lengths), place), 1)
    copied = tf.ragged.range(starts, starts + lengths, row_splits_dtype=tf.int64)
    return _regroup(tf.gather(source, copied.flat_values), copied.row_splits, points)


def _regroup(values: tf.Tensor, splits: tf.Tensor, points: tf.RaggedTensor) -> tf.RaggedTensor:
    """New code points in the rows of the old ones, each of which they come from as `splits` says."""
    return tf.RaggedTensor.from_row_splits(values, tf.gather(splits, points.row_splits), validate=False)


def _compose(points: tf.RaggedTensor) -> tf.RaggedTensor:
    """Joins each code point with the one after it where they compose; leftmost first."""
    flat = points.flat_values
    rows = points.value_rowids()
    nothing = tf.zeros([tf.minimum(tf.size(flat), 1)], tf.bool)
    same_row = tf.concat([tf.equal(rows[1:], rows[:-1]), nothing], 0)
    after = tf.concat([flat[1:], tf.cast(nothing, tf.int32)], 0)
    keys, composed = _compositions()
    pair = tf.cast(flat, tf.int64) * _PAIR + tf.cast(after, tf.int64)
    place, found = _search(tf.constant(keys), pair)
    syllable, is_syllable = _hangul(flat, after)
    joined = tf.logical_and(tf.logical_or(found, is_syllable), same_row)
    new = tf.where(is_syllable, syllable, tf.gather(tf.constant(composed), place))
    taken = tf.concat([nothing, joined[:-1]], 0)
    values = tf.where(tf.logical_and(joined, tf.logical_not(taken)), new, flat)
    # A joined pair's second is gone; one that is taken cannot itself take.
    kept = tf.logical_not(taken)
    splits = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], 0)
    return _regroup(tf.boolean_mask(values, kept), splits, points)


def _hangul(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The syllable of two jamo, or of a syllable and a trailing consonant, and where there is one."""
    leading, vowel, trailing = first - _LEADING, second - _VOWEL, second - _TRAILING
    is_pair = _within(leading, _LEADINGS) & _within(vowel, _VOWELS)
    open_syllable = _within(first - _HANGUL, _LEADINGS * _VOWELS * _TRAILINGS) & tf.equal(
        (first - _HANGUL) % _TRAILINGS, 0
    )
    closes = open_syllable & _within(trailing - 1, _TRAILINGS - 1)
    pair = _HANGUL + (leading * _VOWELS + vowel) * _TRAILINGS
    return tf.where(is_pair, pair, first + trailing), tf.logical_or(is_pair, closes)


def _within(value: tf.Tensor, count: int) -> tf.Tensor:
    return tf.logical_and(value >= 0, value < count)
