"""Every technique: same signatures, close answers, or a reason why it cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.rewriter.base import Calibration, CannotRun, TrainedModel
from components.rewriter.catalogue import IDENTITY, TECHNIQUES
from components.rewriter.techniques import BUILDS, constants
from components.serving import runtimes
from components.serving.servable import size_bytes, version_folder

# On probabilities. Half precision keeps 11 bits, bfloat16 8; int8 256 steps a tensor.
TOLERANCE = {
    IDENTITY: 0.0,
    "frozen": 1e-5,
    "float16": 5e-3,
    "bfloat16": 3e-2,
    "int7_deflated": 0.1,
    "int6_deflated": 0.15,
    "int8_weight_only": 0.1,
    "int8_dynamic": 0.1,
    "int8_static": 0.15,
    "tflite": 1e-5,
    "tflite_float16": 5e-3,
    "tflite_dynamic": 0.1,
    "tflite_int8": 0.15,
    "onnx": 1e-5,
    "onnx_int8": 0.15,
}
CANNOT = {
    "compressed": "the model is not pruned",
    "keras_int8": "there is no .keras model",
    "keras_int4": "there is no .keras model",
    "tf_trt_float16": "there is no GPU",
    "tensorrt_float16": r"its ONNX is built and checked .* the engine step is not verified here",
    "tensorrt_int8": r"its ONNX is built and checked .* the engine step is not verified here",
}


@pytest.fixture(scope="module")
def trained(model_uri, contract, examples_uri) -> TrainedModel:
    return TrainedModel(str(model_uri), contract, Calibration(str(examples_uri), "validation"))


@pytest.fixture(scope="module")
def built(trained, tmp_path_factory):
    root = tmp_path_factory.mktemp("built")
    for name in TOLERANCE:
        (root / name).mkdir()
        BUILDS[name](trained, version_folder(root / name))
        trained.servable(name).write(root / name)
    return root


def test_none_is_left_untested() -> None:
    assert set(TOLERANCE) | set(CANNOT) == set(TECHNIQUES)


@pytest.mark.parametrize("name", sorted(TOLERANCE))
def test_answers_stay_close_through_both_signatures(built, records, name: str) -> None:
    original, candidate = runtimes.load(built / IDENTITY), runtimes.load(built / name)
    expected, answer = original.predict(records), candidate.predict(records)
    assert answer.scores.dtype == np.float32
    np.testing.assert_allclose(answer.scores, expected.scores, atol=TOLERANCE[name], rtol=0)
    assert answer.classes.tolist() == expected.classes.tolist() == [["cat", "dog", "owl"]] * len(records)
    images = [
        tf.train.Example.FromString(item).features.feature["image"].bytes_list.value[0] for item in records
    ]
    np.testing.assert_allclose(
        candidate.predict(images, "predict_image").scores, answer.scores, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("name", sorted(CANNOT))
def test_what_cannot_run_says_why(trained, tmp_path, name: str) -> None:
    with pytest.raises(CannotRun, match=CANNOT[name]):
        BUILDS[name](trained, tmp_path / "version")


@pytest.mark.parametrize("name", ["int8_static", "tflite_int8", "onnx_int8"])
def test_calibration_wants_examples(model_uri, contract, tmp_path, name: str) -> None:
    with pytest.raises(CannotRun, match="no examples to calibrate on"):
        BUILDS[name](TrainedModel(str(model_uri), contract), tmp_path / "version")


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("float16", "frozen"),
        ("bfloat16", "frozen"),
        ("tflite_float16", "tflite"),
        ("tflite_dynamic", "tflite"),
        ("int7_deflated", "frozen"),
        ("int6_deflated", "int7_deflated"),
    ],
)
def test_what_is_to_be_smaller_is(built, smaller: str, larger: str) -> None:
    assert size_bytes(version_folder(built / smaller)) < size_bytes(version_folder(built / larger))


def test_float16_keeps_constants_that_would_overflow() -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(np.full(64, 1e6, np.float32), name="large")
        tf.constant(np.full(64, 0.5, np.float32), name="small")
    stored = constants.stored_as(graph.as_graph_def(), tf.float16)
    kinds = {node.name: node.op for node in stored.node}
    assert kinds == {"large": "Const", "small/float16": "Const", "small": "Cast"}


def test_frozen_keeps_no_variables(built) -> None:
    loaded = tf.saved_model.load(str(version_folder(built / "frozen")))
    assert loaded.signatures["serving_default"].variables == ()


def test_pruned_weights_deflate_and_come_back_exactly() -> None:
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(64, 64)).astype(np.float32)
    weight[rng.random(weight.shape) < 0.8] = 0.0
    with tf.Graph().as_default() as graph:
        tf.identity(tf.constant(weight, name="pruned"), name="out")
        tf.constant(rng.normal(size=64).astype(np.float32), name="dense")
    stored = constants.deflated(graph.as_graph_def(), 0.3)
    assert {node.name: node.op for node in stored.node}["dense"] == "Const"
    assert stored.ByteSize() < 0.5 * graph.as_graph_def().ByteSize()
    with tf.Graph().as_default() as again, tf.compat.v1.Session() as session:
        tf.import_graph_def(stored, name="")
        np.testing.assert_array_equal(session.run(again.get_tensor_by_name("out:0")), weight)


def _restored(graph: Any) -> np.ndarray:
    with tf.Graph().as_default() as again, tf.compat.v1.Session() as session:
        tf.import_graph_def(graph, name="")
        value: np.ndarray = session.run(again.get_tensor_by_name("out:0"))
        return value


def _of_one_weight(weight: np.ndarray) -> Any:
    with tf.Graph().as_default() as graph:
        tf.identity(tf.constant(weight, name="weight"), name="out")
        return graph.as_graph_def()


@pytest.mark.parametrize("channel", [0, 1, 2, 3])
@pytest.mark.parametrize("bits", [6, 7, 8])
def test_rounded_weights_are_half_a_step_off_at_most(bits: int, channel: int) -> None:
    """The steps are those of the channels that differ, on whatever axis they are."""
    rng = np.random.default_rng(bits)
    weight = rng.normal(size=(8, 9, 10, 7)).astype(np.float32)
    shape = [size if axis == channel else 1 for axis, size in enumerate(weight.shape)]
    weight *= (10.0 ** -np.arange(weight.shape[channel], dtype=np.float32)).reshape(shape)
    others = tuple(axis for axis in range(4) if axis != channel)
    step = np.abs(weight).max(axis=others, keepdims=True) / (2 ** (bits - 1) - 1)
    back = _restored(constants.rounded(_of_one_weight(weight), bits))
    assert (np.abs(back - weight) <= 0.5001 * step).all()
    # The largest of each channel comes back.
    np.testing.assert_allclose(np.abs(back).max(axis=others), np.abs(weight).max(axis=others), rtol=1e-6)


def test_rounded_weights_take_less_than_their_bits() -> None:
    weight = np.random.default_rng(1).normal(size=(256, 256)).astype(np.float32)
    assert constants.rounded(_of_one_weight(weight), 7).ByteSize() < weight.size * 7 / 8


def test_zeros_survive_rounding_and_what_would_not_gain_is_kept() -> None:
    nothing = np.zeros((64, 64), np.float32)
    np.testing.assert_array_equal(_restored(constants.rounded(_of_one_weight(nothing), 6)), nothing)
    for kept in (
        np.full((64, 64), np.nan, np.float32),
        np.ones(4096, np.float32),
        np.ones((8, 8), np.float32),
    ):
        graph = _of_one_weight(kept)
        assert {node.op for node in constants.rounded(graph, 6).node} == {"Const", "Identity"}


@pytest.mark.parametrize(("rows", "deflated"), [(1 << 12, True), (1 << 13, False)])
def test_weights_that_are_not_folded_are_not_inflated_on_every_call(rows: int, deflated: bool) -> None:
    weight = np.random.default_rng(2).normal(size=(rows, 512)).astype(np.float32)
    stored = constants.rounded(_of_one_weight(weight), 7)
    assert ("DecodeCompressed" in {node.op for node in stored.node}) is deflated
    np.testing.assert_allclose(_restored(stored), weight, atol=float(np.abs(weight).max()) / 126)


def test_texts_of_any_length_are_no_engine_and_say_why(monkeypatch) -> None:
    """Before they are calibrated on: batches of other lengths could not even be put together."""
    import sys
    from types import SimpleNamespace

    from components.rewriter.techniques import onnx_files, tensorrt_files

    graph = SimpleNamespace(node=[])
    monkeypatch.setattr(onnx_files, "convert", lambda trained: SimpleNamespace(graph=graph))
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace())
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0"])
    core = SimpleNamespace(inputs=[tf.TensorSpec([None, None], tf.int32)])
    texts: Any = SimpleNamespace(core=core)
    with pytest.raises(CannotRun, match="wants inputs of one shape"):
        tensorrt_files.build(texts, Path("/nowhere"), int8=True)


@pytest.mark.parametrize("shape", [(64,), (1, 1, 1, 64)])
def test_zeros_of_a_bias_are_no_pruning(shape: tuple[int, ...]) -> None:
    """A layer that begins without an offset, or learns none, was not pruned."""
    with tf.Graph().as_default() as graph:
        kernel = np.random.default_rng(3).normal(size=(16, 64)).astype(np.float32)
        tf.identity(tf.constant(kernel), name="out")
        tf.identity(tf.constant(np.zeros(shape, np.float32), name="bias"), name="offset")
    found = constants.weights(graph.as_graph_def())
    assert [constants.is_kernel(value) for value in found] == [True, False]
    stored = constants.deflated(graph.as_graph_def(), 0.3)
    assert next(node for node in stored.node if node.name == "bias").op == "Const"


def test_a_folder_for_triton_has_its_configuration(built) -> None:
    text = (version_folder(built / "onnx") / "config.pbtxt").read_text()
    assert 'backend: "onnxruntime"' in text
    assert 'input [ { name: "inputs" data_type: TYPE_FP32 dims: [ 8, 8, 1 ] } ]' in text
    assert 'output [ { name: "scores" data_type: TYPE_FP32 dims: [ 3 ] } ]' in text


def dense_model() -> Any:
    """Numbers through dense layers."""
    import keras

    keras.utils.set_random_seed(5)
    return keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(128),
         keras.layers.Dense(3, activation="softmax")]
    )  # fmt: skip


def transformer() -> Any:
    """Sixteen token ids through our own encoder."""
    from modules.text import model as text_model
    from tests.modules.text import small

    return text_model.build(
        small.hparams(width=64, feedforward=256), small.VOCABULARY, class_count=small.CLASSES
    )


def saved(folder: Path, model: Any, contract: Any, modules: tuple[str, ...] = ()) -> TrainedModel:
    """A model of 16 numbers as the Trainer leaves it, with its `.keras` file."""
    from dataclasses import replace

    from modules import export

    spec = {"x": tf.io.FixedLenFeature([16], tf.float32)}
    export.save(
        str(folder / "Format-Serving"),
        model,
        ["a", "b", "c"],
        {"serving_default": lambda raw: tf.io.parse_example(raw, spec)["x"]},
    )
    model.save(folder / "model.keras")
    signatures = {"serving_default": contract.signatures["serving_default"]}
    told = replace(contract, signatures=signatures, keras_model="model.keras", modules=modules)
    return TrainedModel(str(folder), told)


def beside_the_original(trained: TrainedModel, folder: Path, name: str, asked: list[bytes]) -> Any:
    """Both models' scores, and the candidate's size as a share of the original's."""
    for made in (IDENTITY, name):
        (folder / made).mkdir()
        BUILDS[made](trained, version_folder(folder / made))
        trained.servable(made).write(folder / made)
    original, candidate = (runtimes.load(folder / made).predict(asked).scores for made in (IDENTITY, name))
    sizes = [size_bytes(version_folder(folder / made)) for made in (IDENTITY, name)]
    return original, candidate, sizes[1] / sizes[0]


