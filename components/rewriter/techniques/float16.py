"""float16: the frozen core with its weights stored in half precision.

The constants are cast back to float32 in the graph. TensorFlow folds those
casts when the model is first called, so computation stays in float32 at full
speed; what is halved is the size on disk and the time to read it.
"""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from components.rewriter import graphs
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import constants, frozen


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel with half-precision weights."""
    graph, inputs, outputs = frozen.optimised_core(trained)
    halved = constants.stored_as(graph, tf.float16)
    trained.write_saved_model(folder, graphs.as_function(halved, inputs, outputs))
