"""Published weights: the same answers as the library that wrote them, and errors that name what is wrong.

The expected numbers are those of TFBertModel (transformers 4.49) with the weights of `published.tensors()`.
"""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.text import model as text_model
from modules.text import published, tokens, vocabulary
from tests.modules.text import published as small
from tests.modules.text.test_tokens import hparams, lookup

IDS = np.array([[3, 6, 7, 11, 9, 8, 4], [3, 1, 4, 6, 4, 0, 0]], np.float32)
"""A text of seven pieces; and a pair of texts, padded by two."""

FIRST = [1.261994, 0.928398, -1.210413, -0.955289, 0.527981, -0.115656, 0.361647, -0.968321]
FIRST_MEAN = [1.090043, 0.813069, -1.182323, -0.88261, 0.567374, 0.003123, 0.336269, -1.008725]
PAIR_LAST = [1.850884, 0.779116, -0.701829, -1.273883, 0.43914, 0.164573, -0.107956, -1.119778]
PAIR_MEAN = [1.721946, 0.685928, -0.876002, -1.067223, 0.493511, 0.116682, 0.046688, -1.107003]


@pytest.fixture
def folder(tmp_path):
    return small.write(tmp_path / "bert")


def test_answers_are_those_of_the_published_model(folder) -> None:
    found = published.read(folder)
    encoder = text_model.encoder_layers(found.shape, found.vocabulary, dropout=0.1)
    ids = keras.Input((None,))
    model = keras.Model(ids, text_model.encode(encoder, ids))
    found.load(encoder)
    hidden = np.asarray(model(IDS, training=False))
    np.testing.assert_allclose(hidden[0, 0], FIRST, atol=1e-5)
    np.testing.assert_allclose(hidden[0].mean(axis=0), FIRST_MEAN, atol=1e-5)
    np.testing.assert_allclose(hidden[1, 4], PAIR_LAST, atol=1e-5)
    np.testing.assert_allclose(hidden[1, :5].mean(axis=0), PAIR_MEAN, atol=1e-5)


def test_ids_are_those_of_its_vocabulary(folder) -> None:
    lines = vocabulary.read_published(published.vocabulary_file(folder))
    settings = hparams(
        tokens="wordpiece", unicode="nfd", strip_accents=True, vocabulary_file="vocab.txt", max_tokens=16
    )
    ids = tokens.encode(
        tf.constant(["L\u00d3Wer, newest \u20ac5 x"]),
        None,
        settings,
        lookup(lines),
        vocabulary.published_specials(lines),
    )
    assert [lines[index] for index in ids.to_list()[0]] == [
        "[CLS]", "low", "##er", ",", "new", "##est", "\u20ac5", "[UNK]", "[SEP]",
    ]  # fmt: skip


def test_a_tokenizer_json_holds_the_same_vocabulary(folder) -> None:
    ids = {line: number for number, line in enumerate(small.VOCABULARY)}
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({"model": {"type": "WordPiece", "vocab": ids}}), encoding="utf-8")
    assert vocabulary.read_published(path) == small.VOCABULARY
    path.write_text(json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}}}))
    with pytest.raises(TrainingError, match="kind 'BPE' cannot be read"):
        vocabulary.read_published(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_line_feeds_end_a_line_of_a_vocabulary(tmp_path, end: str) -> None:
    path = tmp_path / "vocab.txt"
    lines = [*small.VOCABULARY[:5], "\u2028", "\x85", "a\x0cb", *small.VOCABULARY[5:]]
    path.write_bytes(end.join([*lines, ""]).encode())
    assert vocabulary.read_published(path) == lines


def test_more_words_than_embeddings_are_refused_and_fewer_said(folder, capsys) -> None:
    path = folder / "vocab.txt"
    path.write_text(
        path.read_text(encoding="utf-8").rstrip("\n").rpartition("\n")[0] + "\n", encoding="utf-8"
    )
    published.read(folder)
    assert f"for {small.CONFIG['vocab_size']} embeddings" in capsys.readouterr().out
    path.write_text("\n".join([*small.VOCABULARY, "one", "two"]) + "\n", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"lines, and the published weights embed"):
        published.read(folder)


def test_what_is_wrong_with_a_folder_is_named(folder) -> None:
    (folder / "config.json").write_text(json.dumps({**small.CONFIG, "model_type": "gpt2"}))
    with pytest.raises(TrainingError, match="of type bert with gelu"):
        published.read(folder)
    (folder / "config.json").write_text(json.dumps({**small.CONFIG, "intermediate_size": 12}))
    found = published.read(folder)
    encoder = text_model.encoder_layers(found.shape, found.vocabulary, dropout=0.0)
    ids = keras.Input((None,))
    text_model.encode(encoder, ids)
    with pytest.raises(TrainingError, match=r"expected \(8, 12\), received \(8, 16\)"):
        found.load(encoder)
    (folder / "model.safetensors").write_bytes(b"no")
    with pytest.raises(TrainingError, match="cannot be read"):
        published.read(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    with pytest.raises(TrainingError, match=r"lacks the token \[CLS\]"):
        published.read(folder)
    (folder / "vocab.txt").unlink()
    with pytest.raises(TrainingError, match="lacks its vocabulary"):
        published.read(folder)
