"""The digits chain as a user of stock TFX would write it: module files, default arguments, LocalDagRunner.

    python -m bench.overhead_stock DATA OUT EPOCHS

The module file runs our own preprocessing and training, so that the chains
differ in nothing but how TFX is used. Stock TFX has no rewriting, and its
infra validation wants Docker; it has neither here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2
from tfx import v1 as tfx
from tfx.proto import example_gen_pb2

from pipelines import config

MODULE = """
from modules.image.preprocessing import preprocessing_fn
from modules.image.trainer import run_fn
"""
SHARES = {"train": 6, "validation": 2, "test": 2}


def _trainer_config(out: Path, epochs: int) -> tuple[dict[str, object], dict[str, object]]:
    """What preprocessing and the trainer are told: as our own chain tells them."""
    from pipelines import create

    experiment = config.load("digits", [f"train.epochs={epochs}"])
    hparams = create._hparams(experiment)
    return create._inputs(experiment), {**hparams, "state_root": str(out / "state")}


def pipeline(data: Path, out: Path, epochs: int) -> tfx.dsl.Pipeline:
    """Eight nodes."""
    module = out / "module" / "digits_module.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(MODULE)
    inputs, hparams = _trainer_config(out, epochs)
    splits = [example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=n) for name, n in SHARES.items()]
    examples = tfx.components.ImportExampleGen(
        input_base=str(data),
        input_config=example_gen_pb2.Input(
            splits=[example_gen_pb2.Input.Split(name="all", pattern="*.tfrecord")]
        ),
        output_config=example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=splits)),
    )
    statistics = tfx.components.StatisticsGen(examples=examples.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    validator = tfx.components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    transform = tfx.components.Transform(
        examples=examples.outputs["examples"],
        schema=schema.outputs["schema"],
        module_file=str(module),
        custom_config=inputs,
        splits_config=tfx.proto.SplitsConfig(analyze=["train"], transform=["train", "validation"]),
    )
    trainer = tfx.components.Trainer(
        module_file=str(module),
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema.outputs["schema"],
        train_args=tfx.proto.TrainArgs(splits=["train"]),
        eval_args=tfx.proto.EvalArgs(splits=["validation"]),
        custom_config=hparams,
    )
    evaluator = tfx.components.Evaluator(
        examples=examples.outputs["examples"],
        model=trainer.outputs["model"],
        example_splits=["test"],
        eval_config=_eval_config(),
    )
    pusher = tfx.components.Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(out / "serving"))
        ),
    )
    return tfx.dsl.Pipeline(
        pipeline_name="stock",
        pipeline_root=str(out / "root"),
        components=[examples, statistics, schema, validator, transform, trainer, evaluator, pusher],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(out / "metadata.db")
        ),
    )


def _eval_config() -> tfma.EvalConfig:
    """Overall and per class. TFMA reads classes and scores of texts, and binarizes by class."""
    return tfma.EvalConfig(
        model_specs=[tfma.ModelSpec(signature_name="serving_default", label_key="label")],
        slicing_specs=[tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=["label"])],
        metrics_specs=[
            tfma.MetricsSpec(
                metrics=[
                    tfma.MetricConfig(
                        class_name="ExampleCount",
                        threshold=tfma.MetricThreshold(
                            value_threshold=tfma.GenericValueThreshold(lower_bound={"value": 1})
                        ),
                    )
                ]
            ),
            tfma.MetricsSpec(
                binarize=config_pb2.BinarizationOptions(class_ids={"values": list(range(10))}),
                metrics=[tfma.MetricConfig(class_name="BinaryAccuracy")],
            ),
        ],
    )


def main() -> None:
    data, out, epochs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    tfx.orchestration.LocalDagRunner().run(pipeline(data, out, epochs))
    pushed = sorted(str(path) for path in (out / "serving").glob("*"))
    print(json.dumps({"pushed": pushed}))


if __name__ == "__main__":
    main()
