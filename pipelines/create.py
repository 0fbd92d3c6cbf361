"""create_pipeline(config): the chain, one small builder per stage.

pipeline = create_pipeline(experiment, workspace, enable_cache=True)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfx import components as tfx_nodes
from tfx.dsl.components.base import base_node
from tfx.dsl.components.common import importer, resolver
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.proto import trainer_pb2, transform_pb2
from tfx.types import channel
from tfx.utils import json_utils

from components.data_gate.component import DataGate
from components.evaluator.component import Evaluator
from components.example_gen.request import IMAGE_PATH
from components.infra_validator.component import InfraValidator
from components.rewriter.base import Contract
from components.rewriter.component import Rewriter
from components.serving_pusher.component import Pusher
from modules import contract as names
from modules.hparams.families import field_names
from modules.hparams.image import ImageInputHparams
from modules.hparams.tabular import TabularInputHparams, TabularModelHparams
from pipelines import evaluation, fingerprint, inputs, teachers, text_family, user_code
from pipelines.config import Experiment
from pipelines.errors import InputError
from pipelines.resolution import Resolution
from pipelines.workspace import Workspace

TRAIN, VALIDATION, TEST = inputs.SPLITS

# Functions that TFX runs, by dotted path; a family of models has one of each.
PREPROCESSING_FN = "modules.{family}.preprocessing.preprocessing_fn"
RUN_FN = "modules.{family}.trainer.run_fn"
TUNER_FN = "modules.{family}.trainer.tuner_fn"

_NAMED_WEIGHTS = ("none", "imagenet")


def create_pipeline(
    experiment: Experiment,
    workspace: Workspace,
    *,
    enable_cache: bool,
    resolution: Resolution | None = None,
) -> Any:
    """The TFX pipeline of an experiment.

    Args:
        experiment: the configuration.
        workspace: where state lies.
        enable_cache: whether nodes may take over earlier outputs.
        resolution: how files and earlier artifacts are found; as on this machine when not given.

    Raises:
        InputError: the experiment's data is not there.
    """
    found = resolution or Resolution()
    before, ingest = found.ingest(experiment, workspace)
    examples = ingest.outputs["examples"]
    data = _data_nodes(experiment, examples, found)
    schema = data[1].outputs["schema"]
    transform = _transform(experiment, examples, schema)
    # Behind the gate: Transform would fail on bad data with a worse message.
    transform.add_upstream_node(data[-1])
    training = _training_nodes(experiment, workspace, transform, schema, found)
    trainer = training[-1]
    rewriter = _rewriter(experiment, trainer, examples)
    compared, baseline = found.baseline(rewriter.outputs["servable"])
    evaluator = _evaluator(experiment, examples, rewriter, baseline)
    infra = _infra_validator(experiment, examples, rewriter)
    pusher = _pusher(experiment, workspace, examples, rewriter, evaluator, infra)
    nodes = [*before, ingest, *data, transform, *training, rewriter, *compared, evaluator, infra, pusher]
    own = user_code.modules_of(experiment)
    for node in nodes:
        _add_fingerprint(node, own if node in training else [])
    return tfx_pipeline.Pipeline(
        pipeline_name=experiment.name,
        pipeline_root=str(workspace.artifacts / experiment.name),
        components=nodes,
        enable_cache=enable_cache,
        metadata_connection_config=workspace.database.config(password=False),
    )


def _data_nodes(experiment: Experiment, examples: channel.BaseChannel, found: Resolution) -> list[Any]:
    """Statistics, schema, anomalies, earlier statistics, and the gate, which comes last."""
    statistics = tfx_nodes.StatisticsGen(examples=examples, stats_options=_stats_options(experiment))
    schema = _schema_node(experiment, statistics, found)
    validator = tfx_nodes.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    earlier, previous = found.earlier_statistics(statistics.outputs["statistics"])
    gate = DataGate(
        anomalies=validator.outputs["anomalies"],
        statistics=statistics.outputs["statistics"],
        schema=schema.outputs["schema"],
        previous_statistics=previous,
        settings=_gate_settings(experiment),
    )
    return [statistics, schema, validator, *earlier, gate]


def _stats_options(experiment: Experiment) -> Any:
    """Encoded images count as bytes: no top values and no lengths of texts are taken of them."""
    import tensorflow_data_validation as tfdv
    from tensorflow_metadata.proto.v0 import schema_pb2

    image = schema_pb2.Feature(name=experiment.data.image, type=schema_pb2.BYTES)
    image.image_domain.SetInParent()
    return tfdv.StatsOptions(schema=schema_pb2.Schema(feature=[image]))


def _schema_node(experiment: Experiment, statistics: Any, found: Resolution) -> Any:
    """The curated schema where there is one; else what all splits have in common."""
    path = experiment.validation.schema_file
    if path is None:
        # Of all splits: a column that is there in every training row and missing
        # in one test row would else fail to parse there.
        return tfx_nodes.SchemaGen(statistics=statistics.outputs["statistics"], infer_feature_shape=True)
    return found.curated_schema(path)


def _gate_settings(experiment: Experiment) -> dict[str, Any]:
    settings = experiment.validation
    accepting = (
        "or keep a schema that allows it (headrace schema init) in validation.schema_file"
        if settings.schema_file is None
        else f"or accept it: headrace schema accept {settings.schema_file} latest"
    )
    return {
        "fail_on": settings.fail_on,
        "drift": settings.drift.model_dump(),
        "skew": settings.skew.model_dump(),
        "free_text": _free_text(experiment),
        "one_value": experiment.model.family == "tabular",
        # Columns that the model does not see.
        "ignored": list(getattr(experiment.model, "ignore", ())),
        "remedy": f"Mend the data, {accepting}.",
        "remedy_of_shifts": "If the change is meant, raise validation.drift or validation.skew; "
        "else mend the data.",
        "remedy_of_lists": "Write each value of a list into a column of its own, or leave the column out: "
        "model.ignore, or data.exclude.",
    }


def _free_text(experiment: Experiment) -> list[str]:
    """Features whose texts are never the same twice: no schema can list them."""
    data = experiment.data
    found = {"image": [IMAGE_PATH], "text": [data.text, data.text_pair or ""], "tabular": []}
    return [name for name in found[experiment.model.family] if name]


def _transform(experiment: Experiment, examples: channel.BaseChannel, schema: channel.BaseChannel) -> Any:
    return tfx_nodes.Transform(
        examples=examples,
        schema=schema,
        preprocessing_fn=PREPROCESSING_FN.format(family=experiment.model.family),
        # Evaluation reads raw examples, so the test split is not transformed.
        splits_config=transform_pb2.SplitsConfig(analyze=[TRAIN], transform=[TRAIN, VALIDATION]),
        # Statistics of transformed data would cost 38 % of this node on small data.
        disable_statistics=True,
        # What each analyzer found would be written for a later run over more spans, one file each:
        # a window of ours is one artifact, and nothing would ever read them.
        disable_analyzer_cache=True,
        custom_config=_inputs(experiment),
    )


def _inputs(experiment: Experiment) -> dict[str, Any]:
    """What preprocessing is told: no more than changes its result, so that little re-runs it."""
    data, model = experiment.data, experiment.model
    if model.family == "text":
        return text_family.transform_config(experiment, model)
    if model.family == "tabular":
        names = set(field_names(TabularInputHparams)) - {"label_feature"}
        return {"label_feature": data.label, **model.model_dump(include=names)}
    told = ImageInputHparams(data.image, data.label, model.height, model.width, model.channels)
    return asdict(told)


def _hparams(experiment: Experiment) -> dict[str, Any]:
    """What the trainer of the model's family is told, as `modules.hparams` reads it."""
    model, train = experiment.model, experiment.train.model_dump()
    if model.family == "text":
        return text_family.trainer_config(experiment, model)
    if model.family == "tabular":
        names = set(field_names(TabularModelHparams))
        if train["loss"] is None and evaluation.is_regression(experiment):
            train["loss"] = "mse"
        return {"inputs": _inputs(experiment), "model": model.model_dump(include=names), "train": train}
    return {
        "image_feature": experiment.data.image,
        "label_feature": experiment.data.label,
        "model": {**model.model_dump(exclude={"family"}), "weights": _weights_path(model.weights)},
        "train": train,
        "weights_digest": _weights_digest(model.weights),
    }


