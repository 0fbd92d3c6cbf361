"""Says what is wrong with a record, or nothing.

reason = fault(record, rules)     # None, or a sentence
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from components import images
from components.example_gen.request import FeatureRule

_LISTS = {
    "image": "bytes_list",
    "text": "bytes_list",
    "string": "bytes_list",
    "int": "int64_list",
    "float": "float_list",
    "any": None,
}
_NAMES = {"bytes_list": "bytes", "int64_list": "integers", "float_list": "floats"}


def parse(record: bytes) -> tf.train.Example | None:
    """The Example in these bytes, or None where they are none."""
    try:
        return tf.train.Example.FromString(record)
    except DecodeError:
        return None


def fault(record: bytes, rules: Sequence[FeatureRule]) -> str | None:
    """Why a record cannot be used: one sentence, or None where it can."""
    example = parse(record)
    if example is None or not example.features.feature:
        return "it is no tf.train.Example with features"
    for rule in rules:
        reason = _feature_fault(example, rule)
        if reason:
            return reason
    return None


def _feature_fault(example: tf.train.Example, rule: FeatureRule) -> str | None:
    if rule.name not in example.features.feature:
        present = ", ".join(sorted(example.features.feature)) or "none"
        return f"feature {rule.name!r} is missing; present: {present}"
    feature = example.features.feature[rule.name]
    wanted = _LISTS[rule.kind]
    got = feature.WhichOneof("kind")
    if got is None or not getattr(feature, got).value:
        return f"feature {rule.name!r} is empty"
    if wanted is not None and got != wanted:
        return f"feature {rule.name!r} should hold {_NAMES[wanted]}; received {_NAMES[got]}"
    values = getattr(feature, got).value
    if len(values) != 1:
        return f"feature {rule.name!r} should hold one value; received {len(values)}"
    if rule.kind in ("string", "any") and got == "bytes_list" and not _is_utf8(values[0]):
        return f"feature {rule.name!r} is no UTF-8 text"
    if rule.kind == "text":
        return _text_fault(rule.name, values[0])
    return _image_fault(rule.name, values[0]) if rule.kind == "image" else None


def _is_utf8(encoded: bytes) -> bool:
    try:
        encoded.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _text_fault(name: str, encoded: bytes) -> str | None:
    if not _is_utf8(encoded):
        return f"feature {name!r} is no UTF-8 text"
    return None if encoded.decode("utf-8").strip() else f"feature {name!r} is blank"


def _image_fault(name: str, encoded: bytes) -> str | None:
    reason = images.fault(encoded, images.MAX_PIXELS)
    if reason not in (None, images.UNREADABLE):
        return f"feature {name!r}: {reason}"
    try:
        if reason is None:
            tf.io.decode_image(encoded, expand_animations=False)
            return None
    except tf.errors.InvalidArgumentError:
        pass
    return f"feature {name!r} is no JPEG, PNG, GIF or BMP image that decodes ({len(encoded)} bytes)"


def without(record: bytes, features: Sequence[str]) -> bytes:
    """The record less some features."""
    if not features:
        return record
    example = tf.train.Example.FromString(record)
    for name in features:
        example.features.feature.pop(name, None)
    return bytes(example.SerializeToString(deterministic=True))


def label_of(record: bytes, label: str) -> str:
    """The label of a record without fault, as text."""
    feature = tf.train.Example.FromString(record).features.feature[label]
    value = getattr(feature, feature.WhichOneof("kind")).value[0]
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
