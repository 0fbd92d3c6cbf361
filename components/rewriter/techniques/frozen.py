"""frozen: variables become constants, and grappler folds what they allow.

Only the float core is frozen. A graph that parses Examples cannot be
re-imported after grappler, and freezing each signature would store the
weights once per signature; so preprocessing is put back around it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.training import saver

from components.rewriter import graphs
from components.rewriter.base import TrainedModel

_OPTIMIZERS = ("function", "constfold", "arithmetic", "dependency", "remapper", "constfold")


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel with a frozen, optimised core."""
    graph, inputs, outputs = optimised_core(trained)
    trained.write_saved_model(folder, graphs.as_function(graph, inputs, outputs))


def optimised_core(trained: TrainedModel) -> tuple[Any, str, str]:
    """The core's frozen and optimised GraphDef, its input's and its output's tensor name."""
    frozen = trained.frozen_core
    input_name, output_name = frozen.inputs[0].name, frozen.outputs[0].name
    meta = saver.export_meta_graph(graph_def=frozen.graph.as_graph_def(), graph=frozen.graph)
    kept = meta_graph_pb2.CollectionDef()
    kept.node_list.value.extend([input_name, output_name])
    # Grappler drops what no "train_op" needs; these two are what is needed.
    meta.collection_def["train_op"].CopyFrom(kept)
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.optimizers.extend(_OPTIMIZERS)
    config.graph_options.rewrite_options.min_graph_nodes = -1
    return tf_optimizer.OptimizeGraph(config, meta), input_name, output_name
