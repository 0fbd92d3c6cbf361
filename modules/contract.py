"""Names that a trained model is read by. Standard library only.

A trained SavedModel has two signatures for servers and, beside them, plain
functions for the rewriter, which replaces the core and keeps the rest:

    loaded = tf.saved_model.load(path)
    loaded.preprocessing.preprocess_examples(examples)  # (B,) string -> (B, H, W, C) float32
    loaded.core(tensor)     # (B, H, W, C) float32 -> (B, C) float32
    loaded.class_names()    # (C,) string
"""

from __future__ import annotations

SIGNATURE_EXAMPLES = "serving_default"
"""Takes `examples`: (B,) string, serialized tf.train.Examples."""

SIGNATURE_IMAGE = "predict_image"
"""Takes `image_bytes`: (B,) string, encoded images."""

INPUT_EXAMPLES = "examples"
INPUT_IMAGE = "image_bytes"

OUTPUT_SCORES = "scores"
"""(B, C) float32, one probability per class, rows sum to 1."""

OUTPUT_CLASSES = "classes"
"""(B, C) string, the class names in the order of the scores."""

CORE_FUNCTION = "core"
PREPROCESSING_MODULE = "preprocessing"
CLASS_NAMES_FUNCTION = "class_names"
PREPROCESS_FUNCTIONS = {
    SIGNATURE_EXAMPLES: ("preprocess_examples", INPUT_EXAMPLES),
    SIGNATURE_IMAGE: ("preprocess_image", INPUT_IMAGE),
}
"""Signature -> (function on the preprocessing module, name of its one input)."""

FAMILY_SIGNATURES = {
    "image": (SIGNATURE_EXAMPLES, SIGNATURE_IMAGE),
    "tabular": (SIGNATURE_EXAMPLES,),
}
"""Model family -> the signatures that its exports have."""

KERAS_MODEL = "keras/model.keras"
"""The Keras model, relative to the model artifact's folder."""

HISTORY_FILE = "history.json"
"""Loss and metrics per epoch, in the Trainer's `model_run` artifact."""

LABEL_VOCABULARY = "label"
"""Name of the vocabulary that Transform writes; line number = class id."""

IMAGE_MEAN = "image_mean"
IMAGE_VARIANCE = "image_variance"
"""Transformed features, constant over all rows: (C,) float32 per channel, of pixels in [0, 255]."""

TRACE_STEPS = "headrace.steps"
TRACE_EVALUATION = "headrace.evaluation"
"""Names that the profiler's trace has for calls of training steps and of validation."""
