"""WordPiece: a vocabulary learned from word counts, and words cut by it in the graph.

    pieces = learn({"low": 5, "lower": 2, "newest": 6}, size=60)
    ids = pieces_of(words, lookup, longest=16)           # (B, words) string -> (B, pieces) int64

Pieces inside a word begin with `##`. Cutting is greedy, longest first, as in
BERT (Wu et al., 2016, arXiv:1609.08144); the vocabulary comes of merging the
most frequent pair again and again (Sennrich et al., 2016, arXiv:1508.07909).
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import tensorflow as tf

INSIDE = "##"
LONGEST_WORD = 100
"""Characters; BERT takes longer words for unknown, and so do we."""

Lookup = Callable[[tf.Tensor], tf.Tensor]
"""(N,) string -> (N,) int64; -1 where there is no such piece."""


def learn(counts: Mapping[str, int], size: int, *, longest: int = 16) -> list[str]:
    """The pieces that a vocabulary of at most `size` holds, characters first.

    Args:
        counts: word -> how often it was seen.
        size: pieces at most; characters beyond it are left out, rarest first.
        longest: characters of a piece at most.

    Returns:
        Pieces, in the order in which they came; ties go by alphabet, so that
        the same counts make the same vocabulary.
    """
    words = [(_letters(word), count) for word, count in sorted(counts.items()) if len(word) > 0]
    letters: Counter[str] = Counter()
    for split, count in words:
        for letter in split:
            letters[letter] += count
    pieces = [letter for letter, _ in sorted(letters.items(), key=lambda item: (-item[1], item[0]))][:size]
    known = set(pieces)
    for merged in _Merges(words, longest):
        if len(pieces) >= size:
            break
        if merged not in known:
            known.add(merged)
            pieces.append(merged)
    return pieces


def _letters(word: str) -> list[str]:
    return [word[0], *(INSIDE + letter for letter in word[1:])]


def _joined(left: str, right: str) -> str:
    return left + right.removeprefix(INSIDE)


class _Merges:
    """Yields the most frequent pair's merger, and merges it, until no pair is left twice."""

    def __init__(self, words: list[tuple[list[str], int]], longest: int) -> None:
        self._words = [list(split) for split, _ in words]
        self._counts = [count for _, count in words]
        self._longest = longest
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for index in range(len(self._words)):
            self._add(index, 1)
        # Counts in the heap may be old; they are looked at again when they come out.
        self._heap = [(-count, pair) for pair, count in self._pairs.items()]
        heapq.heapify(self._heap)

    def __iter__(self) -> _Merges:
        return self

    def __next__(self) -> str:
        while self._heap:
            negative, pair = heapq.heappop(self._heap)
            count = self._pairs[pair]
            if -negative != count:
                if count > 0:
                    heapq.heappush(self._heap, (-count, pair))
                continue
            if count < 2:
                break
            merged = _joined(*pair)
            if len(merged.removeprefix(INSIDE)) <= self._longest:
                self._merge(pair, merged)
                return merged
        raise StopIteration

    def _add(self, index: int, sign: int) -> set[tuple[str, str]]:
        split = self._words[index]
        pairs = set(itertools.pairwise(split))
        for pair in itertools.pairwise(split):
            self._pairs[pair] += sign * self._counts[index]
            self._where[pair].add(index)
        return pairs

    def _merge(self, pair: tuple[str, str], merged: str) -> None:
        changed = set()
        for index in sorted(self._where.pop(pair)):
            self._add(index, -1)
            self._words[index] = _replaced(self._words[index], pair, merged)
            changed |= self._add(index, 1)
        for other in sorted(changed):
            heapq.heappush(self._heap, (-self._pairs[other], other))


def _replaced(split: list[str], pair: tuple[str, str], merged: str) -> list[str]:
    result: list[str] = []
    index = 0
    while index < len(split):
        if tuple(split[index : index + 2]) == pair:
            result.append(merged)
            index += 2
        else:
            result.append(split[index])
            index += 1
    return result


