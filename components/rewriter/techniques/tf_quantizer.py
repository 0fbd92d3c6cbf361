"""TensorFlow's own quantizer, over the core alone; preprocessing is put back around it.

Source: tensorflow.compiler.mlir.quantization, whose Python entry point is no
public API; which methods go with which operation set was found by trying.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from components.rewriter import graphs
from components.rewriter.base import CORE_INPUT, CannotRun, TrainedModel
from components.serving.servable import SIGNATURE_TENSORS


def build(trained: TrainedModel, folder: Path, *, method: str, op_set: str, calibrated: bool = False) -> None:
    """Writes the SavedModel with a core that TensorFlow quantized.

    Args:
        trained: the model.
        folder: the version folder.
        method: a preset of QuantizationMethod, such as METHOD_DYNAMIC_RANGE_INT8.
        op_set: an OpSet, such as TF or XLA.
        calibrated: measures ranges on the calibration examples, per channel where it can.

    Raises:
        CannotRun: this TensorFlow has no such quantizer.
    """
    with tempfile.TemporaryDirectory() as scratch:
        before, after = Path(scratch, "core"), Path(scratch, "quantized")
        trained.write_core(before)
        data = _calibration(trained) if calibrated else None
        _quantize(before, after, method, op_set, data)
        loaded = tf.saved_model.load(str(after))
        # As constants: they are written once then, not once for each signature.
        core = convert_variables_to_constants_v2(loaded.signatures[SIGNATURE_TENSORS])
        function = graphs.as_function(core.graph.as_graph_def(), core.inputs[0].name, core.outputs[0].name)
        trained.write_saved_model(folder, function)


def _calibration(trained: TrainedModel) -> list[Mapping[str, Any]]:
    return [{CORE_INPUT: batch} for batch in trained.calibration_batches()]


def _quantize(
    source: Path, target: Path, method: str, op_set: str, data: list[Mapping[str, Any]] | None
) -> None:
    try:
        from tensorflow.compiler.mlir.quantization.tensorflow import quantization_options_pb2 as options_pb2
        from tensorflow.compiler.mlir.quantization.tensorflow.python import quantize_model
    except ImportError as error:
        raise CannotRun(f"this TensorFlow has no quantizer ({error})") from error
    options = options_pb2.QuantizationOptions(
        quantization_method=options_pb2.QuantizationMethod(
            preset_method=getattr(options_pb2.QuantizationMethod, method)
        ),
        op_set=getattr(options_pb2, op_set),
        signature_keys=[SIGNATURE_TENSORS],
        tags=["serve"],
        # Per channel is there for the XLA operation set alone.
        enable_per_channel_quantization=data is not None,
    )
    quantize_model.quantize(
        str(source),
        output_directory=str(target),
        quantization_options=options,
        representative_dataset=None if data is None else {SIGNATURE_TENSORS: data},
    )
