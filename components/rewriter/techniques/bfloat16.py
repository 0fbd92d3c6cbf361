"""bfloat16: as float16, with eight bits of precision and float32's range."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from components.rewriter import graphs
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import constants, frozen


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel with bfloat16 weights."""
    graph, inputs, outputs = frozen.optimised_core(trained)
    halved = constants.stored_as(graph, tf.bfloat16)
    trained.write_saved_model(folder, graphs.as_function(halved, inputs, outputs))
