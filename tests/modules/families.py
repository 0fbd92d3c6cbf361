"""Trains a family's model from raw rows as the chain does: Transform, then its Trainer."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

SERVE = """
import json, sys
import numpy as np, tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
signature = model.signatures[sys.argv[2]]
raw = list(np.load(sys.argv[3], allow_pickle=True)["raw"])
answer = signature(**{sys.argv[4]: tf.constant(raw)})
print(json.dumps({name: value.numpy().tolist() for name, value in answer.items()
                  if value.dtype != tf.string}))
assert not [name for name in sys.modules if name.split(".")[0] in ("modules", "components", "pipelines")]
"""
"""Answers a signature in plain TensorFlow; none of our packages may be imported."""


@dataclass(frozen=True)
class Trained:
    """What a Trainer left.

    Attributes:
        saved_model: the serving SavedModel.
        keras: the `.keras` file.
        transform: the Transform output's folder.
        run: the `model_run` folder.
    """

    saved_model: Path
    keras: Path
    transform: Path
    run: Path


def train(
    family: str,
    records: Sequence[bytes],
    raw_spec: Mapping[str, Any],
    told: Mapping[str, Any],
    inputs: Mapping[str, Any],
    folder: Path,
) -> Trained:
    """Transforms serialized Examples and trains on them; the same ones are train and validation split.

    Args:
        family: `image`, `tabular`.
        records: the Examples.
        raw_spec: how they are parsed.
        told: the trainer's `custom_config`.
        inputs: Transform's `custom_config`.
        folder: empty.
    """
    _transform(family, records, raw_spec, inputs, folder)
    return train_again(family, told, folder, folder)


def train_again(family: str, told: Mapping[str, Any], transformed: Path, folder: Path) -> Trained:
    """Trains on what `train` transformed in another folder."""
    arguments = SimpleNamespace(
        custom_config=dict(told),
        transform_output=str(transformed / "transform"),
        transform_graph_path=str(transformed / "transform"),
        base_model=None,
        train_files=[str(transformed / "transformed*")],
        eval_files=[str(transformed / "transformed*")],
        serving_model_dir=str(folder / "model" / "Format-Serving"),
        model_run_dir=str(folder / "run"),
    )
    importlib.import_module(f"modules.{family}.trainer").run_fn(arguments)
    return Trained(
        folder / "model" / "Format-Serving",
        folder / "model" / "keras" / "model.keras",
        transformed / "transform",
        folder / "run",
    )


def _transform(
    family: str,
    records: Sequence[bytes],
    raw_spec: Mapping[str, Any],
    inputs: Mapping[str, Any],
    folder: Path,
) -> None:
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils
    from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
    from tfx_bsl.tfxio import tf_example_record

    schema = schema_utils.schema_from_feature_spec(dict(raw_spec))
    preprocess = importlib.import_module(f"modules.{family}.preprocessing").preprocessing_fn
    source = tf_example_record.TFExampleBeamRecord(physical_format="inmem", schema=schema)
    with beam.Pipeline(runner="FnApiRunner") as pipeline, tft_beam.Context(temp_dir=str(folder / "scratch")):
        rows = pipeline | beam.Create(records) | source.BeamSource()
        (data, metadata), transform_fn = (
            rows,
            source.TensorAdapterConfig(),
        ) | tft_beam.AnalyzeAndTransformDataset(
            lambda features: preprocess(features, dict(inputs)), output_record_batches=True
        )
        _ = transform_fn | tft_beam.WriteTransformFn(str(folder / "transform"))
        encoder = RecordBatchToExamplesEncoder(metadata.schema)
        _ = (
            data
            | beam.FlatMapTuple(lambda batch, _: encoder.encode(batch))
            | beam.io.WriteToTFRecord(str(folder / "transformed"), file_name_suffix=".gz", num_shards=1)
        )
    raw = dataset_metadata.DatasetMetadata(schema)
    metadata_io.write_metadata(raw, str(folder / "transform" / "metadata"))


def served(trained: Trained, signature: str, name: str, raw: Sequence[bytes], folder: Path) -> dict[str, Any]:
    """The answer of a process that has nothing but TensorFlow."""
    values = np.empty(len(raw), object)
    values[:] = list(raw)
    np.savez(folder / "raw.npz", raw=values)
    command = [
        sys.executable,
        "-c",
        SERVE,
        str(trained.saved_model),
        signature,
        str(folder / "raw.npz"),
        name,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, check=False, env=_environment()
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