def _weights_path(weights: str) -> str:
    return weights if weights in _NAMED_WEIGHTS else str(Path(weights).expanduser().absolute())


def _weights_digest(weights: str) -> str:
    """Digest of a file's content, so that another one under the same name is noticed.

    Raises:
        InputError: there is no such file.
    """
    if weights in _NAMED_WEIGHTS:
        return ""
    path = Path(weights).expanduser()
    if not path.exists():
        raise InputError(
            "The file with the weights does not exist",
            place=weights,
            remedy="Check model.weights: none, imagenet, a .keras or .weights.h5 file, or a SavedModel.",
        )
    return inputs.digest_of_tree(path)


def _training_nodes(
    experiment: Experiment,
    workspace: Workspace,
    transform: Any,
    schema: channel.BaseChannel,
    found: Resolution,
) -> list[Any]:
    """The search for hyperparameters and the model to begin with, where they are wanted; last the Trainer."""
    run_fn = RUN_FN.format(family=experiment.model.family)
    # Checkpoints outlive the execution that wrote them, so they lie outside of
    # its artifacts; other code does not go on from them.
    code = fingerprint.of_modules([run_fn.rpartition(".")[0], *user_code.modules_of(experiment)])[:12]
    state_root = workspace.training_root(experiment.name) / code
    told = {**_with_teacher(experiment, workspace), "state_root": str(state_root)}
    examples = transform.outputs["transformed_examples"]
    common = {
        "examples": examples,
        "transform_graph": transform.outputs["transform_graph"],
        # The trainer counts in epochs (custom_config), so no step limits here.
        "train_args": trainer_pb2.TrainArgs(splits=[TRAIN]),
        "eval_args": trainer_pb2.EvalArgs(splits=[VALIDATION]),
    }
    nodes: list[Any] = []
    best = base_model = None
    if experiment.tune is not None:
        tuner_fn = TUNER_FN.format(family=experiment.model.family)
        config = {**told, "tune": experiment.tune.model_dump()}
        nodes.append(tfx_nodes.Tuner(tuner_fn=tuner_fn, custom_config=config, **common))
        best = nodes[0].outputs["best_hyperparameters"]
    if experiment.train.warm_start:
        root = workspace.serving_root(experiment.model_name)
        resolvers, base_model = found.warm_start(examples, json_utils.dumps(told), root)
        nodes += resolvers
    node = tfx_nodes.Trainer(
        schema=schema,
        run_fn=run_fn,
        hyperparameters=best,
        base_model=base_model,
        custom_config=told,
        **common,
    )
    # Precision, strategy and kernels are chosen by it.
    node.exec_properties["hardware"] = json.dumps(fingerprint.hardware())
    return [*nodes, node]


