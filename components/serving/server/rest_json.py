"""TensorFlow Serving's JSON: requests to arrays, arrays to answers.

body = parse(b'{"instances": [[1.0], [2.0]]}')
inputs, row_form = read_inputs(body, signature)
text = write_outputs({"y": array}, {"y": dtype}, row_form)
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

from components.serving.server import tensors
from components.serving.server.status import Code, RequestError, invalid

_BASE64_KEY = "b64"
_BYTES_SUFFIX = "_bytes"
_SHOWN_CHARACTERS = 200

_MANTISSA_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def parse(body: bytes) -> dict[str, Any]:
    """A request's JSON object; NaN, Infinity and -Infinity are numbers.

    Raises:
        RequestError: INVALID_ARGUMENT, it is no JSON object.
    """
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"JSON Parse error: Invalid value. {error}") from error
    if not isinstance(parsed, dict):
        raise invalid(f"JSON Value: {_shown(parsed)} Is not object")
    return parsed


def signature_name(body: Mapping[str, Any]) -> str:
    """The request's `signature_name`; empty when it names none.

    Raises:
        RequestError: INVALID_ARGUMENT, it is no string.
    """
    name = body.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {_shown(body)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return name


def read_inputs(body: Mapping[str, Any], signature: Any) -> tuple[dict[str, np.ndarray], bool]:
    """A Predict request's tensors.

    Returns:
        Alias -> array in the signature's data type, and whether the request is in row form.

    Raises:
        RequestError: INVALID_ARGUMENT, or UNIMPLEMENTED for a data type without JSON form.
    """
    if "instances" in body and "inputs" in body:
        raise invalid(
            f"JSON Value: {_shown(body)} Not formatted correctly expecting only one of 'inputs' or "
            "'instances' keys to exist"
        )
    dtypes = {name: tensors.base_dtype(info.dtype) for name, info in signature.inputs.items()}
    if not dtypes:
        raise invalid("Failed to get input map: the signature has no inputs")
    if "instances" in body:
        return _rows(body["instances"], dtypes), True
    if "inputs" in body:
        return _columns(body["inputs"], dtypes), False
    raise invalid("Missing 'inputs' or 'instances' key")


def _rows(instances: Any, dtypes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(instances, list):
        raise invalid(f"JSON Value: {_shown(instances)} Excepting 'instances' to be an list/array")
    if not instances:
        raise invalid("JSON Value: [] No values in 'instances' array")
    named = _is_object(instances[0])
    if not named and len(dtypes) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as "
            "per tensorinfo_map"
        )
    for number, item in enumerate(instances):
        if _is_object(item) != named:
            raise invalid(
                f"Expecting object but got list at item {number} of input list"
                if named
                else f"Expecting value/list but got object at item {number} of input list"
            )
        if named and item.keys() != dtypes.keys():
            raise invalid(
                f"Failed to process element: {number} of 'instances' list. JSON object: {_shown(item)} "
                f"keys must be equal to: {','.join(sorted(dtypes))}"
            )
    columns = {name: [item[name] for item in instances] if named else instances for name in dtypes}
    return {
        name: _tensor(column, dtypes[name], f"key: {name} of 'instances'") for name, column in columns.items()
    }


def _columns(inputs: Any, dtypes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not _is_object(inputs):
        if len(dtypes) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as "
                "per tensorinfo_map"
            )
        inputs = dict.fromkeys(dtypes, inputs)
    missing = sorted(dtypes.keys() - inputs.keys())
    if missing:
        raise invalid(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {name: _tensor(inputs[name], dtype, f"key: {name} of 'inputs'") for name, dtype in dtypes.items()}


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(_BASE64_KEY), str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _tensor(value: Any, dtype: Any, place: str) -> np.ndarray:
    shape, flat = _flatten(value, place)
    if dtype == tf.string:
        array = np.empty(len(flat), object)
        array[:] = [_as_bytes(item, place) for item in flat]
    else:
        array = _numbers(flat, dtype, place)
    return array.reshape(shape)


def _flatten(value: Any, place: str) -> tuple[list[int], list[Any]]:
    """The shape of nested lists, judged by the first of each, and their leaves."""
    shape: list[int] = []
    flat = [value]
    while flat and isinstance(flat[0], list):
        size = len(flat[0])
        for item in flat:
            if not isinstance(item, list):
                raise invalid(
                    f"{place}: JSON Value: {_shown(item)} found at incorrect level: {len(shape) + 1}"
                )
            if len(item) != size:
                raise invalid(
                    f"{place}: Encountered list at unexpected size: {len(item)} at level: {len(shape)} "
                    f"expected size: {size}"
                )
        shape.append(size)
        flat = list(chain.from_iterable(flat))
    for item in flat:
        if isinstance(item, list):
            raise invalid(f"{place}: Encountered list at unexpected level: {len(shape)}")
    return shape, flat


def _as_bytes(item: Any, place: str) -> bytes:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if not isinstance(item, dict):
        raise _type_error(item, "string", place)
    if not _is_base64(item):
        raise invalid(f"{place}: JSON Value: {_shown(item)} not formatted correctly for base64 data")
    return _decode_base64(item[_BASE64_KEY])


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Unable to base64 decode") from error


def _numbers(flat: list[Any], dtype: Any, place: str) -> np.ndarray:
    # Types first and by set: a bool is an int to Python, and most requests are all of one type.
    allowed: set[type] = {bool} if dtype == tf.bool else {int, float} if dtype.is_floating else {int}
    if not (dtype == tf.bool or dtype.is_floating or dtype.is_integer):
        raise RequestError(Code.UNIMPLEMENTED, f"{place}: Conversion of JSON to type: {dtype.name}")
    if not set(map(type, flat)) <= allowed:
        raise _type_error(next(item for item in flat if type(item) not in allowed), dtype.name, place)
    if dtype.is_floating:
        _check_precision(flat, dtype, place)
    try:
        return np.array(flat, dtype.as_numpy_dtype)
    except OverflowError as error:
        limits = np.iinfo(dtype.as_numpy_dtype)
        outside = next(item for item in flat if not limits.min <= item <= limits.max)
        raise _type_error(outside, dtype.name, place) from error


def _check_precision(flat: list[Any], dtype: Any, place: str) -> None:
    largest = (1 << _MANTISSA_BITS.get(dtype.name, 53)) - 1
    highest = float(dtype.max)
    for item in flat:
        # Infinite values are meant; a finite one must not become infinite.
        lossy = abs(item) > largest if type(item) is int else highest < abs(item) < float("inf")
        if lossy:
            raise invalid(
                f"{place}: Cannot convert JSON value: {item} to {dtype.name} without loss of precision."
            )


def _type_error(item: Any, expected: str, place: str) -> RequestError:
    kinds = {dict: "Object", list: "Array", str: "String", bool: str(item), int: "Number", float: "Number"}
    kind = kinds.get(type(item), "Null")
    expected = {"float32": "float", "float64": "double"}.get(expected, expected)
    return invalid(f"{place}: JSON Value: {_shown(item)} Type: {kind} is not of expected type: {expected}")


def _shown(value: Any) -> str:
    """The beginning of a value's JSON; no more of it is written, since it may be a whole body."""
    text = ""
    for part in json.JSONEncoder().iterencode(value):
        text += part
        if len(text) > _SHOWN_CHARACTERS:
            return f"{text[:_SHOWN_CHARACTERS]}..."
    return text


