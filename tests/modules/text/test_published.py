"""Published weights: the same answers as the library that wrote them, and errors that name what is wrong.

The expected numbers are those of TFBertModel (transformers 4.49) with the weights of `published.tensors()`,
and of BertBackbone (keras-hub 0.32), which takes GELU by its approximation.
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

TRANSFORMERS = (
    [1.261994, 0.928398, -1.210413, -0.955289, 0.527981, -0.115656, 0.361647, -0.968321],
    [1.090043, 0.813069, -1.182323, -0.88261, 0.567374, 0.003123, 0.336269, -1.008725],
    [1.850884, 0.779116, -0.701829, -1.273883, 0.43914, 0.164573, -0.107956, -1.119778],
    [1.721946, 0.685928, -0.876002, -1.067223, 0.493511, 0.116682, 0.046688, -1.107003],
)
KERAS_HUB = (
    [1.262245, 0.928338, -1.210532, -0.955212, 0.527898, -0.115601, 0.361749, -0.968328],
    [1.090049, 0.813067, -1.182504, -0.882493, 0.56733, 0.00317, 0.336378, -1.008706],
    [1.851306, 0.779153, -0.701931, -1.273818, 0.439073, 0.164492, -0.108012, -1.119751],
    [1.722106, 0.686014, -0.87619, -1.067135, 0.493482, 0.116656, 0.046636, -1.106957],
)
"""First state and mean of the text; last and mean of the pair."""


@pytest.fixture
def folder(tmp_path):
    return small.write(tmp_path / "bert")


@pytest.mark.parametrize(
    ("written", "expected"), [(small.write, TRANSFORMERS), (small.write_preset, KERAS_HUB)]
)
def test_answers_are_those_of_the_published_model(tmp_path, written, expected) -> None:
    folder = written(tmp_path / "bert")
    assert vocabulary.read_published(published.vocabulary_file(folder)) == small.VOCABULARY
    found = published.read(folder)
    encoder = text_model.encoder_layers(found.shape, found.vocabulary, dropout=0.1)
    ids = keras.Input((None,))
    model = keras.Model(ids, text_model.encode(encoder, ids))
    found.load(encoder)
    hidden = np.asarray(model(IDS, training=False))
    found_states = (hidden[0, 0], hidden[0].mean(axis=0), hidden[1, 4], hidden[1, :5].mean(axis=0))
    for states, those in zip(found_states, expected, strict=True):
        np.testing.assert_allclose(states, those, atol=1e-5)


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


def test_what_a_configuration_leaves_out_is_as_it_is_by_default(folder) -> None:
    kept = {
        key: small.CONFIG[key] for key in small.CONFIG if key not in ("layer_norm_eps", "type_vocab_size")
    }
    before = published.read(folder).shape
    (folder / "config.json").write_text(json.dumps(kept))
    assert published.read(folder).shape == before


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


def test_a_preset_that_cannot_be_read_says_what_is_wrong(tmp_path) -> None:
    folder = small.write_preset(tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "class_name": "RobertaBackbone"}))
    with pytest.raises(TrainingError, match="Only presets of a BertBackbone") as error:
        published.read(folder)
    assert "'RobertaBackbone'" in str(error.value) and "save_to_preset" not in str(error.value.headline)
    config["config"]["num_layers"] = 3
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(TrainingError, match="The weights of a preset cannot be read"):
        published.read(folder)
    (folder / "model.weights.h5").write_bytes(b"no HDF5")
    with pytest.raises(TrainingError, match="The weights of a preset cannot be read") as error:
        published.read(folder)
    assert "save_to_preset(FOLDER)" in str(error.value.remedy)
    (folder / "config.json").write_text("[]")
    with pytest.raises(TrainingError, match="The configuration of a preset cannot be read"):
        published.read(folder)
