"""Experiments: strict, with the nearest known name."""

from __future__ import annotations

import json
import re

import pytest

from modules.hparams.families import field_names
from modules.hparams.image import ImageModelHparams
from modules.hparams.train import TrainHparams
from pipelines import config, create, model_stages, train_stages
from pipelines.errors import ConfigError, NotFoundError


def test_every_experiment_that_ships_loads_and_says_what_it_takes() -> None:
    assert "digits" in config.names()
    for name in config.names():
        experiment = config.load(name)
        assert experiment.name == name
        assert experiment.description and experiment.needs and experiment.takes


def test_overrides_reach_nested_values_with_their_types() -> None:
    experiment = config.load(
        "digits",
        [
            "train.batch_size=16",
            "model.filters=[8, 16]",
            "beam.args=[--direct_num_workers=2]",
            "push.model=m",
        ],
    )
    assert experiment.train.batch_size == 16
    assert experiment.model.filters == [8, 16]
    assert experiment.beam.args == ["--direct_num_workers=2"]
    assert experiment.model_name == "m"


@pytest.mark.parametrize(
    ("override", "headline", "remedy"),
    [
        ("train.epoch=3", "Unknown key 'train.epoch'", "Did you mean 'epochs'?"),
        ("model.heigth=3", "Unknown key 'model.heigth'", "Did you mean 'height'?"),
        ("model.family=sound", "", ""),
        ("model.height=0", "greater than or equal to 4. Received: height=0", ""),
        ("trian.epochs=3", "Unknown key 'trian'", "Did you mean 'train'?"),
        ("train.epochs=many", "Received: epochs='many'", ""),
        ("train.epochs=0", "greater than or equal to 1. Received: epochs=0", ""),
        ("train.batch_size=2.5", "Received: batch_size=2.5", ""),
        ("rewrite.objective=speed", "Received: objective='speed'", ""),
        ("data.path=/some", "exactly one of data.source and data.path", ""),
        ("train.epochs", "should look like key=value", "--set train.batch_size=64"),
        ("name.first=x", "is a value, not a group", ""),
        ("train=[", "not understood", ""),
        (
            "validation.fail_on=[enum_type_unexpected_string_value]",
            "Did you mean 'enum_type_unexpected_string_values'",
            "",
        ),
    ],
)
def test_mistakes_are_named(override: str, headline: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load("digits", [override])
    assert headline in caught.value.headline
    assert remedy in caught.value.remedy
    assert "--set" in caught.value.place


@pytest.mark.parametrize(
    ("overrides", "headline"),
    [
        (["model.name=cnn", "model.width=0"], "model.width must be at least 1 for a cnn"),
        (["model.name=transformer", "model.width=10"], "model.width must be a multiple of model.heads"),
        (["model.lora={rank: 2}"], "model.lora needs model.name: transformer"),
        (["model.weights=bert"], "model.weights needs model.name: transformer"),
        (["model.character_ngrams=[3, 2]"], "model.character_ngrams must ascend"),
        (["model.word_ngrams=0", "model.character_ngrams=[0, 0]"], "model.word_ngrams or model.character"),
        (["model.chunk={tokens: 16, overlap: 15}"], "model.chunk.overlap must be smaller"),
        (["model.freeze=some"], "Bad value"),
        (["model.lora={targets: [keys]}"], "Bad value"),
    ],
)
def test_mistakes_about_text_models_are_named(overrides: list[str], headline: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load("intents", overrides)
    assert headline in caught.value.headline


def test_what_is_not_said_of_a_text_model_goes_by_its_network_and_weights() -> None:
    assert config.load("intents").model.width == 0
    assert config.load("intents", ["model.name=cnn"]).model.width == 128
    published = config.load("intents-lora").model
    assert (published.unicode, published.strip_accents) == ("nfd", True)
    assert config.load("intents-lora", ["model.strip_accents=false"]).model.strip_accents is False


def test_a_mistake_in_a_file_names_the_file(tmp_path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("data: {source: digits}\ntrain: {learning_rat: 0.1}\n")
    with pytest.raises(ConfigError) as caught:
        config.load(str(path))
    assert caught.value.place == f"{path}, train.learning_rat"
    assert caught.value.remedy == "Did you mean 'learning_rate'?"


@pytest.mark.parametrize("text", ["a: [1", "- a\n- b", "data: !!python/object/apply:os.getcwd []", "a: \xff"])
def test_files_that_are_no_experiment(tmp_path, text: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError):
        config.load(str(path))


def test_unknown_names_suggest_the_nearest(tmp_path) -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'digits'"):
        config.load("digit")
    with pytest.raises(NotFoundError, match="no such experiment file"):
        config.load(str(tmp_path / "none.yaml"))


def test_a_server_to_push_to_is_named_by_host_or_url() -> None:
    assert config.load("digits").push.server is None
    by_port = config.load("digits", ["push.server.rest_port=9000"]).push.server
    assert by_port is not None and by_port.rest_url == "http://127.0.0.1:9000"
    by_url = config.load("digits", ["push.server.url=https://models.example.com"]).push.server
    assert by_url is not None and by_url.rest_url == "https://models.example.com"
    with pytest.raises(ConfigError, match=r"push\.server\.rest_prot") as caught:
        config.load("digits", ["push.server.rest_prot=1"])
    assert caught.value.remedy == "Did you mean 'rest_port'?"


def test_the_file_name_is_the_default_name(tmp_path) -> None:
    path = tmp_path / "my-photos.yaml"
    path.write_text("data: {path: x}\n")
    assert config.load(str(path)).name == "my-photos"


def test_settings_and_hyperparameters_have_the_same_names() -> None:
    assert set(train_stages.Train.model_fields) == set(field_names(TrainHparams))
    model = set(model_stages.ImageModel.model_fields) - {"family"}
    assert model == set(field_names(ImageModelHparams))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ('rewrite.candidates=["floot16"]', "no technique 'floot16'. Did you mean 'float16'?"),
        ('rewrite.candidates=["tflite"]', "the target tf_serving does not load tflite; it loads frozen"),
        ("rewrite.fixed=frozne", "fixed is 'frozne', which is not among the candidates: frozen, float16"),
        ("rewrite.max_slice_drop=0", "give more than 0: 1 point needs 299 examples of a class"),
    ],
)
def test_candidates_and_limits_that_cannot_be(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as raised:
        config.load("digits", [override])
    assert raised.value.place.startswith("--set, rewrite")
    assert "[" not in raised.value.place


def test_a_target_that_loads_tflite_takes_it() -> None:
    overrides = ["rewrite.target=tf_serving_tflite", 'rewrite.candidates=["tflite"]']
    assert config.load("digits", overrides).rewrite.candidates == ["tflite"]


def test_a_bare_on_or_off_is_the_word_and_not_a_truth_value() -> None:
    """YAML reads them as true and false."""
    train = config.load("digits", ["train.xla=off", "train.onednn=on", "train.cache=off"]).train
    assert (train.xla, train.onednn, train.cache) == ("off", "on", "off")
    with pytest.raises(ConfigError, match="Input should be 'auto', 'memory', 'disk' or 'off'"):
        config.load("digits", ["train.cache=on"])


def test_a_bare_on_is_the_key_that_it_looks_like(tmp_path) -> None:
    (tmp_path / "cats.yaml").write_text("data: {path: a}\nretry: {Trainer: {count: 2, on: [crash]}}\n")
    assert config.load(str(tmp_path / "cats.yaml")).retry["Trainer"].on == ["crash"]


def test_a_file_that_was_named_without_its_ending(tmp_path, monkeypatch) -> None:
    (tmp_path / "signs.yaml").write_text("data: {path: a}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match=r"Did you mean the file signs\.yaml\?"):
        config.load("signs")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model.family=text", "model.name=transformer", "model.lora={}", "train.prune={}"], "model.lora"),
        (["model.family=tabular", "model.task=regression", "train.distill={teacher: a}"], "needs classes"),
        (["train.quantize_aware={}", "train.recompute=true"], "train.recompute does not go with"),
        (["model.unfreeze=[{freeze: all, epochs: 1, learning_rate: 0.1}]"], "give none, or a number"),
    ],
)
def test_what_does_not_go_together(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config.from_mapping({"name": "e", "data": {"path": "a.csv"}}, overrides)


@pytest.mark.parametrize(
    "model", ["{family: tabular, task: regression}", "{family: tabular}", "{family: text}"]
)
def test_what_was_recorded_is_read_again(model: str) -> None:
    """As a run's resumption, its reproduction and a cluster's first container do."""
    experiment = config.from_mapping({"name": "e", "data": {"path": "a.csv"}}, [f"model={model}"])
    again = config.from_mapping(json.loads(config.to_json(experiment)))
    assert again == experiment
    tuned = ["tune={space: {train.learning_rate: {min: 0.001, max: 0.01}}}"]
    assert config.from_mapping(json.loads(config.to_json(experiment)), tuned).tune is not None


@pytest.mark.parametrize(
    ("experiment", "overrides", "loss"),
    [
        ("digits", [], "cross_entropy"),
        ("intents", [], "cross_entropy"),
        ("taxi", [], "cross_entropy"),
        ("taxi", ["model.task=regression"], "mse"),
        ("taxi", ["model.task=regression", "train.loss=huber"], "huber"),
    ],
)
def test_every_familys_trainer_has_the_loss_of_its_task(
    experiment: str, overrides: list[str], loss: str
) -> None:
    told = create._hparams(config.load(experiment, overrides))
    assert TrainHparams.from_config(told["train"]).loss == loss
