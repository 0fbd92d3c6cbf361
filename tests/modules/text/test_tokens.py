"""Exact outputs of what comes before a text model: normalisation, words, n-grams, pieces, truncation."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from modules.hparams.text import TextInputHparams
from modules.text import tokens, words
from modules.text.normalise import normalise
from modules.text.trainer import split_pairs
from modules.text.wordpiece import learn, pieces_of

DEFAULTS: dict[str, Any] = {
    "text_feature": "text",
    "text_pair_feature": "",
    "label_feature": "label",
    "tokens": "words",
    "unicode": "nfkc",
    "lowercase": True,
    "strip_accents": False,
    "max_tokens": 8,
    "truncation": "head",
    "vocabulary_size": 20,
    "character_ngram": 3,
    "word_ngrams": 2,
    "character_ngrams": (2, 3),
    "buckets": 1000,
}


def hparams(**changes: Any) -> TextInputHparams:
    return TextInputHparams(**{**DEFAULTS, **changes})


def lookup(vocabulary: list[str]) -> Any:
    keys = tf.constant(vocabulary)
    ids = tf.range(len(vocabulary), dtype=tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, ids), -1).lookup


def texts(tensor: tf.Tensor) -> list[Any]:
    def decoded(value: Any) -> Any:
        return [decoded(item) for item in value] if isinstance(value, list) else value.decode()

    return decoded(tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist())


COMPATIBLE = [
    "\uff23\uff41\uff46e\u0301 \ufb01",  # full width, a mark of its own, a ligature
    "e\u0302\u0301",  # two marks on one letter
    "\u1112\u1161\u11ab\uae00",  # a syllable in jamo, and one that is whole
    "a\u0301b\u0301\u0301",
    "\u3314 \u00bd \u210c \u2126",
    "\U0001f600 \U0001d400",
    "",
    "plain",
]


@pytest.mark.parametrize(("form", "lowercase"), [("nfkc", False), ("nfkc", True), ("nfd", False)])
def test_normalisation_is_unicodes(form: str, lowercase: bool) -> None:
    expected = [
        unicodedata.normalize(form.upper(), text.lower() if lowercase else text) for text in COMPATIBLE
    ]
    if lowercase:
        expected = [text.lower() for text in expected]
    assert texts(normalise(tf.constant(COMPATIBLE), form=form, lowercase=lowercase)) == expected


def test_accents_go_from_whole_letters_and_letters_with_marks() -> None:
    given = tf.constant(["\u00c9te\u0301 \u1ebe na\u00efve \ufb01", "\u0130"])
    assert texts(normalise(given, form="nfd", lowercase=True, strip_accents=True)) == [
        "ete e naive \ufb01",
        "i",
    ]
    assert texts(normalise(given, form="nfkc", strip_accents=True)) == ["Ete E naive fi", "I"]


def test_bytes_that_are_no_text_become_the_replacement_character() -> None:
    assert texts(normalise(tf.constant([b"a\xffB", b"\xc3"]), lowercase=True)) == ["a\ufffdb", "\ufffd"]


def test_nothing_is_changed_by_the_form_none() -> None:
    assert texts(normalise(tf.constant(["\uff23e\u0301"]), form="none")) == ["\uff23e\u0301"]


def test_words_stand_apart_from_punctuation_symbols_and_ideographs() -> None:
    given = tf.constant(["don't  stop\u00a0it", "\u20ac50\u65e5\u672c a\u200bb", ""])
    assert texts(words.words(given)) == [
        ["don", "'", "t", "stop", "it"],
        ["\u20ac", "50", "\u65e5", "\u672c", "ab"],
        [],
    ]
    assert texts(words.words(tf.constant(["\u20ac5 $5"]), symbols=False)) == [["\u20ac5", "$", "5"]]


def test_ngrams_of_characters_and_words() -> None:
    assert texts(words.characters(tf.constant(["abcd", "\u00e9", ""]), 3)) == [["abc", "bcd"], ["\u00e9"], []]
    split = words.words(tf.constant(["hi you", ""]))
    assert texts(words.word_ngrams(split, 2)) == [["hi", "you", "hi you"], []]
    assert texts(words.character_ngrams(split, (2, 3))) == [
        [" h", "hi", "i ", " hi", "hi ", " y", "yo", "ou", "u ", " yo", "you", "ou "],
        [],
    ]


def test_pieces_are_learned_by_the_most_frequent_pair() -> None:
    pieces = learn({"low": 5, "lower": 2, "newest": 6, "widest": 3}, size=60)
    assert pieces[:4] == ["##e", "##w", "##s", "##t"]
    assert pieces[11:15] == ["##es", "##est", "##ow", "low"]
    assert {"newest", "widest", "lower"} <= set(pieces)
    assert learn({"low": 5, "lower": 2}, size=3) == pieces_within({"low": 5, "lower": 2}, 3)


def pieces_within(counts: dict[str, int], size: int) -> list[str]:
    return learn(counts, 1000)[:size]


def test_pieces_of_a_word_occur_in_order_whatever_else_is_counted() -> None:
    """A vocabulary that was learned from words can write every one of them."""
    counts = {"banking": 3, "bank": 9, "ing": 2, "king": 4}
    vocabulary = learn(counts, size=100)
    cut = pieces_of(tf.ragged.constant([list(counts)]), lookup(vocabulary), unknown=-7)
    spelled = "".join(vocabulary[index].removeprefix("##") for index in cut.to_list()[0])
    assert spelled == "".join(counts)


PIECES = ["low", "##er", "##e", "##r", "##est", "new", "n", "\u65e5"]


def test_words_are_cut_into_their_longest_pieces() -> None:
    split = tf.ragged.constant([["lower", "newest", "zoo"], [], ["n\u00e9", "\u65e5", "x" * 101, "low"]])
    cut = tf.function(lambda given: pieces_of(given, lookup_pieces, unknown=99))
    lookup_pieces = lookup(PIECES)
    assert cut(split).to_list() == [[0, 1, 5, 4, 99], [], [99, 7, 99, 0]]


def test_a_batch_without_words_has_no_pieces() -> None:
    empty = tf.ragged.constant([[]], dtype=tf.string)
    assert pieces_of(empty, lookup(PIECES), unknown=99).to_list() == [[]]


@pytest.mark.parametrize(("side", "kept"), [("head", [0, 1, 2]), ("tail", [4, 5, 6]), ("both", [0, 1, 6])])
def test_truncation(side: str, kept: list[int]) -> None:
    ragged = tf.ragged.constant([list(range(7)), [8, 9], []], dtype=tf.int64)
    assert tokens.truncate(ragged, 3, side).to_list() == [kept, [8, 9], []]


def test_ids_have_their_frame_and_unknown_words_an_id() -> None:
    ids = tokens.encode(
        tf.constant(["A b c", "a b a b a b a b", ""]), None, hparams(), lookup(["a", "b"]), tokens.OWN
    )
    assert ids.to_list() == [[2, 5, 6, 1, 3], [2, 5, 6, 5, 6, 5, 6, 3], [2, 3]]
    assert ids.dtype == tf.int64


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a a a a", "b", [2, 5, 5, 5, 5, 3, 6, 3]),  # the room that the second leaves goes to the first
        ("a a a a a", "b b b b b", [2, 5, 5, 5, 3, 6, 6, 3]),
        ("a", "b b b b b b", [2, 5, 3, 6, 6, 6, 6, 3]),
        ("", "b", [2, 3, 6, 3]),
    ],
)
def test_pairs_share_the_room(first: str, second: str, expected: list[int]) -> None:
    ids = tokens.encode(
        tf.constant([first]), tf.constant([second]), hparams(), lookup(["a", "b"]), tokens.OWN
    )
    assert ids.to_list() == [expected]


def test_pairs_in_one_string_part_at_the_first_tab() -> None:
    first, second = split_pairs(tf.constant(["a\tb\tc", "a", "", "\tb"]))
    assert texts(first) == ["a", "a", "", ""]
    assert texts(second) == ["b\tc", "", "", "b"]


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece", "ngrams"])
@pytest.mark.parametrize("end", ["a\t", "\ta", "a\tb", "a\t\tb"])
def test_a_tab_counts_as_a_space(kind: str, end: str) -> None:
    """So a tab can be written as a space in the first text of a pair, which a tab would end."""
    given = tf.constant([end, end.replace("\t", " ")])
    known = None if kind == "ngrams" else lookup(["a", "b", " "])
    with_tab, with_space = tokens.encode(given, None, hparams(tokens=kind), known, tokens.OWN).to_list()
    assert with_tab == with_space


def test_hashed_ngrams_are_buckets_from_one_on_and_sides_of_a_pair_differ() -> None:
    single = tokens.encode(tf.constant(["ab"]), None, hparams(tokens="ngrams"), None, tokens.OWN).to_list()[0]
    named = ["w ab", "c  a", "c ab", "c b ", "c  ab", "c ab "]
    expected = (tf.strings.to_hash_bucket_fast(named, 1000) + 1).numpy().tolist()
    assert single == expected
    pair = tokens.encode(
        tf.constant(["ab"]), tf.constant(["ab"]), hparams(tokens="ngrams"), None, tokens.OWN
    ).to_list()[0]
    assert pair[: len(single)] == single
    assert not set(pair[len(single) :]) & set(single)
    only_words = hparams(tokens="ngrams", character_ngrams=(0, 0))
    assert len(tokens.encode(tf.constant(["a b"]), None, only_words, None, tokens.OWN).to_list()[0]) == 3


def test_a_text_means_the_same_alone_and_among_others() -> None:
    given = ["Lower \u00c9t\u00e9", "new", "", "lowest low"]
    for kind in ("words", "characters", "wordpiece", "ngrams"):
        settings = hparams(tokens=kind, max_tokens=32)
        find = None if kind == "ngrams" else lookup([*PIECES, "low", "wer"][1:])
        together = tokens.encode(tf.constant(given), None, settings, find, tokens.OWN).to_list()
        alone = [
            tokens.encode(tf.constant([text]), None, settings, find, tokens.OWN).to_list()[0]
            for text in given
        ]
        assert together == alone
        assert np.all([len(row) <= 32 for row in together]) or kind == "ngrams"
