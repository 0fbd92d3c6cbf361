"""What a user of TFX would run instead of our data part: stock components, default settings.

read(Path("csv/rows.csv"), target)      # CsvExampleGen or ImportExampleGen alone
chain(Path("csv/rows.csv"), target)     # ExampleGen, StatisticsGen, SchemaGen, Transform
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import taxi_like

MODEL = {
    "family": "tabular",
    "crosses": [["trip_start_hour", "payment_type"]],
    "categorical": ["pickup_area"],
}
"""The model whose preprocessing both sides run."""


def _output_config() -> Any:
    from tfx.proto import example_gen_pb2

    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=share) for name, share in taxi_like.SHARES
    ]
    return example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=splits))


def read(source: Path, target: Path) -> None:
    """The stock ExampleGen's work on one file."""
    import apache_beam as beam
    from tfx.components.example_gen.csv_example_gen.executor import Executor as CsvExecutor
    from tfx.components.example_gen.import_example_gen.executor import Executor as ImportExecutor
    from tfx.dsl.components.base import base_beam_executor
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    examples = standard_artifacts.Examples()
    examples.uri = str(target)
    files = example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern=source.name)])
    context = base_beam_executor.BaseBeamExecutor.Context(
        make_beam_pipeline_fn=lambda: beam.Pipeline(runner="FnApiRunner"), tmp_dir=str(target)
    )
    executor = CsvExecutor(context) if source.suffix == ".csv" else ImportExecutor(context)
    executor.Do(
        {},
        {"examples": [examples]},
        {
            "input_base": str(source.parent),
            "input_config": proto_utils.proto_to_json(files),
            "output_config": proto_utils.proto_to_json(_output_config()),
            "output_data_format": example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE,
        },
    )


def chain(source: Path, target: Path) -> None:
    """The four stock components under LocalDagRunner, with the preprocessing that ours runs."""
    from tfx import v1 as tfx
    from tfx.proto import transform_pb2

    from pipelines import create
    from pipelines.config import from_mapping

    target.mkdir(parents=True)
    example_gen = tfx.components.CsvExampleGen if source.suffix == ".csv" else tfx.components.ImportExampleGen
    gen = example_gen(input_base=str(source.parent), output_config=_output_config())
    statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"], infer_feature_shape=True)
    data = {"path": str(source), "label": taxi_like.LABEL}
    told = create._inputs(from_mapping({"name": "bench", "data": data, "model": MODEL}))
    transform = tfx.components.Transform(
        examples=gen.outputs["examples"],
        schema=schema.outputs["schema"],
        preprocessing_fn="modules.tabular.preprocessing.preprocessing_fn",
        splits_config=transform_pb2.SplitsConfig(analyze=["train"], transform=["train", "validation"]),
        custom_config=told,
    )
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="stock",
        pipeline_root=str(target / "root"),
        components=[gen, statistics, schema, transform],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(target / "metadata.db")
        ),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)
