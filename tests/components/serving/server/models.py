"""Small SavedModels that the tests make."""

from __future__ import annotations

import shutil
from pathlib import Path

import tensorflow as tf


def half_plus_two(folder: Path, bias: float = 2.0) -> Path:
    """x / 2 + bias, in a TensorFlow 1 graph with predict, classify and regress signatures."""
    v1 = tf.compat.v1
    signature_def = v1.saved_model.signature_def_utils
    with tf.Graph().as_default(), v1.Session() as session:
        examples = v1.placeholder(tf.string, [None], "tf_example")
        parsed = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        x = v1.placeholder_with_default(parsed, [None, 1], "x")
        half = v1.get_variable("half", initializer=0.5, use_resource=False)
        y = tf.add(x * half, bias, "y")
        labels = tf.fill(tf.shape(y), "half")
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.utils.build_tensor_info
        builder = v1.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": signature_def.predict_signature_def({"x": x}, {"y": y}),
                "regress_x_to_y": signature_def.regression_signature_def(examples, y),
                "classify_x_to_y": signature_def.classification_signature_def(examples, labels, y),
                "classify_scores": signature_def.build_signature_def(
                    {"inputs": info(examples)}, {"scores": info(y)}, "tensorflow/serving/classify"
                ),
            },
        )
        builder.save()
    return folder


class _Kinds(tf.Module):
    """One signature for each thing that a request can hold."""

    @tf.function(
        input_signature=[tf.TensorSpec([None, 2], tf.float32, "a"), tf.TensorSpec([None], tf.int64, "b")]
    )
    def two(self, a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"total": tf.reduce_sum(a, axis=1) + tf.cast(b, tf.float32), "twice": b * 2}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def texts(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"upper": tf.strings.upper(text), "same_bytes": text}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, "x")])
    def floats(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.identity(x)}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32, "x")])
    def ints(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.identity(x)}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.bool, "x")])
    def bools(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.identity(x)}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float16, "x")])
    def halves(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.identity(x)}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def matrix(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.linalg.matvec(x, tf.constant([1.0, 2.0, 3.0]))}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "steps")])
    def slow(self, steps: tf.Tensor) -> dict[str, tf.Tensor]:
        """Takes time in proportion to `steps`: a fraction of a millisecond each."""
        value = tf.eye(256) * 0.5
        for _ in tf.range(tf.reduce_max(steps)):
            value = tf.linalg.matmul(value, value) + 0.1 * tf.eye(256)
        return {"y": tf.cast(steps, tf.float32) + 0.0 * value[0, 0]}


def kinds(folder: Path) -> Path:
    """See `_Kinds`; `two` is serving_default."""
    module = _Kinds()
    signatures = {
        name: getattr(module, name) for name in ("texts", "floats", "ints", "bools", "halves", "matrix")
    }
    tf.saved_model.save(
        module, str(folder), signatures={"serving_default": module.two, "slow": module.slow, **signatures}
    )
    return folder


class _Number(tf.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = tf.Variable(float(number))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def answer(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"number": tf.zeros_like(x) + self.number}


def numbered(folder: Path, number: int) -> Path:
    """Answers its own number, so that a test sees which version answered."""
    module = _Number(number)
    tf.saved_model.save(module, str(folder), signatures=module.answer)
    return folder


class _Classes(tf.Module):
    """What Headrace's image models look like from outside."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
    def image(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """`long` for inputs of over 5 bytes, else `short`."""
        long = tf.cast(tf.strings.length(image_bytes) > 5, tf.float32)
        scores = tf.stack([0.25 + 0.5 * long, 0.75 - 0.5 * long], axis=1)
        classes = tf.tile([["long", "short"]], [tf.shape(scores)[0], 1])
        return {"scores": scores, "classes": classes}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.image(examples)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def text(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.image(text)


def classes(folder: Path) -> Path:
    """Signatures predict_image, predict_text and serving_default, with scores and classes."""
    module = _Classes()
    signatures = {
        "predict_image": module.image,
        "predict_text": module.text,
        "serving_default": module.examples,
    }
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder


def publish(source: Path, root: Path, version: int) -> None:
    """Copies a SavedModel to a version folder as a push does: hidden first, then renamed."""
    staging = root / f".staging-{version}"
    shutil.copytree(source, staging)
    staging.rename(root / str(version))
