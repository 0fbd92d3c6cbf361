"""TensorProto to NumPy and back, as TensorFlow Serving's clients write and read them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

from components.serving.server.status import invalid

_MAX_TENSOR_BYTES = 1 << 30
"""A message of few bytes can name a huge shape, since one value stands for all."""

_REF = 100
"""TensorFlow's enum: a reference type is its base type plus 100."""


def base_dtype(enum: int) -> Any:
    """The tf.DType of an enum value; reference types (old variables) give their base type."""
    return tf.dtypes.as_dtype(enum % _REF)


def to_array(tensor: Any, name: str) -> np.ndarray:
    """The values of a TensorProto; strings become an object array of bytes.

    Raises:
        RequestError: the message contradicts itself, or names a shape of over 1 GiB.
    """
    dims = [dim.size for dim in tensor.tensor_shape.dim]
    try:
        if tensor.tensor_shape.unknown_rank or min(dims, default=0) < 0:
            raise ValueError("its shape is not fully given")
        if prod(dims) * max(base_dtype(tensor.dtype).size or 1, 1) > _MAX_TENSOR_BYTES:
            raise ValueError(f"its shape {dims} is too large")
        return np.asarray(tf.make_ndarray(tensor))
    except (ValueError, TypeError, KeyError) as error:
        raise invalid(f"tensor parsing error: {name}: {error}") from error


def to_proto(array: np.ndarray, enum: int) -> Any:
    """A TensorProto with its values in the typed field.

    Not in `tensor_content`: clients read `outputs["scores"].float_val`, since
    that is where TensorFlow Serving puts them.

    Args:
        array: any shape; strings as an object array of bytes.
        enum: the signature's data type.
    """
    dtype = base_dtype(enum)
    proto = tf.make_tensor_proto([], dtype=dtype, shape=[0])
    proto.tensor_shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
    field, convert = _FIELDS[dtype.name]
    getattr(proto, field).extend(convert(array.ravel()))
    return proto


def _values(flat: np.ndarray) -> list[Any]:
    return flat.tolist()


def _bits(flat: np.ndarray) -> list[int]:
    return flat.view(np.uint16).tolist()


def _pairs(flat: np.ndarray) -> list[float]:
    return np.stack([flat.real, flat.imag], axis=-1).ravel().tolist()


_INT_VAL = ("int32", "int16", "int8", "uint16", "uint8", "qint8", "quint8", "qint16", "quint16", "qint32")
_FIELDS: dict[str, tuple[str, Callable[[np.ndarray], list[Any]]]] = {
    "float32": ("float_val", _values),
    "float64": ("double_val", _values),
    "float16": ("half_val", _bits),
    "bfloat16": ("half_val", _bits),
    "complex64": ("scomplex_val", _pairs),
    "complex128": ("dcomplex_val", _pairs),
    "int64": ("int64_val", _values),
    "uint32": ("uint32_val", _values),
    "uint64": ("uint64_val", _values),
    "bool": ("bool_val", _values),
    "string": ("string_val", _values),
    **dict.fromkeys(_INT_VAL, ("int_val", _values)),
}
"""Data type -> field of TensorProto, and what it holds."""