@pytest.mark.parametrize(("name", "share"), [("keras_int8", 0.5), ("keras_int4", 0.4)])
@pytest.mark.parametrize("build", [dense_model, transformer])
def test_keras_quantizes_dense_models(
    tmp_path, contract, make_example, build, name: str, share: float
) -> None:
    trained = saved(tmp_path, build(), contract, ("modules.text.layers",) if build is transformer else ())
    rng = np.random.default_rng(7)
    drawn = rng.integers(5, 25, (20, 16)) if build is transformer else rng.normal(size=(20, 16))
    asked = [make_example(x=[float(value) for value in row]) for row in drawn]
    original, quantized, size = beside_the_original(trained, tmp_path, name, asked)
    np.testing.assert_allclose(quantized, original, atol=0.1 if name == "keras_int8" else 0.3)
    # An encoder's graph is large beside this small one's weights.
    assert size < (share if build is dense_model else 1.0)


def test_a_pruned_model_is_compressed_and_answers_the_same(tmp_path, contract, make_example) -> None:
    model = dense_model()
    rng = np.random.default_rng(7)
    for layer in model.layers:
        kernel = layer.kernel.numpy()
        layer.kernel.assign(kernel * (rng.random(kernel.shape) < 0.2))
    asked = [make_example(x=rng.normal(size=16).tolist()) for _ in range(20)]
    original, candidate, size = beside_the_original(
        saved(tmp_path, model, contract), tmp_path, "compressed", asked
    )
    np.testing.assert_allclose(candidate, original, atol=1e-6)
    assert size < 0.6
