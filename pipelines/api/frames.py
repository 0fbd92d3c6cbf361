"""Serialized tf.train.Examples as a data frame, and back.

frame = from_examples(records)      # a column per feature
to_examples(frame)                  # what a servable takes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def from_examples(records: Iterable[bytes]) -> pd.DataFrame:
    """A row per example: single values bare, several as a list, missing ones as None or NaN.

    Columns that hold nothing but UTF-8 are text, other strings bytes. Columns of whole numbers with gaps are
    Int64. So `to_examples` gives back what was read.
    """
    import pandas as pd

    rows = [_values(record) for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> Any:
    import pandas as pd

    given = [value for value in values if value is not None]
    if given and len(given) < len(values) and all(isinstance(value, int) for value in given):
        return pd.array(values, dtype="Int64")
    try:
        return pd.Series([_decoded(value) for value in values], dtype=None if given else object)
    except UnicodeDecodeError:
        return pd.Series(values)


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def to_examples(frame: pd.DataFrame) -> list[bytes]:
    """A serialized tf.train.Example per row; what is missing there is missing in it.

    Raises:
        InputError: a value is no bytes, text, number, or list of such.
    """
    rows = frame.to_dict(orient="records")
    return [_example({str(name): value for name, value in row.items()}) for row in rows]


def _values(record: bytes) -> dict[str, Any]:
    import tensorflow as tf

    found = {}
    for name, feature in tf.train.Example.FromString(record).features.feature.items():
        values = list(getattr(feature, feature.WhichOneof("kind") or "bytes_list").value)
        found[name] = values[0] if len(values) == 1 else values or None
    return found


def _example(row: Mapping[str, Any]) -> bytes:
    import tensorflow as tf

    features = {}
    for name, value in row.items():
        values = _listed(value)
        if values:
            features[name] = _feature(name, values)
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
        deterministic=True
    )


def _listed(value: Any) -> list[Any]:
    import pandas as pd

    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if pd.isna(value) else [value]


def _feature(name: str, values: list[Any]) -> Any:
    import tensorflow as tf

    values = [value.encode() if isinstance(value, str) else value for value in values]
    if all(isinstance(value, bytes) for value in values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if all(isinstance(value, Integral) for value in values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if all(isinstance(value, Real) for value in values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    raise InputError(
        f"A value is no bytes, text or number: {values[0]!r}",
        place=f"column {name}",
        remedy="Leave the column out, or turn its values into one of these.",
    )
