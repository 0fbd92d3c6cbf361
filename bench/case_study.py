"""The textbook case on this machine: ResNet-50 at 224 x 224 and a BERT-like encoder, step by step.

    python -m bench.case_study [--quick] [--only resnet|encoder]

Guides promise 2.4 times the training rate by mixed precision and XLA, 80 MB
to 45 MB by separable convolutions, 15 MB and 30 % faster answers by
quantization, and 2.5 times the tokens a second for an encoder. Here each step
is added to the one before it, trained on scikit-learn's digits by our own
loop in a process of its own, and judged on the same held-out scans. The
encoder reads a scan as 64 tokens of 17 grey levels.

Takes about an hour on 2 quiet cores; --quick two minutes, with figures that say
nothing but that it runs. `tools/draw_case_study.py` draws the result.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from bench import common
from bench.common import Figure

CLASSES = 10
QUANTIZED = "quantized (int8, LiteRT)"
_LATENCY_CALLS = 40
_FIRST_GREY = 5
"""Ids below are padding, separators and the like."""


@dataclass(frozen=True)
class Scale:
    """How much is measured; `--quick` takes the second."""

    pixels: int
    train: int
    test: int
    epochs: int
    batch: int
    width: int
    layers: int
    encoder_epochs: int


FULL = Scale(224, 640, 320, 4, 32, 256, 6, 12)
QUICK = Scale(32, 96, 64, 1, 16, 32, 1, 1)


@dataclass(frozen=True)
class Step:
    """One column of the story.

    Attributes:
        name: what was added.
        model: which network.
        xla: as `train.xla`.
        precision: as `train.precision`.
        fused: as `train.fused_normalization`.
    """

    name: str
    model: str
    xla: str
    precision: str
    fused: bool


RESNET = (
    Step("float32, no XLA", "resnet50", "off", "float32", False),
    Step("+ fused normalisation", "resnet50", "off", "float32", True),
    Step("+ XLA", "resnet50", "on", "float32", True),
    Step("+ mixed bfloat16", "resnet50", "on", "mixed_bfloat16", True),
    Step("+ mixed bfloat16, XLA off", "resnet50", "off", "mixed_bfloat16", True),
    Step("separable convolutions", "separable_resnet50", "off", "float32", True),
)
ENCODER = (
    Step("float32, no XLA", "encoder", "off", "float32", False),
    Step("+ XLA", "encoder", "on", "float32", False),
    Step("+ mixed bfloat16", "encoder", "on", "mixed_bfloat16", False),
    Step("+ mixed bfloat16, XLA off", "encoder", "off", "mixed_bfloat16", False),
)


@dataclass(frozen=True)
class Measured:
    """What came of a step.

    Attributes:
        rate: examples a second, steady, in training.
        megabytes: of the weights as float32.
        accuracy: on the held-out scans, in [0, 1].
        latency_ms: median of single answers; in TensorFlow, or for a quantized model in LiteRT.
        seconds: of the whole training, compiling included.
    """

    name: str
    rate: float
    megabytes: float
    accuracy: float
    latency_ms: float
    seconds: float


def digits(scale: Scale, *, images: bool) -> tuple[Any, Any, Any, Any]:
    """Scans and class ids to train on and to judge by: images (N, P, P, 3) or tokens (N, 64)."""
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(7).permutation(len(data.target))[: scale.train + scale.test]
    labels = data.target[order].astype("int32")
    if images:
        grey = data.images[order][..., None] * (255 / 16)
        features = tf.image.resize(grey, (scale.pixels, scale.pixels)).numpy().repeat(3, axis=-1)
    else:
        features = _FIRST_GREY + data.images[order].reshape(len(order), 64).astype("int32")
    return (*_cut(features, scale.train), *_cut(labels, scale.train))


def _cut(values: Any, count: int) -> tuple[Any, Any]:
    return values[:count], values[count:]


def build(name: str, scale: Scale, pixels: Any) -> Any:
    """A network by its name here."""
    if name == "encoder":
        return encoder(scale)
    from modules.hparams.image import ImageModelHparams
    from modules.image import model as image_model

    hparams = ImageModelHparams("ResNet50", scale.pixels, scale.pixels, 3, (), 1, 0.1)
    mean, variance = [float(pixels.mean())] * 3, [float(pixels.var())] * 3
    made = image_model.build(hparams, class_count=CLASSES, mean=mean, variance=variance)
    made = separable(made) if name == "separable_resnet50" else made
    return _quick_averages(made)


def _quick_averages(model: Any) -> Any:
    """Batch normalisation that has seen enough after 80 steps.

    With Keras's momentum of 0.99 its averages still hold 0.45 of their initial
    values then, and a network that has learned all scans answers at random.
    """
    import keras

    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.9
    return model


def separable(model: Any) -> Any:
    """The same network with each 3 x 3 convolution taken apart into depthwise and pointwise."""
    import keras

    def swapped(layer: Any) -> Any:
        config = layer.get_config()
        if not isinstance(layer, keras.layers.Conv2D) or tuple(layer.kernel_size) != (3, 3):
            return layer.__class__.from_config(config)
        return keras.layers.SeparableConv2D(
            layer.filters,
            3,
            strides=layer.strides,
            padding=layer.padding,
            use_bias=layer.use_bias,
            name=layer.name,
            depthwise_initializer="he_normal",
            pointwise_initializer="he_normal",
        )

    return keras.models.clone_model(model, clone_function=swapped)


def encoder(scale: Scale) -> Any:
    """Headrace's own pre-norm transformer encoder over 64 tokens."""
    import keras

    from modules.text import layers
    from modules.text import model as text_model

    shape = text_model.Shape(scale.width, scale.layers, 4, 4 * scale.width, positions=64)
    vocabulary = text_model.Vocabulary(_FIRST_GREY + 17)
    inputs = keras.Input((64,))
    x = text_model.encode(text_model.encoder_layers(shape, vocabulary, dropout=0.0), inputs)
    pooled = layers.PoolTokens("mean")([x, layers.RealTokens()(inputs)])
    return keras.Model(inputs, keras.layers.Dense(CLASSES, "softmax", dtype="float32")(pooled))


