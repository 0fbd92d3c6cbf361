"""compressed: pruned weights stored deflated (zlib), and inflated in the graph.

Pruning masks are no part of an export: what training pruned is zeros in the
weights, and zeros deflate to almost nothing. Weights without many zeros do
not deflate, so there is nothing to gain from a model that was not pruned.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from components.rewriter import graphs
from components.rewriter.base import CannotRun, TrainedModel
from components.rewriter.techniques import constants, frozen

MIN_ZEROS = 0.3
"""Share of zeros from which deflating pays; below, it saves less than inflating costs."""


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel with its pruned weights deflated.

    Raises:
        CannotRun: no weight of the model is pruned.
    """
    graph, inputs, outputs = frozen.optimised_core(trained)
    kernels = [value for value in constants.weights(graph) if constants.is_kernel(value)]
    zeros = [float(np.mean(value == 0)) for value in kernels]
    if not any(share >= MIN_ZEROS for share in zeros):
        most = max(zeros, default=0.0)
        raise CannotRun(f"the model is not pruned: at most {most:.0%} of any weight is zero")
    stored = constants.deflated(graph, MIN_ZEROS)
    trained.write_saved_model(folder, graphs.as_function(stored, inputs, outputs))
