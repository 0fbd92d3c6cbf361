"""Raw Examples that show how a model encodes its inputs: every word that it knows, and numbers of all sizes.

probes = examples(raw_spec, {"colour": [b"red", b"blue"]})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

_NUMBERS = (-1000.0, -10.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 1000.0, 1e4, 1e6)
_UNKNOWN = b"no such word"
_MOST = 2000


def examples(spec: Mapping[str, Any], words: Mapping[str, Sequence[bytes]]) -> list[bytes]:
    """Serialized Examples with one value of each feature.

    Args:
        spec: raw feature -> its parsing specification.
        words: feature -> what its values are drawn from, by turns; at most the first 2,000.
    """
    count = min(max([len(_NUMBERS), *map(len, words.values())]), _MOST)
    return [
        tf.train.Example(
            features=tf.train.Features(
                feature={name: _feature(item.dtype, words.get(name, ()), row) for name, item in spec.items()}
            )
        ).SerializeToString()
        for row in range(count)
    ]


def _feature(dtype: tf.DType, words: Sequence[bytes], row: int) -> Any:
    value: Any = words[row % len(words)] if words else None
    if dtype == tf.string:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value or _UNKNOWN]))
    number = float(value) if value else _NUMBERS[row % len(_NUMBERS)]
    if dtype == tf.int64:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(number)]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[number]))
