"""From raw texts to an exported model: the same answers by every way, for plain TensorFlow too."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.serving import pairs
from modules import class_labels, contract
from modules.errors import TrainingError
from modules.hparams.text import LoraHparams, PretrainHparams
from modules.text import preprocessing, tokens, trainer
from tests.modules.text.small import MODEL
from tests.modules.text.test_tokens import DEFAULTS

WORDS = {"cat": "purr meow whisker", "dog": "bark woof fetch", "owl": "hoot night feather"}
ROWS = [
    {
        "text": f"{'The ' * (number % 3)}{words.split()[number % 3]}\t{number}",
        "reply": f"so\tit {words.split()[number % 2]}",
        "label": label,
    }
    for label, words in WORDS.items()
    for number in range(12)
]
ASKED = ["The meow", "BARK bark 7", "hoot", "\uff4d\uff45\uff4f\uff57 unheard-of", ""]

KINDS: dict[str, dict[str, Any]] = {
    "ngrams": {"tokens": "ngrams", "buckets": 256},
    "wordpiece": {"tokens": "wordpiece", "vocabulary_size": 60},
    "pairs": {"tokens": "ngrams", "buckets": 256, "text_pair_feature": "reply"},
}
NETWORKS = {"ngrams": "ngrams", "cnn": "wordpiece", "transformer": "wordpiece"}
"""Network -> the kind of tokens that it reads."""

# Loads the model as any server would, and prints the scores of the texts that it is given.
PLAIN = """
import json, sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
texts = json.loads(sys.argv[2])
answer = model.signatures["predict_text"](text=tf.constant(texts))
examples = [
    tf.train.Example(features=tf.train.Features(feature={
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
    })).SerializeToString()
    for text in texts
]
other = model.signatures["serving_default"](examples=tf.constant(examples))
assert not any(name.split(".")[0] in ("modules", "components", "pipelines") for name in sys.modules)
print(json.dumps([answer["scores"].numpy().tolist(), other["scores"].numpy().tolist()]))
"""


def transform(folder: Path, inputs: dict[str, Any]) -> None:
    """Transform's output and the transformed examples, as TFX lays them out."""
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.coders import example_proto_coder
    from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

    names = [name for name in ("text", inputs["text_pair_feature"], "label") if name]
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))
    with tft_beam.Context(temp_dir=str(folder / "temporary")):
        function = functools.partial(preprocessing.preprocessing_fn, custom_config=inputs)
        raw = [{name: row[name] for name in names} for row in ROWS]
        (rows, made), graph = (raw, metadata) | tft_beam.AnalyzeAndTransformDataset(function)
        graph | "Write" >> tft_beam.WriteTransformFn(str(folder / "transform"))
    metadata_io.write_metadata(metadata, str(folder / "transform" / "metadata"))
    coder = example_proto_coder.ExampleProtoCoder(made.schema)
    for split, chosen in (("train", rows), ("validation", rows[::4])):
        with tf.io.TFRecordWriter(str(folder / f"{split}.gz"), "GZIP") as writer:
            for row in chosen:
                writer.write(coder.encode(row))


def inputs_of(kind: str) -> dict[str, Any]:
    return {**DEFAULTS, "max_tokens": 16, **KINDS[kind]}


def plain(value: Any) -> Any:
    """As JSON has it."""
    return asdict(value) if is_dataclass(value) else value


