"""A small servable, written with plain TensorFlow.

bulk.run(bulk.Request(write_lengths(tmp_path / "lengths" / "1"), source, output))
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import tensorflow as tf

from components.serving import manifest
from components.serving.servable import Servable, Signature


class _Lengths(tf.Module):
    """`long` for inputs of over 5 bytes, else `short`; Examples must have an image."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "raw")])
    def raw(self, raw: tf.Tensor) -> dict[str, tf.Tensor]:
        long = tf.minimum(tf.cast(tf.strings.length(raw), tf.float32) / 10.0, 1.0)
        scores = tf.stack([long, 1.0 - long], axis=1)
        return {"scores": scores, "classes": tf.tile([["long", "short"]], [tf.shape(scores)[0], 1])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.raw(
            tf.io.parse_example(examples, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
        )


def write_lengths(folder: Path) -> Path:
    """Writes a pushed version that takes examples, images and texts; returns its folder."""
    module = _Lengths()
    names = {"serving_default": "examples", "predict_image": "raw", "predict_text": "raw"}
    tf.saved_model.save(
        module,
        str(folder),
        signatures={name: getattr(module, attribute) for name, attribute in names.items()},
    )
    signatures = tuple(Signature(name, argument) for name, argument in names.items())
    servable = Servable("saved_model", "identity", ("long", "short"), signatures, "scores", "classes")
    manifest.write(folder, {"model": "lengths", "run": "lengths-1", "servable": asdict(servable)})
    return folder
