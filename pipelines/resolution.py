"""What a run reads that is not of its own making, found as TFX's local orchestrators do.

    nodes, ingest = Resolution().ingest(experiment, workspace)

Files and their digest are found when the pipeline is built, earlier artifacts
by resolver nodes. Where an orchestrator knows no resolvers, another class with
these methods takes its place (`pipelines.runners.kfp_nodes`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.common import resolver
from tfx.types import channel, standard_artifacts

from components.example_gen.component import ExampleGen
from pipelines import inputs
from pipelines.baseline import OtherBlessedModelStrategy, OtherStatisticsStrategy
from pipelines.config import Experiment
from pipelines.warm_start import TrainedModelInServiceStrategy
from pipelines.workspace import Workspace

Found = tuple[list[Any], channel.BaseChannel]
"""The nodes that find an artifact, and the channel it comes out of."""


class Resolution:
    """Of a run on this machine."""

    def ingest(self, experiment: Experiment, workspace: Workspace) -> tuple[list[Any], Any]:
        """Nodes that must come before ExampleGen, and ExampleGen."""
        resolved = inputs.resolve(experiment, workspace)
        return [], ExampleGen(resolved.request, resolved.digest)

    def curated_schema(self, path: str) -> Any:
        """The node that brings in a curated schema."""
        node = ImportSchemaGen(schema_file=str(Path(path).absolute())).with_id("SchemaGen")
        # TFX would take an edited file for the one it imported before.
        node.exec_properties["schema_digest"] = inputs.digest([path])
        return node

    def earlier_statistics(self, statistics: channel.BaseChannel) -> Found:
        """Statistics of earlier data, or none."""
        node = resolver.Resolver(
            strategy_class=OtherStatisticsStrategy,
            current=statistics,
            statistics=channel.Channel(type=standard_artifacts.ExampleStatistics),
        ).with_id("EarlierStatistics")
        return [node], node.outputs["statistics"]

    def warm_start(self, examples: channel.BaseChannel, custom_config: str, serving_root: Path) -> Found:
        """The trained model behind the version in service, of another training than this, or none."""
        node = resolver.Resolver(
            strategy_class=TrainedModelInServiceStrategy,
            config={"custom_config": custom_config, "serving_root": str(serving_root)},
            examples=examples,
            model=channel.Channel(type=standard_artifacts.Model),
            model_blessing=channel.Channel(type=standard_artifacts.ModelBlessing),
        ).with_id("WarmStart")
        return [node], node.outputs["model"]

    def baseline(self, servable: channel.BaseChannel) -> Found:
        """The blessed model to compare with, or none."""
        node = resolver.Resolver(
            strategy_class=OtherBlessedModelStrategy,
            candidate=servable,
            model=channel.Channel(type=standard_artifacts.Model),
            model_blessing=channel.Channel(type=standard_artifacts.ModelBlessing),
        ).with_id("Baseline")
        return [node], node.outputs["model"]
