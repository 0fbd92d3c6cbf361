"""create_pipeline(config): the chain, one small builder per stage.

pipeline = create_pipeline(experiment, workspace, enable_cache=True)
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfx import v1 as tfx
from tfx.dsl.components.base import base_node
from tfx.dsl.components.common import resolver
from tfx.proto import transform_pb2
from tfx.types import channel
from tfx.utils import json_utils

from components.data_gate.component import DataGate
from components.evaluator.component import Evaluator
from components.example_gen.component import ExampleGen
from components.infra_validator.component import InfraValidator
from components.rewriter.base import Contract
from components.rewriter.component import Rewriter
from components.serving_pusher.component import Pusher
from modules import contract as names
from modules import hparams
from pipelines import evaluation, fingerprint, inputs
from pipelines.baseline import OtherBlessedModelStrategy, OtherStatisticsStrategy
from pipelines.config import Experiment
from pipelines.warm_start import BlessedTrainedModelStrategy
from pipelines.workspace import Workspace

TRAIN, VALIDATION, TEST = inputs.SPLITS

# Functions that TFX runs, by dotted path; a family of models has one of each.
PREPROCESSING_FN = "modules.{family}.preprocessing.preprocessing_fn"
RUN_FN = "modules.{family}.trainer.run_fn"
TUNER_FN = "modules.{family}.trainer.tuner_fn"

FINGERPRINT = "code_fingerprint"
"""Execution property of every node, so that changed code is a cache miss."""


def create_pipeline(experiment: Experiment, workspace: Workspace, *, enable_cache: bool) -> Any:
    """The TFX pipeline of an experiment.

    Raises:
        InputError: the experiment's data is not there.
    """
    ingest = _example_gen(experiment, workspace)
    examples = ingest.outputs["examples"]
    data = _data_nodes(experiment, examples)
    schema = data[1].outputs["schema"]
    transform = _transform(experiment, examples, schema)
    # Behind the gate: Transform would fail on bad data with a worse message.
    transform.add_upstream_node(data[-1])
    tuner = _tuner(experiment, workspace, transform)
    warm_start = _warm_start(experiment, workspace, transform)
    trainer = _trainer(experiment, workspace, transform, schema, tuner, warm_start)
    rewriter = _rewriter(experiment, trainer, examples)
    baseline = _baseline(rewriter)
    evaluator = _evaluator(experiment, examples, rewriter, baseline)
    infra = _infra_validator(experiment, examples, rewriter)
    pusher = _pusher(experiment, workspace, examples, rewriter, evaluator, infra)
    made = [*tuner, *warm_start, trainer, rewriter, baseline, evaluator, infra, pusher]
    nodes = [ingest, *data, transform, *made]
    for node in nodes:
        _add_fingerprint(node)
    return tfx.dsl.Pipeline(
        pipeline_name=experiment.name,
        pipeline_root=str(workspace.artifacts / experiment.name),
        components=nodes,
        enable_cache=enable_cache,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(workspace.metadata_path)
        ),
    )


def _example_gen(experiment: Experiment, workspace: Workspace) -> ExampleGen:
    resolved = inputs.resolve(experiment, workspace)
    return ExampleGen(resolved.request, resolved.digest)


def _data_nodes(experiment: Experiment, examples: channel.BaseChannel) -> list[Any]:
    """Statistics, schema, anomalies, earlier statistics, and the gate, which comes last."""
    statistics = tfx.components.StatisticsGen(examples=examples, stats_options=_stats_options(experiment))
    schema = _schema_node(experiment, statistics)
    validator = tfx.components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    earlier = resolver.Resolver(
        strategy_class=OtherStatisticsStrategy,
        current=statistics.outputs["statistics"],
        statistics=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ExampleStatistics),
    ).with_id("EarlierStatistics")
    gate = DataGate(
        anomalies=validator.outputs["anomalies"],
        statistics=statistics.outputs["statistics"],
        schema=schema.outputs["schema"],
        previous_statistics=earlier.outputs["statistics"],
        settings=_gate_settings(experiment),
    )
    return [statistics, schema, validator, earlier, gate]


def _stats_options(experiment: Experiment) -> Any:
    """Encoded images count as bytes: no top values and no lengths of texts are taken of them."""
    import tensorflow_data_validation as tfdv
    from tensorflow_metadata.proto.v0 import schema_pb2

    image = schema_pb2.Feature(name=experiment.data.image, type=schema_pb2.BYTES)
    image.image_domain.SetInParent()
    return tfdv.StatsOptions(schema=schema_pb2.Schema(feature=[image]))


def _schema_node(experiment: Experiment, statistics: Any) -> Any:
    """The curated schema where there is one; else what all splits have in common."""
    path = experiment.validation.schema_file
    if path is None:
        # Of all splits: a column that is there in every training row and missing
        # in one test row would else fail to parse there.
        return tfx.components.SchemaGen(statistics=statistics.outputs["statistics"], infer_feature_shape=True)
    node = tfx.components.ImportSchemaGen(schema_file=str(Path(path).absolute())).with_id("SchemaGen")
    # TFX would take an edited file for the one it imported before.
    node.exec_properties["schema_digest"] = inputs.digest([path])
    return node


def _gate_settings(experiment: Experiment) -> dict[str, Any]:
    settings = experiment.validation
    if settings.schema_file is None:
        remedy = "If the change is meant, raise validation.drift or validation.skew; else mend the data."
    else:
        remedy = f"Mend the data, or accept it: headrace schema accept {settings.schema_file} latest."
    return {
        "fail_on": settings.fail_on,
        "drift": settings.drift.model_dump(),
        "skew": settings.skew.model_dump(),
        "remedy": remedy,
    }


def _transform(experiment: Experiment, examples: channel.BaseChannel, schema: channel.BaseChannel) -> Any:
    return tfx.components.Transform(
        examples=examples,
        schema=schema,
        preprocessing_fn=PREPROCESSING_FN.format(family=experiment.model.family),
        # Evaluation reads raw examples, so the test split is not transformed.
        splits_config=transform_pb2.SplitsConfig(analyze=[TRAIN], transform=[TRAIN, VALIDATION]),
        # Statistics of transformed data would cost 38 % of this node on small data.
        disable_statistics=True,
        custom_config=_inputs(experiment),
    )


def _inputs(experiment: Experiment) -> dict[str, Any]:
    """What preprocessing is told: no more than changes its result, so that little re-runs it."""
    data, model = experiment.data, experiment.model
    if model.family == "tabular":
        names = set(hparams.field_names(hparams.TabularInputHparams)) - {"label_feature"}
        return {"label_feature": data.label, **model.model_dump(include=names)}
    told = hparams.ImageInputHparams(data.image, data.label, model.height, model.width, model.channels)
    return asdict(told)


def _hparams(experiment: Experiment) -> dict[str, Any]:
    """What the trainer of the model's family is told, as `modules.hparams` reads it."""
    model, train = experiment.model, experiment.train.model_dump()
    if model.family == "tabular":
        names = set(hparams.field_names(hparams.TabularModelHparams))
        return {"inputs": _inputs(experiment), "model": model.model_dump(include=names), "train": train}
    return {
        "image_feature": experiment.data.image,
        "label_feature": experiment.data.label,
        "model": model.model_dump(exclude={"family"}),
        "train": train,
    }


