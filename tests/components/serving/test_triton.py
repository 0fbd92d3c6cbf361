"""Triton's configuration, as text."""

from __future__ import annotations

import pytest
import tensorflow as tf

from components.rewriter.techniques import onnx_files
from components.serving import triton


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((None, 3), "dims: [ 3 ]"),
        ((None, None, 2), "dims: [ -1, 2 ]"),
        # A regression's number: Triton takes no empty dims, and 0 would be a shape that no answer has.
        ((None,), "dims: [ 1 ] reshape: { shape: [ ] }"),
    ],
)
def test_shapes(shape, dims: str) -> None:
    made = onnx_files.shape_of(tf.TensorSpec(shape, tf.float32))
    text = triton.config(backend="onnxruntime", inputs={}, outputs={"outputs": ("float32", made)})
    assert f'output [ {{ name: "outputs" data_type: TYPE_FP32 {dims} }} ]' in text


@pytest.mark.parametrize(
    ("dtype", "name"), [("uint8", "TYPE_UINT8"), ("int16", "TYPE_INT16"), ("float64", "TYPE_FP64")]
)
def test_types_of_models_from_anywhere(dtype: str, name: str) -> None:
    text = triton.config(backend="onnxruntime", inputs={"x": (dtype, [3])}, outputs={})
    assert f'input [ {{ name: "x" data_type: {name} dims: [ 3 ] }} ]' in text