def _with_teacher(experiment: Experiment, workspace: Workspace) -> dict[str, Any]:
    """The trainer's hyperparameters, with the path and digest of the model that it may learn from."""
    told = _hparams(experiment)
    distill = experiment.train.distill
    if distill is not None:
        path = teachers.teacher_path(distill.teacher, workspace, features=distill.feature_weight > 0)
        told["train"]["distill"] |= {"teacher": str(path), "teacher_digest": inputs.digest_of_tree(path)}
    return told


def _rewriter(experiment: Experiment, trainer: Any, examples: channel.BaseChannel) -> Rewriter:
    regression = evaluation.is_regression(experiment)
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
            scores=names.OUTPUT_VALUES if regression else names.OUTPUT_SCORES,
            classes="" if regression else names.OUTPUT_CLASSES,
            keras_model=names.KERAS_MODEL,
            modules=(
                *names.LAYER_MODULES.get(experiment.model.family, ()),
                *user_code.modules_of(experiment),
            ),
        ),
        split=VALIDATION,
        calibration_split=TRAIN,
        label=experiment.data.label,
        slices=[] if regression else [experiment.data.label],
    )


def _evaluator(
    experiment: Experiment, examples: channel.BaseChannel, rewriter: Rewriter, baseline: channel.BaseChannel
) -> Evaluator:
    return Evaluator(
        examples=examples,
        model=rewriter.outputs["servable"],
        baseline_model=baseline,
        eval_config=evaluation.eval_config(experiment),
        split=TEST,
        label=experiment.data.label,
        engine=experiment.evaluation.engine,
    )


def _infra_validator(
    experiment: Experiment, examples: channel.BaseChannel, rewriter: Rewriter
) -> InfraValidator:
    return InfraValidator(
        model=rewriter.outputs["servable"],
        examples=examples,
        rewrite_report=rewriter.outputs["report"],
        target=experiment.rewrite.target,
        split=VALIDATION,
        raw_features=_raw_features(experiment),
        examples_count=experiment.infra.examples,
        timeout_s=experiment.infra.timeout_s,
        max_p99_ms=experiment.infra.max_p99_ms,
        max_memory_mb=experiment.infra.max_memory_mb,
    )


def _raw_features(experiment: Experiment) -> dict[str, str]:
    """Signature -> the one feature of the raw Examples that it takes; a pair of texts is two."""
    text = {} if experiment.data.text_pair else {names.SIGNATURE_TEXT: experiment.data.text}
    return {names.SIGNATURE_IMAGE: experiment.data.image, **text}


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
        mirrors=[f"{url.rstrip('/')}/{experiment.model_name}" for url in experiment.push.to],
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


def _add_fingerprint(node: base_node.BaseNode, modules: Sequence[str]) -> None:
    """Hashes the node's executor, what it is told to run by dotted path, and the user's modules."""
    if isinstance(node, (resolver.Resolver, importer.Importer)):
        return  # resolved anew in every run
    executor = node.executor_spec.executor_class
    told = fingerprint.named_modules(node.exec_properties)
    roots = [executor.__module__, *told, *modules]
    node.exec_properties[fingerprint.PROPERTY] = fingerprint.of_modules(roots)