def _state_root(experiment: Experiment, workspace: Workspace, function: str) -> str:
    """Where unfinished trainings lie: outside of the artifacts of the execution that wrote them.

    Code that has changed does not go on from them.
    """
    code = fingerprint.of_modules([function.rpartition(".")[0]])[:12]
    return str(workspace.training_root(experiment.name) / code)


def _tuner(experiment: Experiment, workspace: Workspace, transform: Any) -> list[Any]:
    """The search for hyperparameters, where the experiment has one."""
    if experiment.tune is None:
        return []
    tuner_fn = TUNER_FN.format(family=experiment.model.family)
    node = tfx.components.Tuner(
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        tuner_fn=tuner_fn,
        train_args=tfx.proto.TrainArgs(splits=[TRAIN]),
        eval_args=tfx.proto.EvalArgs(splits=[VALIDATION]),
        custom_config={
            **_hparams(experiment),
            "state_root": _state_root(experiment, workspace, tuner_fn),
            "tune": experiment.tune.model_dump(),
        },
    )
    return [node]


def _trainer_config(experiment: Experiment, workspace: Workspace) -> dict[str, Any]:
    run_fn = RUN_FN.format(family=experiment.model.family)
    return {**_hparams(experiment), "state_root": _state_root(experiment, workspace, run_fn)}


def _warm_start(experiment: Experiment, workspace: Workspace, transform: Any) -> list[Any]:
    """The model to begin with, where the experiment wants one."""
    if not experiment.train.warm_start:
        return []
    node = resolver.Resolver(
        strategy_class=BlessedTrainedModelStrategy,
        config={"custom_config": json_utils.dumps(_trainer_config(experiment, workspace))},
        examples=transform.outputs["transformed_examples"],
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    )
    return [node.with_id("WarmStart")]


