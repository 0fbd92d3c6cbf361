"""One evaluation by one engine, for `bench.overhead`.

    python -m bench.overhead_evaluation make MODEL ROWS
    python -m bench.overhead_evaluation tfma|vectorized MODEL OUT

Accuracy and examples, overall and per class, of a small network over rows of
two features; `OUT/cost.json` has the CPU seconds without imports.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tfx.components  # noqa: F401  TFMA wants to be imported after it

from components.evaluator import analyze, predict
from components.serving.servable import VERSION_FOLDER, Servable, Signature
from pipelines import evaluation
from pipelines.config import Experiment

CLASSES = ("a", "b", "c")
SHARDS = 4


def make(folder: Path, rows: int) -> None:
    """A servable and `rows` Examples."""
    module = tf.Module()
    module.weights = tf.Variable(np.random.default_rng(0).normal(size=(2, 3)), dtype=tf.float32)
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in ("x", "y")}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, spec)
        scores = tf.nn.softmax(tf.stack([parsed["x"], parsed["y"]], 1) @ module.weights)
        classes = tf.tile(tf.constant([CLASSES]), [tf.shape(scores)[0], 1])
        return {"scores": scores, "classes": classes}

    tf.saved_model.save(module, str(folder / VERSION_FOLDER), signatures={"serving_default": serve})
    signature = Signature("serving_default", "examples")
    Servable("saved_model", "identity", CLASSES, (signature,), "scores", "classes").write(folder)
    chance = random.Random(1)
    for shard in range(SHARDS):
        path = str(folder / f"examples-{shard}.gz")
        with tf.io.TFRecordWriter(path, "GZIP") as writer:
            for _ in range(rows // SHARDS):
                writer.write(_example(chance).SerializeToString())


def _example(chance: random.Random) -> tf.train.Example:
    example = tf.train.Example()
    for name in ("x", "y"):
        example.features.feature[name].float_list.value.append(chance.gauss(0, 1))
    example.features.feature["label"].bytes_list.value.append(chance.choice(CLASSES).encode())
    return example


def evaluate(engine: str, folder: Path, out: Path) -> None:
    """The Evaluator node's work, from files to a summary."""
    experiment = Experiment.model_validate({"name": "e", "data": {"source": "digits"}})
    files = sorted(map(str, folder.glob("examples-*")))
    config = analyze.parse_config(evaluation.eval_config(experiment), has_baseline=False)
    before = _cpu_s()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        models = predict.Models(str(folder), "")
        analyze.analyze(pipeline, files, models, config, "label", str(out), engine)
    summary = analyze.summarize(str(out), has_baseline=False)
    cost = {"cpu_s": _cpu_s() - before, "metrics": summary["metrics"]["candidate"]}
    (out / "cost.json").write_text(json.dumps(cost))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        evaluate(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
