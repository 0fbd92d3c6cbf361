"""A servable over taxi-like rows, written with plain TensorFlow; what it says means nothing.

bulk.run(bulk.Request(write_servable(Path("model/1")), rows, answers))
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

NUMBERS = ("fare", "trip_miles", "tips")
TEXTS = ("company", "payment_type")
WIDTH = 64
BINS = 32


def write_servable(folder: Path) -> Path:
    """Writes a version folder with one signature: Examples (B,) string to scores (B, 2) float32."""
    import tensorflow as tf

    from components.serving import manifest
    from components.serving.servable import Servable, Signature

    tf.random.set_seed(5)
    columns = {name: tf.io.FixedLenFeature([], tf.float32, 0.0) for name in NUMBERS}
    columns |= {name: tf.io.FixedLenFeature([], tf.string, "") for name in TEXTS}
    first = tf.constant(tf.random.normal([len(NUMBERS) + len(TEXTS) * BINS, WIDTH], stddev=0.1))
    last = tf.constant(tf.random.normal([WIDTH, 2], stddev=0.1))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def answer(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, columns)
        bins = [tf.one_hot(tf.strings.to_hash_bucket_fast(parsed[name], BINS), BINS) for name in TEXTS]
        wide = tf.concat([tf.stack([parsed[name] for name in NUMBERS], axis=1), *bins], axis=1)
        scores = tf.nn.softmax(tf.nn.relu(wide @ first) @ last)
        return {"scores": scores, "classes": tf.tile([["no", "yes"]], [tf.shape(scores)[0], 1])}

    module = tf.Module()
    module.answer = answer
    tf.saved_model.save(module, str(folder), signatures={"serving_default": answer})
    signatures = (Signature("serving_default", "examples"),)
    servable = Servable("saved_model", "identity", ("no", "yes"), signatures, "scores", "classes")
    manifest.write(folder, {"model": "taxi-like", "run": "made up", "servable": asdict(servable)})
    return folder