def train(step: Step, scale: Scale, folder: str) -> Measured:
    """Trains one step's model, measures it, and leaves it in the folder as float32."""
    import keras
    import numpy as np
    import tensorflow as tf

    from modules.hparams.train import ScheduleHparams, TrainHparams
    from modules.input_pipeline import TrainingStream
    from modules.training import loop
    from modules.training.rebuild import in_float32
    from modules.training.session import prepare

    images = step.model != "encoder"
    x, x_test, y, y_test = digits(scale, images=images)
    hparams = TrainHparams(
        epochs=scale.epochs if images else scale.encoder_epochs,
        batch_size=scale.batch,
        learning_rate=0.001,
        schedule=ScheduleHparams(name="cosine"),
        xla=step.xla,
        precision=step.precision,
        fused_normalization=step.fused,
        early_stopping_patience=1000,
        strategy="one_device",
        tensorboard=False,
    )
    session = prepare(hparams)
    with session.scope():
        model = build(step.model, scale, x)
    stream = TrainingStream(tf.data.Dataset.from_tensor_slices((x, y)), len(x), scale.batch, seed=1)
    # Judged by what is left of training only in the end, so that nothing is chosen on it.
    part = tf.data.Dataset.from_tensor_slices((x[: scale.batch], y[: scale.batch])).batch(scale.batch)
    began = time.monotonic()
    report = loop.fit(model, stream, part, session)
    seconds = time.monotonic() - began
    plain = in_float32(model, lambda: build(step.model, scale, x))
    plain.save(Path(folder, f"{step.model}.keras"))
    answer = tf.function(lambda one: plain(one, training=False), reduce_retracing=True)
    scores = np.concatenate([answer(x_test[at : at + 32]).numpy() for at in range(0, len(x_test), 32)])
    keras.backend.clear_session()
    return Measured(
        name=step.name,
        rate=report.examples_per_second,
        megabytes=plain.count_params() * 4 / 1e6,
        accuracy=float(np.mean(scores.argmax(axis=1) == y_test)),
        latency_ms=_latency_ms(lambda at: answer(x_test[at : at + 1]), len(x_test)),
        seconds=seconds,
    )