def read_examples(body: Mapping[str, Any], request: Any) -> None:
    """Fills a Classify or Regress request's `input` from `examples` and `context`.

    Raises:
        RequestError: INVALID_ARGUMENT, an example is not a flat object of values or lists.
    """
    examples = body.get("examples")
    if not isinstance(examples, list) or not examples:
        raise invalid(
            f"JSON Value: {_shown(body)} When method is classify or regress, key 'examples' is expected: "
            "a list that is not empty"
        )
    target = request.input.example_list
    if "context" in body:
        target = request.input.example_list_with_context
        _fill_example(target.context, body["context"])
    for example in examples:
        _fill_example(target.examples.add(), example)


def _fill_example(example: Any, value: Any) -> None:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got {_shown(value)}")
    for name, content in value.items():
        _fill_feature(
            example.features.feature[name], name, content if isinstance(content, list) else [content]
        )


def _fill_feature(feature: Any, name: str, items: Sequence[Any]) -> None:
    kinds = {type(item) for item in items}
    if kinds <= {int, bool}:
        if any(not -(1 << 63) <= item < 1 << 63 for item in items):
            raise invalid(f"Feature: {name} has element beyond int64. Only int64 is supported.")
        feature.int64_list.value.extend(int(item) for item in items)
    elif kinds == {float}:
        _check_precision(list(items), tf.float32, f"Feature: {name}")
        feature.float_list.value.extend(items)
    elif all(isinstance(item, str) or _is_base64(item) for item in items):
        feature.bytes_list.value.extend(_as_bytes(item, f"Feature: {name}") for item in items)
    else:
        raise invalid(
            f"Feature: {name} has elements of unexpected or of different JSON types: {_shown(items)}"
        )