def run_trainer(read: Path, folder: Path, config: dict[str, Any]) -> None:
    """As TFX's Trainer does, on what `transform` wrote."""
    trainer.run_fn(
        SimpleNamespace(
            custom_config=config,
            transform_graph_path=str(read / "transform"),
            base_model=None,
            train_files=[str(read / "train.gz")],
            eval_files=[str(read / "validation.gz")],
            serving_model_dir=str(folder / "Format-Serving"),
            model_run_dir=str(folder / "run"),
        )
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Transforms the texts, once for each kind of tokens; returns the folder."""

    @functools.cache
    def make(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(f"{kind}-data")
        transform(folder, inputs_of(kind))
        return folder

    return make


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """Trains a network on the transformed texts; returns the model's folder."""

    @functools.cache
    def train(name: str, epochs: int = 6, kind: str = "", **model: Any) -> Path:
        kind = kind or NETWORKS[name]
        folder, read = tmp_path_factory.mktemp(name), data(kind)
        settings = {
            "epochs": epochs, "batch_size": 16, "learning_rate": 0.03, "xla": "off", "precision": "float32",
            "tensorboard": False, "strategy": "one_device",
        }  # fmt: skip
        config = {
            "inputs": inputs_of(kind),
            "model": {
                **MODEL,
                "layers": 1,
                "name": name,
                **{key: plain(value) for key, value in model.items()},
            },
            "train": settings,
        }
        run_trainer(read, folder, config)
        return folder

    return train


def test_transform_gives_pieces_that_spell_the_text_and_labels(data) -> None:
    import tensorflow_transform as tft

    folder = data("wordpiece")
    output = tft.TFTransformOutput(str(folder / "transform"))
    vocabulary = [line.decode() for line in output.vocabulary_by_name(tokens.VOCABULARY)]
    assert len(vocabulary) <= 60
    spec = output.transformed_feature_spec()
    assert spec[tokens.TOKENS] == tf.io.VarLenFeature(tf.int64)
    records = tf.data.TFRecordDataset(str(folder / "train.gz"), "GZIP")
    row = tf.io.parse_single_example(next(iter(records.skip(1))), spec)
    first, *ids, last = tf.sparse.to_dense(row[tokens.TOKENS]).numpy().tolist()
    assert (first, last) == (2, 3)
    assert "".join(vocabulary[index - 5].removeprefix("##") for index in ids) == "themeow1"
    classes = class_labels.read(output)
    assert classes.names[int(row["label"])] == "cat"
    assert classes.counts == [12, 12, 12]


@pytest.mark.parametrize("network", NETWORKS)
def test_served_answers_are_those_of_training(data, run, network: str) -> None:
    """Raw texts through the served graph, and the rows that training read through the Keras model."""
    folder = run(network, width=0 if network == "ngrams" else 8)
    history = json.loads((folder / "run" / contract.HISTORY_FILE).read_text())["history"]
    assert history["loss"][-1] < history["loss"][0]
    model = keras.saving.load_model(folder / contract.KERAS_MODEL)
    served = tf.saved_model.load(str(folder / "Format-Serving"))
    raw = [row["text"] for row in ROWS]
    scores = served.signatures[contract.SIGNATURE_TEXT](text=tf.constant(raw))[contract.OUTPUT_SCORES].numpy()
    trained = np.concatenate([np.asarray(model(row[None])) for row in training_rows(data(NETWORKS[network]))])
    np.testing.assert_allclose(scores, trained, atol=1e-5)


def test_pairs_with_tabs_in_them_are_answered_as_in_training(data, run) -> None:
    folder = run("ngrams", kind="pairs", width=0)
    model = keras.saving.load_model(folder / contract.KERAS_MODEL)
    trained = np.concatenate([np.asarray(model(row[None])) for row in training_rows(data("pairs"))])
    served = tf.saved_model.load(str(folder / "Format-Serving")).signatures[contract.SIGNATURE_TEXT]
    raw = [pairs.joined(row["text"], row["reply"]) for row in ROWS]
    np.testing.assert_allclose(
        served(text=tf.constant(raw))[contract.OUTPUT_SCORES].numpy(), trained, atol=1e-5
    )


def training_rows(folder: Path) -> list[np.ndarray]:
    """The ids that a trainer reads, in order."""
    spec = {tokens.TOKENS: tf.io.VarLenFeature(tf.int64)}
    records = tf.data.TFRecordDataset(str(folder / "train.gz"), "GZIP")
    parsed = (tf.io.parse_single_example(record, spec)[tokens.TOKENS] for record in records)
    return [tf.sparse.to_dense(row).numpy().astype(np.float32) for row in parsed]


def test_plain_tensorflow_answers_the_same(run) -> None:
    """In a process that cannot import our packages: raw texts, examples, and a batch or one by one."""
    folder = run("transformer", width=8)
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(folder / "Format-Serving"), json.dumps(ASKED)],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    by_text, by_example = np.array(json.loads(done.stdout.splitlines()[-1]))
    np.testing.assert_array_equal(by_text, by_example)
    here = tf.saved_model.load(str(folder / "Format-Serving")).signatures[contract.SIGNATURE_TEXT]
    alone = np.concatenate([here(text=tf.constant([text]))[contract.OUTPUT_SCORES].numpy() for text in ASKED])
    np.testing.assert_allclose(by_text, alone, atol=1e-5)


