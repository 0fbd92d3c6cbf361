"""int6_deflated: kernels stored as integers of 6 bits, deflated; computed with in float32."""

from __future__ import annotations

from pathlib import Path

from components.rewriter import graphs
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import constants, frozen


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel."""
    graph, inputs, outputs = frozen.optimised_core(trained)
    trained.write_saved_model(folder, graphs.as_function(constants.rounded(graph, 6), inputs, outputs))