def write_outputs(outputs: Mapping[str, np.ndarray], row_form: bool) -> str:
    """A Predict answer: `predictions` in row form, `outputs` in column form.

    Raises:
        RequestError: INVALID_ARGUMENT, outputs without a common first dimension in row form.
    """
    if not row_form:
        texts = {name: _json(name, array, 0)[0] for name, array in outputs.items()}
        only = next(iter(texts.values())) if len(texts) == 1 else None
        return f'{{"outputs": {only or _object(texts)}}}'
    sizes = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
    for name, size in sizes.items():
        if size is None:
            raise invalid(f"Tensor name: {name} has no shape information")
        if size != next(iter(sizes.values())):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {size}")
    rows = {name: _json(name, array, 1) for name, array in outputs.items()}
    if len(rows) == 1:
        items = next(iter(rows.values()))
    else:
        items = [_object(dict(zip(rows, row, strict=True))) for row in zip(*rows.values(), strict=True)]
    return f'{{"predictions": [{", ".join(items)}]}}'


def _object(texts: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}"


def _json(name: str, array: np.ndarray, keep: int) -> list[str]:
    """JSON texts of an array's parts along its first `keep` dimensions."""
    texts = _leaves(name, array)
    for axis in reversed(range(keep, array.ndim)):
        size = array.shape[axis]
        count = prod(array.shape[:axis])
        texts = [f"[{', '.join(texts[start * size : (start + 1) * size])}]" for start in range(count)]
    return texts


def _leaves(name: str, array: np.ndarray) -> list[str]:
    flat = array.ravel()
    if flat.dtype == object:
        if name.endswith(_BYTES_SUFFIX):
            return [f'{{"b64": "{base64.b64encode(item).decode()}"}}' for item in flat]
        return [json.dumps(item.decode("utf-8", "replace"), ensure_ascii=False) for item in flat]
    if flat.dtype == bool:
        return ["true" if item else "false" for item in flat.tolist()]
    if np.issubdtype(flat.dtype, np.integer):
        return list(map(str, flat.tolist()))
    if flat.dtype.name == "bfloat16":
        flat = flat.astype(np.float32)
    if not np.issubdtype(flat.dtype, np.floating):
        raise invalid(f"Failed to write JSON value for tensor type: {flat.dtype}")
    return numbers(flat)


_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def numbers(flat: np.ndarray) -> list[str]:
    """Floats as JSON: the fewest digits that read back to the same value of the same type.

    Whole numbers keep a `.0`, so that a reader takes a list for floats throughout.
    """
    texts: list[str] = flat.astype("U").tolist()
    return texts if np.isfinite(flat).all() else [_SPECIAL.get(text, text) for text in texts]


def write_classification(result: Any) -> str:
    """`results`: per example a list of [label, score]."""
    rows = []
    for item in result.classifications:
        scores = numbers(np.array([entry.score for entry in item.classes], np.float32))
        pairs = [
            f"[{json.dumps(entry.label)}, {text}]" for entry, text in zip(item.classes, scores, strict=True)
        ]
        rows.append(f"[{', '.join(pairs)}]")
    return f'{{"results": [{", ".join(rows)}]}}'


def write_regression(result: Any) -> str:
    """`results`: per example a number."""
    values = np.array([item.value for item in result.regressions], np.float32)
    return f'{{"results": [{", ".join(numbers(values))}]}}'
