"""Writes a trained model as a SavedModel with serving signatures.

    export.save(path, model, class_names, {"serving_default": parse_and_decode})

One tf.Module holds the model's variables, so they are written once; the
functions named in `modules.contract` stay callable on the loaded object, so
that the rewriter can replace the core and keep what is around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from modules import contract

Preprocess = Callable[[tf.Tensor], tf.Tensor]


def save(
    path: str,
    model: keras.Model,
    class_names: Sequence[str],
    preprocess: Mapping[str, Preprocess],
    resources: Mapping[str, Any] | None = None,
) -> None:
    """Saves `model` with one signature per entry of `preprocess`.

    Args:
        path: folder to write; must not hold a model yet.
        model: (B, ...) float32 to (B, C) float32 probabilities; for a regression to (B,) float32.
        class_names: C names in the order of the scores; none for a regression.
        preprocess: signature name -> function from a (B,) string tensor to the
            model's input. Names as in `contract.PREPROCESS_FUNCTIONS`.
        resources: what the preprocessing functions hold, such as tables.
    """
    module = tf.Module()
    module.model_variables = [variable.value for variable in model.variables]
    # What comes before the core is a module of its own, so that the rewriter
    # can take it over, with the tables it may hold, without the weights.
    before = tf.Module()
    for name, resource in (resources or {}).items():
        setattr(before, name, resource)
    setattr(module, contract.PREPROCESSING_MODULE, before)
    # A function, since a plain tensor on a module is not restored by loading.
    names = tf.function(
        lambda: tf.constant(list(class_names), tf.string, [len(class_names)]), input_signature=[]
    )
    setattr(module, contract.CLASS_NAMES_FUNCTION, names)
    core = tf.function(
        lambda inputs: model(inputs, training=False),
        input_signature=[tf.TensorSpec((None, *model.inputs[0].shape[1:]), tf.float32, name="inputs")],
    )
    setattr(module, contract.CORE_FUNCTION, core)
    signatures = {}
    for signature, function in preprocess.items():
        attribute, input_name = contract.PREPROCESS_FUNCTIONS[signature]
        spec = [tf.TensorSpec([None], tf.string, name=input_name)]
        traced = tf.function(function, input_signature=spec)
        setattr(before, attribute, traced)
        serve = _serve(traced, core, names) if class_names else _serve_values(traced, core)
        signatures[signature] = tf.function(serve, input_signature=spec)
    tf.saved_model.save(module, path, signatures=signatures)


def _serve(
    preprocess: Preprocess, core: Preprocess, class_names: Callable[[], tf.Tensor]
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    def serve(raw: tf.Tensor) -> dict[str, tf.Tensor]:
        scores = core(preprocess(raw))
        row = tf.expand_dims(class_names(), 0)
        return {
            contract.OUTPUT_SCORES: scores,
            contract.OUTPUT_CLASSES: tf.tile(row, [tf.shape(scores)[0], 1]),
        }

    return serve


def _serve_values(preprocess: Preprocess, core: Preprocess) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    return lambda raw: {contract.OUTPUT_VALUES: core(preprocess(raw))}
