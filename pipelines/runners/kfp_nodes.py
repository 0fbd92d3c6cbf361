"""Resolution as ordinary containers, for Kubeflow Pipelines, whose compiler refuses resolvers.

    pipeline = create_pipeline(experiment, workspace, enable_cache=True, resolution=KfpResolution(experiment))

Each resolver runs in every run and hands on *values*: a request, a digest, a
URI. Values are what KFP's cache compares, so that nodes behind a resolver are
cached when it finds what it found before; an artifact of its own would get a
new id, and be a miss, in every run. A URI becomes the artifact that already
has it by an importer, which `kfp_corrections` puts behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfx import v1 as tfx
from tfx.dsl.components.base import base_beam_component, base_component, executor_spec
from tfx.dsl.components.common import importer
from tfx.orchestration.kubeflow.decorators import FinalStatusStr
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.example_gen.component import ExampleGen, ExampleGenSpec
from pipelines.config import Experiment
from pipelines.errors import ConfigError
from pipelines.resolution import Found, Resolution
from pipelines.runners import kfp_executors
from pipelines.workspace import Workspace

WORKSPACE_TOKEN = "$HEADRACE_WORKSPACE"
"""Stands in compiled values for the folder that the pipeline's parameter `workspace` names."""

RESOLVED = "headrace-resolved:"
"""Begins an importer's URI that a resolver finds at run time: `headrace-resolved:<task>`."""

URI = "uri"
"""The output parameter of resolvers that find an artifact."""

DATA_PATH, SPAN = "data_path", "span"
"""Parameters of the pipeline that ResolveData reads."""

_String = standard_artifacts.String


def _strings(*names: str) -> dict[str, component_spec.ChannelParameter]:
    return {name: component_spec.ChannelParameter(type=_String) for name in names}


class ResolveDataSpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "experiment": component_spec.ExecutionParameter(type=str),
        "workspace": component_spec.ExecutionParameter(type=str),
        DATA_PATH: component_spec.ExecutionParameter(type=str),
        SPAN: component_spec.ExecutionParameter(type=int),
    }
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = _strings("request", "data_digest")


class ResolveData(base_component.BaseComponent):
    """Finds the files of this run: spans, versions, and the digest of their contents."""

    SPEC_CLASS = ResolveDataSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(kfp_executors.ResolveData)

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(
            ResolveDataSpec(
                experiment=experiment.model_dump_json(),
                workspace=WORKSPACE_TOKEN,
                **{
                    DATA_PATH: tfx.dsl.experimental.RuntimeParameter(name=DATA_PATH, ptype=str),
                    SPAN: tfx.dsl.experimental.RuntimeParameter(name=SPAN, ptype=int),
                },
                request=channel_utils.as_channel([_String()]),
                data_digest=channel_utils.as_channel([_String()]),
            )
        )


class ResolvedExampleGen(ExampleGen):
    """ExampleGen with a request that is known only at run time."""

    def __init__(self, resolver: ResolveData) -> None:
        declared = ExampleGen.SPEC_CLASS.OUTPUTS
        spec = ExampleGenSpec(
            request=resolver.outputs["request"].future()[0].value,
            data_digest=resolver.outputs["data_digest"].future()[0].value,
            **{name: channel_utils.as_channel([output.type()]) for name, output in declared.items()},
        )
        base_beam_component.BaseBeamComponent.__init__(self, spec)


class _ArtifactResolver(base_component.BaseComponent):
    """Hands on the URI of an earlier artifact, given the one of this run."""

    def __init__(self, current: channel.BaseChannel) -> None:
        spec = self.SPEC_CLASS(current=current, uri=channel_utils.as_channel([_String()]))
        super().__init__(spec)


class ResolveBaselineSpec(component_spec.ComponentSpec):
    PARAMETERS: dict[str, component_spec.ExecutionParameter] = {}
    OUTPUTS = _strings(URI)
    INPUTS = {"current": component_spec.ChannelParameter(type=standard_artifacts.Model)}


class ResolveBaseline(_ArtifactResolver):
    """See `pipelines.baseline.OtherBlessedModelStrategy`."""

    SPEC_CLASS = ResolveBaselineSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(kfp_executors.ResolveBaseline)