def test_adapters_are_saved_apart_and_merged(run) -> None:
    folder = run(
        "transformer",
        epochs=2,
        pretrain=PretrainHparams(epochs=2, batch_size=16, whole_words=True),
        lora=LoraHparams(2, 4.0, ("query", "outer")),
    )
    from safetensors.numpy import load_file

    adapters = load_file(str(folder / trainer.ADAPTERS))
    assert {name.split("/")[-2] for name in adapters} == {"query", "outer"}
    assert (folder / trainer.ADAPTERS).stat().st_size < 4096
    model = keras.saving.load_model(folder / contract.KERAS_MODEL)
    assert not any("lora" in variable.path for variable in model.variables)
    served = tf.saved_model.load(str(folder / "Format-Serving"))
    scores = served.signatures[contract.SIGNATURE_TEXT](text=tf.constant(ASKED))[contract.OUTPUT_SCORES]
    assert np.isfinite(scores.numpy()).all()


def unsettled(*given: Any, class_count: int, **options: Any) -> keras.Model:
    """A network with a table that is looked up once, as it is built."""
    tokens_in = keras.Input((None,))
    table = keras.layers.Embedding(1, class_count, embeddings_initializer="normal")(keras.ops.arange(1))
    counted = keras.ops.sigmoid(keras.ops.sum(tokens_in, axis=1, keepdims=True))
    return keras.Model(tokens_in, keras.layers.Softmax()(counted * table))


def test_a_network_that_cannot_be_made_anew_is_refused_before_it_trains(data, tmp_path, monkeypatch) -> None:
    """What is trained in 16 bits is served in float32, by another copy."""
    monkeypatch.setattr(trainer.text_model, "build", unsettled)
    config = {
        "inputs": inputs_of("ngrams"),
        "model": {**MODEL, "name": "cnn"},
        "train": {"epochs": 1, "precision": "mixed_bfloat16", "tensorboard": False, "strategy": "one_device"},
    }
    with pytest.raises(TrainingError, match="Two copies of the network"):
        run_trainer(data("ngrams"), tmp_path, config)
    assert not list(tmp_path.iterdir())


def test_a_student_of_texts_is_taught_by_a_model_with_its_vocabulary(data, run, tmp_path) -> None:
    teacher = run("cnn") / "Format-Serving"
    taught = {"distill": {"teacher": str(teacher), "temperature": 2.0, "alpha": 0.5}}
    settings = {"epochs": 1, "xla": "off", "tensorboard": False, "strategy": "one_device", **taught}
    config = {
        "inputs": inputs_of("wordpiece"),
        "model": {**MODEL, "name": "cnn", "width": 4},
        "train": settings,
    }
    run_trainer(data("wordpiece"), tmp_path / "student", config)
    assert (tmp_path / "student" / "Format-Serving" / "saved_model.pb").is_file()
    with pytest.raises(TrainingError, match="makes other numbers of the same examples"):
        run_trainer(data("ngrams"), tmp_path / "other", {**config, "inputs": inputs_of("ngrams")})
