"""Which techniques there are, what each is served by, and which targets load what. Standard library only.

techniques_for("tf_serving_tflite")         # names, in the order of simplicity
automatic("tf_serving", "latency")          # what `candidates: auto` tries
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Objective = Literal["latency", "size", "throughput"]
Target = Literal["tf_serving", "tf_serving_tflite", "triton", "edge"]

IDENTITY = "identity"
"""Always built: the others are compared with it."""


@dataclass(frozen=True)
class Technique:
    """What is said of a technique beside its code.

    Attributes:
        runtime: what serves it; a key of `runtimes.RUNTIMES`.
        summary: what it does, in a few words.
        pays: objectives that `candidates: auto` tries it for.
    """

    runtime: str
    summary: str
    pays: tuple[Objective, ...]


_ALWAYS: tuple[Objective, ...] = ("latency", "size", "throughput")
_SIZE: tuple[Objective, ...] = ("size",)
_SPEED: tuple[Objective, ...] = ("latency", "throughput")

# From simple to involved: between candidates that cannot be told apart, the earlier goes on.
TECHNIQUES: Mapping[str, Technique] = {
    IDENTITY: Technique("saved_model", "the trained model as it is", ()),
    "frozen": Technique("saved_model", "constants folded, batch norm folded in", _ALWAYS),
    "float16": Technique("saved_model", "weights stored as float16", _ALWAYS),
    "bfloat16": Technique("saved_model", "weights stored as bfloat16", ()),
    "compressed": Technique("saved_model", "weights of pruned models stored deflated", _SIZE),
    "int7_deflated": Technique("saved_model", "7-bit weights, deflated; float32 at run time", _SIZE),
    "int6_deflated": Technique("saved_model", "6-bit weights, deflated; float32 at run time", _SIZE),
    "int8_weight_only": Technique("saved_model", "TensorFlow's quantizer, weights only", _SIZE),
    "int8_dynamic": Technique("saved_model", "TensorFlow's quantizer, ranges at run time", _SIZE),
    "int8_static": Technique("saved_model", "TensorFlow's quantizer, calibrated, per channel", _SIZE),
    "keras_int8": Technique("saved_model", "Keras's own quantization of dense layers", _SIZE),
    "keras_int4": Technique("saved_model", "Keras's own quantization of dense layers, 4 bits", _SIZE),
    "tf_trt_float16": Technique("saved_model", "TensorRT segments inside TensorFlow", _SPEED),
    "tflite": Technique("litert", "TFLite, float32", _ALWAYS),
    "tflite_float16": Technique("litert", "TFLite, weights as float16", _ALWAYS),
    "tflite_dynamic": Technique("litert", "TFLite, int8 weights, ranges at run time", _ALWAYS),
    "tflite_int8": Technique("litert", "TFLite, int8 throughout, calibrated", _ALWAYS),
    "onnx": Technique("onnxruntime", "ONNX, float32", _ALWAYS),
    "onnx_int8": Technique("onnxruntime", "ONNX, int8, calibrated", _ALWAYS),
    "tensorrt_float16": Technique("tensorrt", "a TensorRT engine by ONNX, float16", _ALWAYS),
    "tensorrt_int8": Technique("tensorrt", "a TensorRT engine by ONNX, int8, calibrated", _ALWAYS),
}

LOADS: Mapping[Target, tuple[str, ...]] = {
    "tf_serving": ("saved_model",),
    "tf_serving_tflite": ("saved_model", "litert"),
    "triton": ("onnxruntime", "tensorrt"),
    "edge": ("litert",),
}
"""Target -> runtimes whose files its server loads."""


_BESIDE_TFLITE = ("frozen", "int7_deflated", "int6_deflated")


def techniques_for(target: Target) -> list[str]:
    """All techniques whose files the target loads; the original is not among them."""
    return [name for name, item in TECHNIQUES.items() if name != IDENTITY and item.runtime in LOADS[target]]


def automatic(target: Target, objective: Objective) -> list[str]:
    """What `candidates: auto` tries.

    For speed on a CPU, int8 in TensorFlow's own kernels does not pay, so a
    target that takes SavedModels alone gets it for size only. A target that takes
    TFLite gets few SavedModels, one for models that do not convert and the
    smallest: TFLite is several times quicker, and quantizes better.
    """
    names = [name for name in techniques_for(target) if objective in TECHNIQUES[name].pays]
    if target == "tf_serving_tflite":
        return [name for name in names if name in _BESIDE_TFLITE or TECHNIQUES[name].runtime == "litert"]
    return names


def rank(name: str) -> int:
    """Position in the order from simple to involved; unknown names come last."""
    known = list(TECHNIQUES)
    return known.index(name) if name in TECHNIQUES else len(known)