class ResolveStatisticsSpec(component_spec.ComponentSpec):
    PARAMETERS: dict[str, component_spec.ExecutionParameter] = {}
    OUTPUTS = _strings(URI)
    INPUTS = {"current": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics)}


class ResolveStatistics(_ArtifactResolver):
    """See `pipelines.baseline.OtherStatisticsStrategy`."""

    SPEC_CLASS = ResolveStatisticsSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(kfp_executors.ResolveStatistics)


class CuratedSchemaSpec(component_spec.ComponentSpec):
    PARAMETERS = {"schema_text": component_spec.ExecutionParameter(type=str)}
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {"schema": component_spec.ChannelParameter(type=standard_artifacts.Schema)}


class CuratedSchema(base_component.BaseComponent):
    """A curated schema that travels inside the compiled pipeline: a cluster sees no file of ours."""

    SPEC_CLASS = CuratedSchemaSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(kfp_executors.CuratedSchema)

    def __init__(self, text: str) -> None:
        super().__init__(
            CuratedSchemaSpec(
                schema_text=text, schema=channel_utils.as_channel([standard_artifacts.Schema()])
            )
        )


class NotifySpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "settings": component_spec.ExecutionParameter(type=str),
        "pipeline": component_spec.ExecutionParameter(type=str),
        "final_status": component_spec.ExecutionParameter(type=str),
    }
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS: dict[str, component_spec.ChannelParameter] = {}


class Notify(base_component.BaseComponent):
    """The exit handler: tells a URL how the run ended."""

    SPEC_CLASS = NotifySpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(kfp_executors.Notify)

    def __init__(self, settings: str, pipeline: str) -> None:
        super().__init__(NotifySpec(settings=settings, pipeline=pipeline, final_status=FinalStatusStr()))


class KfpResolution(Resolution):
    """Of a run on open-source Kubeflow Pipelines."""

    def ingest(self, experiment: Experiment, workspace: Workspace) -> tuple[list[Any], Any]:
        resolver = ResolveData(experiment)
        return [resolver], ResolvedExampleGen(resolver).with_id("ExampleGen")

    def curated_schema(self, path: str) -> Any:
        return CuratedSchema(Path(path).read_text(encoding="utf-8")).with_id("SchemaGen")

    def earlier_statistics(self, statistics: channel.BaseChannel) -> Found:
        node = ResolveStatistics(statistics).with_id("EarlierStatistics")
        return _imported(node, "EarlierStatisticsImport", standard_artifacts.ExampleStatistics)

    def warm_start(self, examples: channel.BaseChannel, custom_config: str, serving_root: Path) -> Found:
        raise ConfigError(
            "train.warm_start is not there on Kubeflow, whose compiler knows no resolvers",
            place="train.warm_start",
            remedy="Set train.warm_start: false, or run with --runner local or beam.",
        )

    def baseline(self, servable: channel.BaseChannel) -> Found:
        node = ResolveBaseline(servable).with_id("Baseline")
        return _imported(node, "BaselineImport", standard_artifacts.Model)


def _imported(resolver: Any, node_id: str, artifact_type: Any) -> Found:
    node = importer.Importer(source_uri=f"{RESOLVED}{resolver.id}", artifact_type=artifact_type)
    node = node.with_id(node_id)
    node.add_upstream_node(resolver)
    return [resolver, node], node.outputs[importer.IMPORT_RESULT_KEY]


class VertexResolution(KfpResolution):
    """Of a run on Vertex, which has resolvers of its own but no store that a container could ask.

    Its two strategies know no candidate: an identical second run is compared
    with itself, evaluated, and pushed again. Nor do they ask the gate: drift is
    against the latest statistics, also those of data that it refused.
    """

    def earlier_statistics(self, statistics: channel.BaseChannel) -> Found:
        node = tfx.dsl.Resolver(
            strategy_class=tfx.dsl.experimental.LatestArtifactStrategy,
            statistics=tfx.dsl.Channel(type=standard_artifacts.ExampleStatistics),
        ).with_id("EarlierStatistics")
        return [node], node.outputs["statistics"]

    def baseline(self, servable: channel.BaseChannel) -> Found:
        node = tfx.dsl.Resolver(
            strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
            model=tfx.dsl.Channel(type=standard_artifacts.Model),
            model_blessing=tfx.dsl.Channel(type=standard_artifacts.ModelBlessing),
        ).with_id("Baseline")
        return [node], node.outputs["model"]
