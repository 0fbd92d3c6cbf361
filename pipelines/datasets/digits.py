"""scikit-learn's digits as sharded TFRecords with PNGs.

folder = write(workspace.data / "digits")     # once; later calls find it there
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from components import heap
from pipelines.datasets.placing import put_in_place

SHARDS = 4
_DONE = "README"


def write(folder: Path) -> Path:
    """Writes 1,797 scans as `digits-*.tfrecord` and returns their folder.

    Each record is a tf.train.Example with `image`, an encoded 8 x 8 grey PNG
    (E. Alpaydin and C. Kaynak, UCI, 1998; the copy in scikit-learn's wheel,
    whose 17 grey levels are spread over 0..255), and `label`, "0" to "9".
    """
    if (folder / _DONE).exists():
        return folder
    with heap.importing("sklearn.datasets"):
        import sklearn.datasets  # noqa: F401
        import tensorflow as tf

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch, "digits")
        made.mkdir()
        records = list(_records())
        for shard in range(SHARDS):
            path = made / f"digits-{shard:05d}-of-{SHARDS:05d}.tfrecord"
            with tf.io.TFRecordWriter(str(path)) as writer:
                for record in records[shard::SHARDS]:
                    writer.write(record)
        (made / _DONE).write_text("scikit-learn's digits: features `image` (PNG) and `label`.\n")
        put_in_place(made, folder, _DONE)
    return folder


def _records() -> Iterator[bytes]:
    from sklearn.datasets import load_digits

    data = load_digits()
    for pixels, target in zip(data.images, data.target, strict=True):
        yield example(png(pixels), str(target))


def png(pixels: object) -> bytes:
    """A grey PNG of an (H, W) array of 0..16."""
    import numpy as np
    from PIL import Image

    grey = np.round(np.asarray(pixels) * (255 / 16)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, format="PNG")
    return buffer.getvalue()


def example(image: bytes, label: str) -> bytes:
    """A serialized tf.train.Example with an image and a label."""
    import tensorflow as tf

    def feature(value: bytes) -> object:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    features = {"image": feature(image), "label": feature(label.encode())}
    message = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(message.SerializeToString(deterministic=True))
