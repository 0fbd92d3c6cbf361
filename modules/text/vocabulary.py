"""Vocabularies by a full pass of Transform: of words, of n-grams, and of pieces learned from words.

path = learned_pieces(words, size=8000)        # in preprocessing_fn; apply with tft.apply_vocabulary
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform.beam.experimental import PTransformAnalyzer

from modules.errors import TrainingError
from modules.text import wordpiece
from modules.text.tokens import LONGEST_PIECE, VOCABULARY, Specials

_SPECIAL = {
    "padding": "[PAD]",
    "unknown": "[UNK]",
    "start": "[CLS]",
    "separator": "[SEP]",
    "mask": "[MASK]",
}
"""Special tokens of published vocabularies, by BERT's names."""

_MOST_WORDS = 100_000
"""Words from which pieces are learned at most; rarer ones would cost memory and change little."""


def learned_pieces(words: tf.RaggedTensor, size: int) -> tf.Tensor:
    """File of pieces learned from all words of the training split: a scalar string, deferred."""
    return _asset([words.flat_values], _LearnPieces(size))


def given(words: tf.RaggedTensor, lines: Sequence[str]) -> tf.Tensor:
    """File with the lines of a vocabulary that was not learned here."""
    return _asset([words.flat_values[:0]], _Given(lines))


def _asset(inputs: list[tf.Tensor], transform: PTransformAnalyzer) -> tf.Tensor:
    [path] = tft.experimental.ptransform_analyzer(
        inputs, transform, [tf.string], [[]], output_asset_default_values=[b"a"], name=VOCABULARY
    )
    return path


class _WritesVocabulary(PTransformAnalyzer):
    """Base: puts the vocabulary into Transform's folder, whose files become assets."""

    def _write(self, lines: Sequence[str]) -> str:
        folder = Path(str(self.base_temp_dir))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / VOCABULARY
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        return os.fspath(path)


class _LearnPieces(_WritesVocabulary):
    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def expand(self, batches: beam.PCollection) -> beam.PCollection:
        size = self._size
        return (
            batches
            | "Count" >> beam.FlatMap(_counted)
            | "Sum" >> beam.CombinePerKey(sum)
            | "Frequent" >> beam.combiners.Top.Of(_MOST_WORDS, key=_frequency)
            | "Learn" >> beam.Map(lambda counts: wordpiece.learn(dict(counts), size, longest=LONGEST_PIECE))
            | "Write" >> beam.Map(self._write)
        )


class _Given(_WritesVocabulary):
    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = list(lines)

    def expand(self, batches: beam.PCollection) -> beam.PCollection:
        return (
            batches
            | "Nothing" >> beam.combiners.Count.Globally()
            | "Write" >> beam.Map(lambda _: self._write(self._lines))
        )


def _counted(batch: tuple[Any, ...]) -> Iterator[tuple[str, int]]:
    counts = Counter(batch[0].tolist())
    return iter((word.decode(errors="replace"), count) for word, count in counts.items())


def _frequency(item: tuple[str, int]) -> tuple[int, str]:
    return item[1], item[0]


def read_published(path: str | Path) -> list[str]:
    """The lines of a `vocab.txt`, or the vocabulary inside a `tokenizer.json` of kind WordPiece.

    Raises:
        TrainingError: neither is understood, or a special token is missing.
    """
    # As bytes: reading as text would take a carriage return alone for a line's end.
    text = Path(path).read_bytes().decode("utf-8")
    lines = _from_json(text, path) if Path(path).suffix == ".json" else _split(text)
    for token in _SPECIAL.values():
        if token not in lines:
            raise TrainingError(
                f"A WordPiece vocabulary lacks the token {token}",
                place=str(path),
                remedy="Give the vocab.txt or tokenizer.json that the weights came with.",
            )
    return lines


def _split(text: str) -> list[str]:
    """Lines by line feeds alone: a token may be one of the other characters that end a line in Unicode."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _from_json(text: str, path: str | Path) -> list[str]:
    try:
        model = json.loads(text)["model"]
        ids = {str(token): int(number) for token, number in model["vocab"].items()}
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise TrainingError(
            f"A tokenizer.json is not understood: {error}", place=str(path), remedy="Give its vocab.txt."
        ) from error
    if model.get("type", "WordPiece") != "WordPiece" or sorted(ids.values()) != list(range(len(ids))):
        raise TrainingError(
            f"A tokenizer of kind {model.get('type')!r} cannot be read; expected WordPiece", place=str(path)
        )
    return sorted(ids, key=ids.__getitem__)


def published_specials(lines: Sequence[str]) -> Specials:
    """Where a published vocabulary keeps its special tokens."""
    return Specials(**{name: lines.index(token) for name, token in _SPECIAL.items()}, first=0)
