"""Compiles an experiment for Kubeflow Pipelines or Vertex.

    text = compile_pipeline(experiment, target="kfp")       # YAML, one or two documents

TFX's KubeflowV2DagRunner writes the pipeline; `kfp_corrections` mends what
open-source Kubeflow would refuse, `kfp_platform` adds what only a cluster
needs to know.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import yaml

from pipelines import fingerprint, remote
from pipelines.config import Experiment
from pipelines.errors import ConfigError, InputError
from pipelines.kubeflow_stage import EVERY_NODE, Volume
from pipelines.located import located
from pipelines.runners import kfp_corrections, kfp_platform
from pipelines.runners.kfp_corrections import Bindings, Parameter
from pipelines.runners.kfp_platform import Target
from pipelines.workspace import Workspace

TARGETS: tuple[Target, ...] = ("kfp", "vertex")

TRAINER, HARDWARE = "Trainer", "hardware"
"""The node that chooses by its devices, and the execution property that says which they are."""

NO_IMAGE = "headrace.invalid/none"
"""Stands for the image where a pipeline is run without one."""


def compile_pipeline(experiment: Experiment, target: Target = "kfp", *, enable_cache: bool = True) -> str:
    """The compiled pipeline of an experiment, for a cluster.

    Raises:
        ConfigError: no image, no volume, or a setting that the target has no place for.
        InputError: data or a schema that a cluster cannot see.
    """
    check_for_cluster(experiment)
    return _compile(experiment, target, enable_cache, _asked_hardware(experiment))


def compile_here(experiment: Experiment, target: Target = "kfp", *, enable_cache: bool = True) -> str:
    """As `compile_pipeline`, but for a run on this machine, which sees local paths and needs no image."""
    return _compile(experiment, target, enable_cache, fingerprint.hardware())


def _compile(experiment: Experiment, target: Target, enable_cache: bool, hardware: list[str]) -> str:
    spec = _tfx_spec(experiment, target, enable_cache, hardware)
    kfp_corrections.correct(spec, _bindings(experiment))
    platform = kfp_platform.apply(spec, experiment.kubeflow, target)
    documents = [spec, platform] if platform else [spec]
    return yaml.dump_all(documents, Dumper=_Plain, sort_keys=True, width=110)


class _Plain(yaml.SafeDumper):
    """Writes what is there twice twice: anchors are hard to read, and to compare."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def parameters_here(experiment: Experiment, workspace: Workspace) -> dict[str, str]:
    """Parameters of the compiled pipeline for a run on this machine: its own folder, absolute paths."""
    found = {"workspace": str(workspace.root)}
    path = experiment.data.path
    if path is not None:
        found["data_path"] = path if remote.is_remote(path) else str(Path(path).expanduser().absolute())
    return found


def pipeline_name(experiment: Experiment) -> str:
    """Kubeflow's names have no underscores."""
    return experiment.name.replace("_", "-")


def check_for_cluster(experiment: Experiment) -> None:
    """Raises an error for what a cluster lacks or cannot see."""
    settings = experiment.kubeflow
    if not settings.image:
        raise ConfigError(
            "A cluster needs to know the image of the nodes",
            place="kubeflow.image",
            remedy="Build and push one (headrace image build, push), and name it: --set kubeflow.image=...",
        )
    if settings.volume is None:
        raise ConfigError(
            "Nodes on a cluster share no folder: serving, checkpoints and data would be lost with each",
            place="kubeflow.volume",
            remedy="Name a ReadWriteMany claim: --set kubeflow.volume.claim=NAME.",
        )
    _check_visible(experiment, settings.volume)


def _check_visible(experiment: Experiment, volume: Volume) -> None:
    path = experiment.data.path
    if path is not None and not remote.is_remote(path) and not Path(path).is_relative_to(volume.path):
        raise InputError(
            f"A cluster cannot see the local path {path!r}",
            place="data.path",
            remedy=f"Put the data on the volume, and name it by its path there: {volume.path}/...; or in an "
            "object store, and name its address.",
        )
    weights = getattr(experiment.model, "weights", "none")
    if weights not in ("none", "imagenet"):
        raise _local_model("model.weights", weights)
    if experiment.train.distill is not None:
        raise _local_model("train.distill.teacher", experiment.train.distill.teacher)
    schema = experiment.validation.schema_file
    if schema is not None and not remote.is_remote(schema) and not Path(schema).is_file():
        raise InputError(
            "The curated schema is not there",
            place=schema,
            remedy="It is read now and travels in the pipeline.",
        )


