"""What the settings of texts become for Transform and the trainer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modules.hparams.text import TextHparams, TextInputHparams
from pipelines import config, text_family
from pipelines.errors import InputError


@pytest.fixture
def published(tmp_path) -> Path:
    for name in ("config.json", "model.safetensors", "vocab.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("experiment", ["intents", "languages"])
def test_experiments_that_ship_are_read_by_the_trainer(experiment: str) -> None:
    loaded = config.load(experiment)
    told = json.loads(json.dumps(text_family.trainer_config(loaded, loaded.model)))
    hparams = TextHparams.from_config(told)
    assert hparams.inputs.tokens == "ngrams"
    assert hparams.inputs.label_feature == loaded.data.label
    assert hparams.inputs.character_ngrams == tuple(loaded.model.character_ngrams)
    assert hparams.model.pretrain is None


def test_parts_of_a_transformer_reach_the_trainer() -> None:
    loaded = config.load(
        "intents",
        [
            "model.name=transformer",
            "model.freeze=2",
            "model.chunk={tokens: 32, overlap: 8}",
            "model.pretrain={epochs: 3, whole_words: true}",
            "model.lora={rank: 4, targets: [key]}",
            "data.text_pair=other",
        ],
    )
    hparams = TextHparams.from_config(text_family.trainer_config(loaded, loaded.model))
    assert hparams.inputs.text_pair_feature == "other"
    assert hparams.inputs.tokens == "wordpiece"
    assert hparams.model.freeze == "2"
    assert hparams.model.width == 128
    assert hparams.model.chunk is not None and hparams.model.chunk.overlap == 8
    assert hparams.model.pretrain is not None and hparams.model.pretrain.whole_words
    assert hparams.model.lora is not None and hparams.model.lora.targets == ("key",)


def test_transform_is_told_of_published_weights_only_their_vocabulary(published) -> None:
    def told() -> tuple[TextInputHparams, TextHparams]:
        loaded = config.load("intents-lora", [f"model.weights={published}"])
        return (
            TextInputHparams.from_config(text_family.transform_config(loaded, loaded.model)),
            TextHparams.from_config(text_family.trainer_config(loaded, loaded.model)),
        )

    before, trained_before = told()
    assert before.vocabulary_file == str(published / "vocab.txt")
    (published / "model.safetensors").write_text("other weights")
    after, trained_after = told()
    assert after == before  # so Transform does not run again
    assert trained_after.model.weights_digest != trained_before.model.weights_digest
    (published / "vocab.txt").write_text("other words")
    assert told()[0].vocabulary_digest != before.vocabulary_digest


def test_what_a_folder_of_weights_lacks_is_named(published) -> None:
    (published / "vocab.txt").unlink()
    (published / "config.json").unlink()
    loaded = config.load("intents-lora", [f"model.weights={published}"])
    with pytest.raises(InputError, match=r"lacks config\.json, vocab\.txt"):
        text_family.trainer_config(loaded, loaded.model)