def _trainer(
    experiment: Experiment,
    workspace: Workspace,
    transform: Any,
    schema: channel.BaseChannel,
    tuner: list[Any],
    warm_start: list[Any],
) -> Any:
    return tfx.components.Trainer(
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        run_fn=RUN_FN.format(family=experiment.model.family),
        hyperparameters=tuner[0].outputs["best_hyperparameters"] if tuner else None,
        base_model=warm_start[0].outputs["model"] if warm_start else None,
        # The trainer counts in epochs (custom_config), so no step limits here.
        train_args=tfx.proto.TrainArgs(splits=[TRAIN]),
        eval_args=tfx.proto.EvalArgs(splits=[VALIDATION]),
        custom_config=_trainer_config(experiment, workspace),
    )


def _rewriter(experiment: Experiment, trainer: Any, examples: channel.BaseChannel) -> Rewriter:
    return Rewriter(
        model=trainer.outputs["model"],
        examples=examples,
        rewrite=experiment.rewrite.model_dump(),
        contract=Contract(
            core=names.CORE_FUNCTION,
            class_names=names.CLASS_NAMES_FUNCTION,
            preprocessing=names.PREPROCESSING_MODULE,
            signatures={
                name: names.PREPROCESS_FUNCTIONS[name]
                for name in names.FAMILY_SIGNATURES[experiment.model.family]
            },
            scores=names.OUTPUT_SCORES,
            classes=names.OUTPUT_CLASSES,
        ),
        split=VALIDATION,
        label=experiment.data.label,
    )


def _baseline(rewriter: Rewriter) -> Any:
    return resolver.Resolver(
        strategy_class=OtherBlessedModelStrategy,
        candidate=rewriter.outputs["servable"],
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    ).with_id("Baseline")


def _evaluator(
    experiment: Experiment, examples: channel.BaseChannel, rewriter: Rewriter, baseline: Any
) -> Evaluator:
    return Evaluator(
        examples=examples,
        model=rewriter.outputs["servable"],
        baseline_model=baseline.outputs["model"],
        eval_config=evaluation.eval_config(experiment),
        split=TEST,
        label=experiment.data.label,
    )


def _infra_validator(
    experiment: Experiment, examples: channel.BaseChannel, rewriter: Rewriter
) -> InfraValidator:
    return InfraValidator(
        model=rewriter.outputs["servable"],
        examples=examples,
        rewrite_report=rewriter.outputs["report"],
        split=VALIDATION,
        raw_features=_raw_features(experiment),
        examples_count=experiment.infra.examples,
        timeout_s=experiment.infra.timeout_s,
        max_p99_ms=experiment.infra.max_p99_ms,
        max_memory_mb=experiment.infra.max_memory_mb,
    )


def _raw_features(experiment: Experiment) -> dict[str, str]:
    """Signature -> the feature of the raw Examples that it takes."""
    return {names.SIGNATURE_IMAGE: experiment.data.image}


def _pusher(
    experiment: Experiment,
    workspace: Workspace,
    examples: channel.BaseChannel,
    rewriter: Rewriter,
    evaluator: Evaluator,
    infra: InfraValidator,
) -> Pusher:
    return Pusher(
        model=rewriter.outputs["servable"],
        model_blessing=evaluator.outputs["blessing"],
        infra_blessing=infra.outputs["blessing"],
        examples=examples,
        evaluation=evaluator.outputs["evaluation"],
        rewrite_report=rewriter.outputs["report"],
        serving_root=str(workspace.serving_root(experiment.model_name)),
        model_name=experiment.model_name,
        split=TEST,
        raw_features=_raw_features(experiment),
        server=_push_server(experiment),
    )


def _push_server(experiment: Experiment) -> dict[str, Any] | None:
    server = experiment.push.server
    if server is None:
        return None
    return {
        "url": server.rest_url,
        "model": server.model or experiment.model_name,
        "timeout_s": server.timeout_s,
        "tolerance": server.tolerance,
    }


def _add_fingerprint(node: base_node.BaseNode) -> None:
    """Hashes the node's executor and the functions it is told to run by dotted path."""
    if isinstance(node, resolver.Resolver):
        return  # resolved anew in every run
    executor = node.executor_spec.executor_class
    roots = [executor.__module__]
    for key in ("preprocessing_fn", "run_fn", "tuner_fn"):
        path = node.exec_properties.get(key)
        if path:
            roots.append(path.rpartition(".")[0])
    node.exec_properties[FINGERPRINT] = fingerprint.of_modules(roots)


def node_ids(pipeline: Any) -> list[str]:
    """The ids of a pipeline's nodes, in topological order."""
    return [node.id for node in pipeline.components]


def config_json(experiment: Experiment) -> str:
    """The whole configuration, defaults included, as it is recorded with a run."""
    return json.dumps(experiment.model_dump(mode="json"), sort_keys=True)