def _local_model(place: str, path: str) -> InputError:
    """Models are digested when a pipeline is compiled, which can only be done where they lie."""
    return InputError(
        f"A cluster cannot see the model {path!r} of this machine",
        place=place,
        remedy="Train with it here (headrace run), or without it there.",
    )


def _bindings(experiment: Experiment) -> Bindings:
    settings, data = experiment.kubeflow, experiment.data
    volume = settings.volume or Volume(claim=None)
    parameters = {
        "image": Parameter("STRING", settings.image or NO_IMAGE, "Image of all nodes."),
        "workspace": Parameter("STRING", volume.path, "Folder for serving, checkpoints and data."),
        "data_path": Parameter("STRING", data.path or "", "What is read; empty for the data set that ships."),
        "span": Parameter("NUMBER_INTEGER", -1 if data.span is None else data.span, "-1 is the newest."),
        "epochs": Parameter("NUMBER_INTEGER", experiment.train.epochs, "Most epochs of training."),
    }
    return Bindings(parameters, {TRAINER: {"custom_config:train.epochs": "epochs"}})


def _asked_hardware(experiment: Experiment) -> list[str]:
    """The GPUs that the Trainer will run on: those asked for, not those of the machine that compiles."""
    resources = experiment.kubeflow.resources
    asked = resources.get(TRAINER, resources.get(EVERY_NODE))
    return [asked.gpu_type or experiment.kubeflow.gpu_resource] * asked.gpu if asked else []


def _named(experiment: Experiment) -> Experiment:
    """The experiment under the pipeline's name, which has no underscore; what is served keeps its own."""
    name = pipeline_name(experiment)
    if name == experiment.name:
        return experiment
    push = experiment.push.model_copy(update={"model": experiment.model_name})
    return experiment.model_copy(update={"name": name, "push": push})


def _tfx_spec(
    experiment: Experiment, target: Target, enable_cache: bool, hardware: list[str]
) -> dict[str, Any]:
    """What TFX's own runner makes of the chain."""
    from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner

    from pipelines.create import create_pipeline
    from pipelines.engines import options
    from pipelines.runners import kfp_nodes

    resolution = kfp_nodes.KfpResolution() if target == "kfp" else kfp_nodes.VertexResolution()
    workspace = Workspace(Path(kfp_nodes.WORKSPACE_TOKEN))
    named = _named(experiment)
    with tempfile.TemporaryDirectory() as scratch:  # a schema is read now and travels in the pipeline
        here = located(named, Path(scratch))
        pipeline = create_pipeline(here, workspace, enable_cache=enable_cache, resolution=resolution)
    for node in pipeline.components:
        if HARDWARE in node.exec_properties:
            node.exec_properties[HARDWARE] = json.dumps(hardware)
    config = kubeflow_v2_dag_runner.KubeflowV2DagRunnerConfig(
        default_image=experiment.kubeflow.image or NO_IMAGE,
        # Its other format writes `constantValue`, which KFP does not read.
        use_pipeline_spec_2_1=True,
    )
    runner = kubeflow_v2_dag_runner.KubeflowV2DagRunner(config)
    notify = experiment.kubeflow.notify
    if notify is not None:
        runner.set_exit_handler(
            kfp_nodes.Notify(json.dumps(notify.model_dump()), pipeline.pipeline_info.pipeline_name)
        )
    job = runner.run(pipeline, write_out=False)
    spec: dict[str, Any] = job["pipelineSpec"]
    if experiment.kubeflow.pipeline_root:
        spec["defaultPipelineRoot"] = experiment.kubeflow.pipeline_root
    _add_beam_args(spec, [*options.of(experiment.beam, options.Job()), *experiment.beam.args])
    return spec


def _add_beam_args(spec: dict[str, Any], args: list[str]) -> None:
    """For every container; those that use no Beam do not read them."""
    for executor in spec["deploymentSpec"]["executors"].values():
        if "container" in executor:
            executor["container"]["args"] += args
