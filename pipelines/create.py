"""create_pipeline(config): the chain, one small builder per stage.

pipeline = create_pipeline(experiment, workspace, enable_cache=True)
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tfx import v1 as tfx
from tfx.dsl.components.base import base_node
from tfx.dsl.components.common import resolver
from tfx.proto import transform_pb2
from tfx.types import channel

from components.data_gate.component import DataGate
from components.evaluator.component import Evaluator
from components.example_gen.component import ExampleGen
from components.example_gen.request import FeatureRule, Request
from components.infra_validator.component import InfraValidator
from components.rewriter.base import Contract
from components.rewriter.component import Rewriter
from components.serving_pusher.component import Pusher
from modules import contract as names
from modules import hparams
from pipelines import evaluation, fingerprint, inputs
from pipelines.baseline import OtherBlessedModelStrategy
from pipelines.config import Experiment
from pipelines.workspace import Workspace

TRAIN, VALIDATION, TEST = "train", "validation", "test"

# Functions that TFX runs, by dotted path; a family of models has one of each.
PREPROCESSING_FN = "modules.{family}.preprocessing.preprocessing_fn"
RUN_FN = "modules.{family}.trainer.run_fn"

FINGERPRINT = "code_fingerprint"
"""Execution property of every node, so that changed code is a cache miss."""


def create_pipeline(experiment: Experiment, workspace: Workspace, *, enable_cache: bool) -> Any:
    """The TFX pipeline of an experiment.

    Raises:
        InputError: the experiment's data is not there.
    """
    ingest = _example_gen(experiment, workspace)
    examples = ingest.outputs["examples"]
    data = _data_nodes(examples)
    schema = data[1].outputs["schema"]
    transform = _transform(experiment, examples, schema)
    # Behind the gate: Transform would fail on bad data with a worse message.
    transform.add_upstream_node(data[-1])
    trainer = _trainer(experiment, workspace, transform, schema)
    rewriter = _rewriter(experiment, trainer, examples)
    baseline = _baseline(rewriter)
    evaluator = _evaluator(experiment, examples, rewriter, baseline)
    infra = _infra_validator(experiment, examples, rewriter)
    pusher = _pusher(experiment, workspace, rewriter, evaluator, infra)
    nodes = [ingest, *data, transform, trainer, rewriter, baseline, evaluator, infra, pusher]
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
    data = experiment.data
    files = inputs.files_of(data, workspace)
    splits = data.splits
    request = Request(
        files=tuple(str(path) for path in files),
        format=data.format,
        splits=((TRAIN, splits.train), (VALIDATION, splits.validation), (TEST, splits.test)),
        features=(FeatureRule(data.image, "image"), FeatureRule(data.label, "string")),
        label=data.label,
    )
    return ExampleGen(request, inputs.digest(files))


def _data_nodes(examples: channel.BaseChannel) -> list[Any]:
    """Statistics, the schema of the training split, anomalies of the others, and the gate."""
    statistics = tfx.components.StatisticsGen(examples=examples)
    schema = tfx.components.SchemaGen(
        statistics=statistics.outputs["statistics"],
        infer_feature_shape=True,
        exclude_splits=[VALIDATION, TEST],
    )
    validator = tfx.components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    gate = DataGate(anomalies=validator.outputs["anomalies"])
    return [statistics, schema, validator, gate]


def _transform(experiment: Experiment, examples: channel.BaseChannel, schema: channel.BaseChannel) -> Any:
    return tfx.components.Transform(
        examples=examples,
        schema=schema,
        preprocessing_fn=PREPROCESSING_FN.format(family=experiment.model.family),
        # Evaluation reads raw examples, so the test split is not transformed.
        splits_config=transform_pb2.SplitsConfig(analyze=[TRAIN], transform=[TRAIN, VALIDATION]),
        # Statistics of transformed data would cost 38 % of this node on small data.
        disable_statistics=True,
        # How to train is left out: a change there must not transform the data anew.
        custom_config={**_hparams(experiment), "train": {}},
    )


def _hparams(experiment: Experiment) -> dict[str, Any]:
    """What preprocessing and trainer are told: `modules.hparams.ImageHparams` as a mapping."""
    model = experiment.model.model_dump(exclude={"family"})
    told = hparams.ImageHparams.from_config(
        {
            "image_feature": experiment.data.image,
            "label_feature": experiment.data.label,
            "model": model,
            "train": experiment.train.model_dump(),
        }
    )
    return asdict(told)


def _trainer(
    experiment: Experiment, workspace: Workspace, transform: Any, schema: channel.BaseChannel
) -> Any:
    run_fn = RUN_FN.format(family=experiment.model.family)
    # Checkpoints outlive the execution that wrote them, so they lie outside of
    # its artifacts; other code does not go on from them.
    code = fingerprint.of_modules([run_fn.rpartition(".")[0]])[:12]
    state_root = workspace.training_root(experiment.name) / code
    return tfx.components.Trainer(
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        run_fn=run_fn,
        # The trainer counts in epochs (custom_config), so no step limits here.
        train_args=tfx.proto.TrainArgs(splits=[TRAIN]),
        eval_args=tfx.proto.EvalArgs(splits=[VALIDATION]),
        custom_config={**_hparams(experiment), "state_root": str(state_root)},
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
            signatures=names.PREPROCESS_FUNCTIONS,
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
        examples_count=experiment.infra.examples,
        timeout_s=experiment.infra.timeout_s,
    )


def _pusher(
    experiment: Experiment,
    workspace: Workspace,
    rewriter: Rewriter,
    evaluator: Evaluator,
    infra: InfraValidator,
) -> Pusher:
    return Pusher(
        model=rewriter.outputs["servable"],
        model_blessing=evaluator.outputs["blessing"],
        infra_blessing=infra.outputs["blessing"],
        serving_root=str(workspace.serving_root(experiment.model_name)),
    )


def _add_fingerprint(node: base_node.BaseNode) -> None:
    """Hashes the node's executor and the functions it is told to run by dotted path."""
    if isinstance(node, resolver.Resolver):
        return  # resolved anew in every run
    executor = node.executor_spec.executor_class
    roots = [executor.__module__]
    for key in ("preprocessing_fn", "run_fn"):
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
