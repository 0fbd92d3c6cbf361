"""The rewrite techniques: one file and one `build` each; `catalogue` says how they are served."""

from __future__ import annotations

from components.rewriter.base import Build
from components.rewriter.techniques import (
    bfloat16,
    compressed,
    float16,
    frozen,
    identity,
    int6_deflated,
    int7_deflated,
    int8_dynamic,
    int8_static,
    int8_weight_only,
    keras_int4,
    keras_int8,
    onnx_float32,
    onnx_int8,
    tensorrt_float16,
    tensorrt_int8,
    tf_trt_float16,
    tflite,
    tflite_dynamic,
    tflite_float16,
    tflite_int8,
)

BUILDS: dict[str, Build] = {
    "identity": identity.build,
    "frozen": frozen.build,
    "float16": float16.build,
    "bfloat16": bfloat16.build,
    "compressed": compressed.build,
    "int7_deflated": int7_deflated.build,
    "int6_deflated": int6_deflated.build,
    "int8_weight_only": int8_weight_only.build,
    "int8_dynamic": int8_dynamic.build,
    "int8_static": int8_static.build,
    "keras_int8": keras_int8.build,
    "keras_int4": keras_int4.build,
    "tf_trt_float16": tf_trt_float16.build,
    "tflite": tflite.build,
    "tflite_float16": tflite_float16.build,
    "tflite_dynamic": tflite_dynamic.build,
    "tflite_int8": tflite_int8.build,
    "onnx": onnx_float32.build,
    "onnx_int8": onnx_int8.build,
    "tensorrt_float16": tensorrt_float16.build,
    "tensorrt_int8": tensorrt_int8.build,
}
