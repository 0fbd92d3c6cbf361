"""Readers: one file in, numbered records out, and never a silent end.

for number, record in read_tfrecord(path): ...     # raises DataError with the record's number
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tensorflow as tf

from components.errors import DataError

Reader = Callable[[str], Iterator[tuple[int, bytes]]]
_GZIP_MAGIC = b"\x1f\x8b"


def read_tfrecord(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields (number from 0, serialized record) of a plain or gzipped TFRecord file.

    Raises:
        DataError: the file cannot be opened, is cut off, or a checksum differs.
    """
    number = 0
    try:
        dataset = tf.data.TFRecordDataset(path, compression_type=_compression(path))
        for record in dataset.as_numpy_iterator():
            yield number, record
            number += 1
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError) as error:
        raise DataError(
            f"A TFRecord file is damaged: {_first_line(error)}",
            place=f"{path}, record {number}",
            remedy="Write or copy the file again; the records before this one are sound.",
        ) from error
    except (tf.errors.OpError, OSError) as error:
        raise DataError(
            f"A file cannot be read: {_first_line(error)}",
            place=path,
            remedy="Check the path and its permissions.",
        ) from error


def _compression(path: str) -> str:
    with tf.io.gfile.GFile(path, "rb") as file:
        return "GZIP" if file.read(2) == _GZIP_MAGIC else ""


def _first_line(error: Exception) -> str:
    text = getattr(error, "message", "") or str(error)
    return text.splitlines()[0].split(" [Op:")[0] if text else type(error).__name__


READERS: dict[str, Reader] = {"tfrecord": read_tfrecord}
