"""Images per second of the training input, beside a bare loop that reads and decodes the same JPEGs.

    python -m bench.input_pipeline [--quick] [--images FOLDER]

Also where decoding should go: encoded images passed through Transform and
decoded in every epoch, beside images decoded by Transform as bytes and as
floats; CPU seconds of Transform, disk, and images per CPU second of an epoch,
the first and those that a cache in memory serves, which is the default.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.common import Figure, interleaved, print_table, report

FEATURE, LABEL = "image", "label"
SIDES = (96, 224)
"""Pixels that images are brought to; the figure is that of the first, which `photos` uses."""

_HEIGHT, _WIDTH = 533, 400
_BATCH = 64
_EPOCHS = 3


@dataclass(frozen=True)
class Speed:
    """Images per second by the clock, and per second of CPU, which other programs disturb less."""

    per_s: float
    per_cpu_s: float


def make_images(folder: Path, count: int) -> list[Path]:
    """Writes JPEGs of the size of photos from a phone's gallery: soft shapes, and grain."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(5)
    folder.mkdir(parents=True)
    paths = []
    for number in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (20, 15, 3), np.uint8))
        soft = np.asarray(coarse.resize((_WIDTH, _HEIGHT), Image.Resampling.BICUBIC), np.float32)
        grainy = soft + random.normal(0, 4, soft.shape)
        buffer = io.BytesIO()
        Image.fromarray(np.clip(grainy, 0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=88)
        paths.append(folder / f"{number:05d}.jpg")
        paths[-1].write_bytes(buffer.getvalue())
    return paths


def write_records(paths: Sequence[Path], target: Path) -> None:
    """The images as Transform leaves them: gzipped Examples in two files."""
    import tensorflow as tf

    target.mkdir(parents=True)
    options = tf.io.TFRecordOptions("GZIP")
    for part in range(2):
        with tf.io.TFRecordWriter(str(target / f"part-{part}.gz"), options) as writer:
            for number, path in enumerate(paths[part::2]):
                writer.write(_example(path.read_bytes(), number % 10))


def _example(encoded: bytes, label: int) -> bytes:
    import tensorflow as tf

    features = {
        FEATURE: tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
        LABEL: tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def bare_loop(paths: Sequence[Path]) -> Speed:
    """Reading and decoding alone, on all cores."""
    import tensorflow as tf

    names = [str(path) for path in paths]
    decoded = (
        tf.data.Dataset.from_tensor_slices(names)
        .repeat(_EPOCHS)
        .map(
            lambda name: tf.io.decode_jpeg(tf.io.read_file(name), channels=3),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    )
    return _speed(decoded.prefetch(tf.data.AUTOTUNE), _EPOCHS * len(names))


def our_input(patterns: Sequence[str], count: int, side: int) -> Speed:
    """Batches as a trainer gets them, without cache and augmentation."""
    import tensorflow as tf

    from modules.hparams.train import TrainHparams
    from modules.image.decode import decode_image
    from modules.training import splits

    sources = splits.Sources(
        train=patterns,
        validation=patterns[:1],
        features={FEATURE: tf.io.FixedLenFeature([], tf.string)},
        label=(LABEL, tf.io.FixedLenFeature([], tf.int64)),
        class_names=[str(number) for number in range(10)],
        to_input=lambda features: decode_image(features[FEATURE], height=side, width=side, channels=3),
    )
    train = TrainHparams(batch_size=_BATCH, cache="off")
    loaded = splits.load(sources, train, augment=None, work_folder="")
    return _speed(loaded.stream.batches(epoch=0, step=0, epochs=_EPOCHS), _EPOCHS * count)


def _speed(dataset: Any, count: int) -> Speed:
    began, used = time.perf_counter(), time.process_time()
    for _ in dataset:
        pass
    return Speed(count / (time.perf_counter() - began), count / (time.process_time() - used))


def materialised(kind: str, source: Path, target: Path, side: int) -> dict[str, float]:
    """Transforms the records, then reads an epoch of them.

    Args:
        kind: `encoded`, `bytes` (decoded, rounded) or `floats` (decoded).
        source: folder of raw records.
        target: folder to write into.
        side: pixels.

    Returns:
        CPU seconds of Transform, megabytes, and images per CPU second of the first epoch
        and of one from a cache in memory.
    """
    import tensorflow as tf

    began = time.process_time()
    _transform(kind, source, target, side)
    seconds = time.process_time() - began
    files = sorted(target.glob("*.gz"))
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    to_pixels, spec = _stored(kind, side)
    records = tf.data.TFRecordDataset([str(path) for path in files], "GZIP", num_parallel_reads=2)
    parsed = records.batch(256).map(
        lambda batch: tf.io.parse_example(batch, {FEATURE: spec})[FEATURE],
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    pixels = parsed.unbatch().map(to_pixels, num_parallel_calls=tf.data.AUTOTUNE).cache()
    batches = pixels.batch(_BATCH).prefetch(4)
    count = sum(1 for _ in records)
    first, later = (_speed(batches, count).per_cpu_s for _ in range(2))
    return {"transform_cpu_s": seconds, "mb": megabytes, "first_epoch": first, "later_epochs": later}


def _stored(kind: str, side: int) -> tuple[Callable[[Any], Any], Any]:
    """From what is stored to pixels, and how it is parsed."""
    import tensorflow as tf

    from modules.image.decode import decode_image

    text = tf.io.FixedLenFeature([], tf.string)
    if kind == "encoded":
        return partial(decode_image, height=side, width=side, channels=3), text
    if kind == "bytes":
        return lambda raw: tf.cast(
            tf.reshape(tf.io.decode_raw(raw, tf.uint8), (side, side, 3)), tf.float32
        ), text
    return lambda values: tf.reshape(values, (side, side, 3)), tf.io.FixedLenFeature(
        [side * side * 3], tf.float32
    )


def _transform(kind: str, source: Path, target: Path, side: int) -> None:
    """What TFX's Transform does with a preprocessing function, on records of images."""
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.coders import example_coder
    from tfx_bsl.public import tfxio

    schema = schema_pb2.Schema()
    for name, kind_of in ((FEATURE, schema_pb2.BYTES), (LABEL, schema_pb2.INT)):
        feature = schema.feature.add(name=name, type=kind_of)
        feature.presence.min_fraction = 1.0
        feature.shape.dim.add(size=1)
    records = tfxio.TFExampleRecord(f"{source}/*.gz", telemetry_descriptors=["bench"], schema=schema)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        context = tft_beam.Context(temp_dir=scratch)
        with context, beam.Pipeline(runner="FnApiRunner") as pipeline:
            raw = (pipeline | records.BeamSource(), records.TensorAdapterConfig())
            (batches, _), _ = raw | tft_beam.AnalyzeAndTransformDataset(
                partial(_preprocess, kind=kind, side=side), output_record_batches=True
            )
            _ = (
                batches
                | beam.FlatMap(lambda item: example_coder.RecordBatchToExamples(item[0]))
                | beam.io.WriteToTFRecord(str(target / "part"), file_name_suffix=".gz")
            )


def _preprocess(inputs: dict[str, Any], *, kind: str, side: int) -> dict[str, Any]:
    import tensorflow as tf

    from modules.image.decode import decode_images

    encoded = tf.reshape(inputs[FEATURE], [-1])
    if kind == "encoded":
        return {FEATURE: encoded, LABEL: inputs[LABEL]}
    pixels = decode_images(encoded, height=side, width=side, channels=3)
    if kind == "floats":
        return {FEATURE: tf.reshape(pixels, [-1, side * side * 3]), LABEL: inputs[LABEL]}
    rounded = tf.cast(tf.round(tf.clip_by_value(pixels, 0.0, 255.0)), tf.uint8)
    raw = tf.map_fn(
        lambda one: tf.strings.reduce_join(tf.gather(_BYTES, tf.cast(tf.reshape(one, [-1]), tf.int32))),
        rounded,
        fn_output_signature=tf.string,
    )
    return {FEATURE: raw, LABEL: inputs[LABEL]}


_BYTES = [bytes([value]) for value in range(256)]


def main() -> None:
    """Measures all; the figure's goal is 0.9 of the bare loop."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="500 images, three rounds.")
    parser.add_argument("--images", type=Path, help="Folder of JPEGs to measure with, at any depth.")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from components import beam_worker

    beam_worker.prepare()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        count = 500 if options.quick else 3_000
        found = sorted(options.images.rglob("*.jpg")) if options.images else []
        paths = found or make_images(root / "images", count)
        write_records(paths, root / "records")
        figures = _speeds(paths, root / "records", rounds=3 if options.quick else 7)
        places = {f"{side} pixels": _places(root, side) for side in SIDES}
    report("input_pipeline", figures, {"images": len(paths), "decoding": places})


def _speeds(paths: Sequence[Path], records: Path, rounds: int) -> list[Figure]:
    patterns = [str(path) for path in sorted(records.glob("*.gz"))]
    measures = {"bare": partial(bare_loop, paths)}
    measures |= {str(side): partial(our_input, patterns, len(paths), side) for side in SIDES}
    values = interleaved(rounds + 1, measures)
    # The first round fills the page cache and traces the graphs.
    kept = {name: numbers[1:] for name, numbers in values.items()}
    first, second = (str(side) for side in SIDES)
    clock = {name: [speed.per_s for speed in speeds] for name, speeds in kept.items()}
    cpu = {name: [speed.per_cpu_s for speed in speeds] for name, speeds in kept.items()}
    return [
        Figure.of("input_vs_bare_decode", clock[first], clock["bare"], "images/s", ">= 0.9"),
        Figure.of("input_vs_bare_decode_cpu", cpu[first], cpu["bare"], "images/CPU s"),
        Figure.of(f"input_at_{second}_vs_bare_decode", clock[second], clock["bare"], "images/s"),
        Figure.of(f"input_at_{second}_vs_bare_decode_cpu", cpu[second], cpu["bare"], "images/CPU s"),
    ]


def _places(root: Path, side: int) -> dict[str, dict[str, float]]:
    kinds = ("encoded", "bytes", "floats")
    found = {kind: materialised(kind, root / "records", root / f"{kind}-{side}", side) for kind in kinds}
    rows = [
        (
            kind,
            f"{item['transform_cpu_s']:.1f}",
            f"{item['mb']:.1f}",
            f"{item['first_epoch']:,.0f}",
            f"{item['later_epochs']:,.0f}",
        )
        for kind, item in found.items()
    ]
    columns = (
        "stored by Transform",
        "CPU s of Transform",
        "MB",
        "images/CPU s, first epoch",
        "later, cached",
    )
    print_table(f"Where decoding goes, at {side} pixels", columns, rows)
    return found


if __name__ == "__main__":
    main()