def pieces_of(
    split: tf.RaggedTensor, lookup: Lookup, *, unknown: tf.Tensor | int, longest: int = 16
) -> tf.RaggedTensor:
    """Cuts words into pieces, each the longest that the vocabulary has.

    Args:
        split: (B, words) string.
        lookup: piece -> id.
        unknown: id of a word that cannot be cut to its end, or is longer than `LONGEST_WORD`.
        longest: characters of the longest piece.

    Returns:
        (B, pieces) int64.
    """
    # Words come again and again; each is cut once.
    words, place = tf.unique(split.flat_values)
    cut = _cut(words, lookup, tf.cast(unknown, tf.int64), longest)
    return split.with_flat_values(tf.gather(cut, place)).merge_dims(1, 2)


def _cut(words: tf.Tensor, lookup: Lookup, unknown: tf.Tensor, longest: int) -> tf.RaggedTensor:
    """(W,) string -> (W, pieces) int64."""
    lengths = tf.strings.length(words, unit="UTF8_CHAR")
    too_long = lengths > LONGEST_WORD
    lengths = tf.where(too_long, 0, lengths)
    ids, sizes = _longest_matches(tf.where(too_long, "", words), lengths, lookup, longest)
    # One step takes one piece of every word at once.
    steps = tf.reduce_max(tf.concat([lengths, [0]], 0))
    count = tf.size(words)
    rows = tf.range(count)

    def step(index: tf.Tensor, at: tf.Tensor, bad: tf.Tensor, taken: tf.TensorArray) -> tuple[tf.Tensor, ...]:
        going = tf.logical_and(at < lengths, tf.logical_not(bad))
        where = tf.stack([rows, tf.minimum(at, tf.shape(sizes)[1] - 1)], 1)
        size = tf.gather_nd(sizes, where)
        bad = tf.logical_or(bad, tf.logical_and(going, tf.equal(size, 0)))
        piece = tf.where(going & (size > 0), tf.gather_nd(ids, where), tf.constant(-1, tf.int64))
        return index + 1, at + tf.where(going, size, 0), bad, taken.write(index, piece)

    taken = tf.TensorArray(tf.int64, size=steps, element_shape=[None])
    start = (tf.constant(0), tf.zeros_like(lengths), too_long, taken)
    _, _, bad, taken = tf.while_loop(lambda index, *_: index < steps, step, start, parallel_iterations=1)
    columns = tf.cond(
        steps > 0, lambda: tf.transpose(taken.stack()), lambda: tf.fill([count, 1], tf.constant(-1, tf.int64))
    )
    # A word that cannot be cut to its end is one unknown piece.
    first = tf.concat(
        [unknown[tf.newaxis], tf.fill([tf.shape(columns)[1] - 1], tf.constant(-1, tf.int64))], 0
    )
    columns = tf.where(bad[:, tf.newaxis], first[tf.newaxis, :], columns)
    return tf.ragged.boolean_mask(columns, columns >= 0)


def _longest_matches(
    words: tf.Tensor, lengths: tf.Tensor, lookup: Lookup, longest: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Id and size in characters of the longest piece from each character on; size 0 where there is none.

    Returns:
        ids (W, L) int64 and sizes (W, L) int32, L the longest word's length, at least 1.
    """
    width = tf.maximum(tf.reduce_max(tf.concat([lengths, [1]], 0)), 1)
    starts = tf.range(width)
    sizes = tf.range(1, tf.minimum(longest, width) + 1)
    fits = (starts[tf.newaxis, :, tf.newaxis] + sizes) <= lengths[:, tf.newaxis, tf.newaxis]
    where = tf.where(fits)  # only what lies inside a word is looked up
    row, start, size = (tf.cast(part, tf.int32) for part in tf.unstack(where, 3, axis=1))
    text = tf.strings.substr(tf.gather(words, row), start, size + 1, unit="UTF8_CHAR")
    found = lookup(tf.where(start > 0, tf.strings.join([INSIDE, text]), text))
    shape = tf.cast(tf.shape(fits), tf.int64)
    table = tf.scatter_nd(where, found + 1, shape)  # 0: not a piece
    longest_size = tf.reduce_max(tf.where(table > 0, sizes, 0), axis=2)
    index = tf.maximum(longest_size - 1, 0)
    return tf.gather(table, index, axis=2, batch_dims=2) - 1, longest_size