def quantize(model: str, scale: Scale, folder: str) -> Measured:
    """Full int8 in LiteRT of a model that `train` left there."""
    import keras
    import numpy as np
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    x, x_test, _, y_test = digits(scale, images=True)
    converter = tf.lite.TFLiteConverter.from_keras_model(
        keras.models.load_model(Path(folder, f"{model}.keras"))
    )
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([x[at : at + 1].astype("float32")] for at in range(64))
    content = converter.convert()
    interpreter = Interpreter(model_content=content, num_threads=os.cpu_count())
    interpreter.allocate_tensors()
    taken, given = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def answer(at: int) -> Any:
        interpreter.set_tensor(taken, x_test[at : at + 1].astype("float32"))
        interpreter.invoke()
        return interpreter.get_tensor(given)[0]

    scores = np.stack([answer(at) for at in range(len(x_test))])
    return Measured(
        name=QUANTIZED,
        rate=0.0,
        megabytes=len(content) / 1e6,
        accuracy=float(np.mean(scores.argmax(axis=1) == y_test)),
        latency_ms=_latency_ms(answer, len(x_test)),
        seconds=0.0,
    )


def _latency_ms(answer: Callable[[int], Any], examples: int) -> float:
    import numpy as np

    times = []
    for call in range(_LATENCY_CALLS + 3):
        began = time.perf_counter()
        answer(call % examples)
        times.append(1000 * (time.perf_counter() - began))
    return float(np.median(times[3:]))


def in_child(function: Callable[..., Measured], *arguments: Any) -> Measured:
    """Calls in a process of its own: precision, XLA and memory of one step must not reach the next."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def resnet_story(scale: Scale) -> list[Measured]:
    """All steps of ResNet-50, and both networks quantized."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for step in RESNET:
            found.append(in_child(train, step, scale, folder))
            print(found[-1], flush=True)
        for model in ("resnet50", "separable_resnet50"):
            one = in_child(quantize, model, scale, folder)
            found.append(replace(one, name=f"{model}: {one.name}"))
            print(found[-1], flush=True)
    return found


def encoder_story(scale: Scale) -> list[Measured]:
    """All steps of the encoder."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for step in ENCODER:
            found.append(in_child(train, step, scale, folder))
            print(found[-1], flush=True)
    return found


def figures(resnet: Sequence[Measured], encoder_steps: Sequence[Measured]) -> list[Figure]:
    """What guides promise, beside what was measured."""
    found = []
    if resnet:
        by_name = {item.name: item for item in resnet}
        first, mixed, alone = resnet[0], by_name["+ mixed bfloat16"], by_name["+ mixed bfloat16, XLA off"]
        slim, small = (
            by_name["separable convolutions"],
            by_name["separable_resnet50: quantized (int8, LiteRT)"],
        )
        found = [
            Figure.of("resnet50_mixed_xla_rate", [mixed.rate], [first.rate], "images/s", ">= 2.4"),
            Figure.of("resnet50_mixed_rate", [alone.rate], [first.rate], "images/s", ">= 2.4"),
            Figure.of("resnet50_separable_size", [slim.megabytes], [first.megabytes], "MB", "<= 0.5625"),
            Figure.of("resnet50_quantized_size", [small.megabytes], [first.megabytes], "MB", "<= 0.1875"),
            Figure.of("resnet50_quantized_latency", [small.latency_ms], [slim.latency_ms], "ms", "<= 0.77"),
        ]
    if encoder_steps:
        by_name = {item.name: item for item in encoder_steps}
        tokens = 64 * encoder_steps[0].rate
        for name, step in (
            ("encoder_mixed_xla_rate", "+ mixed bfloat16"),
            ("encoder_mixed_rate", "+ mixed bfloat16, XLA off"),
        ):
            found.append(Figure.of(name, [64 * by_name[step].rate], [tokens], "tokens/s", ">= 2.5"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    parser.add_argument("--only", choices=("resnet", "encoder"))
    given = parser.parse_args()
    scale = QUICK if given.quick else FULL
    resnet = resnet_story(scale) if given.only != "encoder" else []
    encoder_steps = encoder_story(scale) if given.only != "resnet" else []
    for title, steps in (("ResNet-50", resnet), ("encoder", encoder_steps)):
        common.print_table(
            title,
            ("step", "examples/s", "MB", "accuracy", "answer ms", "training s"),
            [
                (item.name, f"{item.rate:.1f}", f"{item.megabytes:.1f}", f"{item.accuracy:.3f}",
                 f"{item.latency_ms:.1f}", f"{item.seconds:.0f}")
                for item in steps
            ],
        )  # fmt: skip
    facts = {
        "scale": asdict(scale),
        "resnet": [asdict(item) for item in resnet],
        "encoder": [asdict(item) for item in encoder_steps],
    }
    common.report("case_study", figures(resnet, encoder_steps), json.loads(json.dumps(facts)))


if __name__ == "__main__":
    main()
