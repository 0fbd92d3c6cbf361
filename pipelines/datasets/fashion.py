"""Fashion-MNIST as sharded TFRecords with PNGs, from Debian's package.

folder = write(workspace.data / "fashion")     # once; later calls find it there
"""

from __future__ import annotations

import gzip
import struct
import tempfile
from pathlib import Path
from typing import Any

from pipelines.datasets.digits import example
from pipelines.datasets.placing import put_in_place
from pipelines.errors import InputError

PACKAGE = "dataset-fashion-mnist"
SOURCE = Path("/usr/share/datasets/fashion-mnist")
NAMES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
SPLITS = {"train": ("train", 60_000), "test": ("t10k", 10_000)}
SHARDS = {"train": 6, "test": 1}
_DONE = "README"
_MAGIC = {1: 2049, 3: 2051}
"""Number of dimensions -> what a file of bytes begins with."""


def write(folder: Path, source: Path = SOURCE) -> Path:
    """Writes 70,000 pictures as `<split>/fashion-*.tfrecord` and returns their folder.

    Each record is a tf.train.Example with `image`, an encoded 28 x 28 grey PNG,
    and `label`, a class name (Xiao et al., 2017, arXiv:1708.07747). The test
    split is the authors'.

    Raises:
        InputError: the package's files are not there, or damaged.
    """
    if (folder / _DONE).exists():
        return folder
    arrays = {split: _read(source, split) for split in SPLITS}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch, folder.name)
        for split, (images, labels) in arrays.items():
            _write_split(made / split, images, labels, SHARDS[split])
        (made / _DONE).write_text("Fashion-MNIST: features `image` (PNG) and `label`.\n")
        put_in_place(made, folder, _DONE)
    return folder


def _write_split(folder: Path, images: Any, labels: Any, shards: int) -> None:
    import tensorflow as tf

    folder.mkdir(parents=True)
    for shard in range(shards):
        path = folder / f"fashion-{shard:05d}-of-{shards:05d}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for pixels, label in zip(images[shard::shards], labels[shard::shards], strict=True):
                writer.write(example(_png(pixels), NAMES[label]))


def _png(pixels: Any) -> bytes:
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def _read(source: Path, split: str) -> tuple[Any, Any]:
    """Pictures (N, 28, 28) uint8 and class ids (N,) uint8."""
    prefix, count = SPLITS[split]
    images = _idx(source / f"{prefix}-images-idx3-ubyte.gz", (count, 28, 28))
    return images, _idx(source / f"{prefix}-labels-idx1-ubyte.gz", (count,))


def _idx(path: Path, shape: tuple[int, ...]) -> Any:
    """An array of bytes in the IDX format: a magic number, the sizes, the values."""
    import numpy as np

    try:
        with gzip.open(path) as file:
            content = file.read(4 * (1 + len(shape)) + int(np.prod(shape)) + 1)
    except FileNotFoundError as error:
        raise InputError(
            "Fashion-MNIST is not on this machine",
            place=str(path),
            remedy=f"Install it (apt-get install {PACKAGE}), or put the four .gz files of "
            f"github.com/zalandoresearch/fashion-mnist into {path.parent}.",
        ) from error
    except (OSError, EOFError) as error:
        raise InputError(f"A file of Fashion-MNIST is damaged: {error}", place=str(path)) from error
    header = struct.pack(f">{1 + len(shape)}I", _MAGIC[len(shape)], *shape)
    if not content.startswith(header) or len(content) != len(header) + int(np.prod(shape)):
        raise InputError(
            "A file of Fashion-MNIST is not what it should be",
            place=str(path),
            remedy=f"Expected {shape} bytes in the IDX format. Install the package {PACKAGE} again.",
        )
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)
