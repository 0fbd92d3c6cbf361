"""Names that a trained model is read by. Standard library only.

A trained SavedModel has two signatures for servers and, beside them, plain
functions for the rewriter, which replaces the core and keeps the rest:

    loaded = tf.saved_model.load(path)
    loaded.preprocessing.preprocess_examples(examples)  # (B,) string -> (B, H, W, C) float32
    loaded.core(tensor)     # (B, H, W, C) float32 -> (B, C) float32
    loaded.class_names()    # (C,) string; (0,) for a regression, whose core gives (B,) float32
"""

from __future__ import annotations

SIGNATURE_EXAMPLES = "serving_default"
"""Takes `examples`: (B,) string, serialized tf.train.Examples."""

SIGNATURE_IMAGE = "predict_image"
"""Takes `image_bytes`: (B,) string, encoded images."""

SIGNATURE_TEXT = "predict_text"
"""Takes `text`: (B,) string, UTF-8; where the model reads pairs, the two texts with a tab between them."""

INPUT_EXAMPLES = "examples"
INPUT_IMAGE = "image_bytes"
INPUT_TEXT = "text"

OUTPUT_SCORES = "scores"
"""(B, C) float32, one probability per class, rows sum to 1."""

OUTPUT_CLASSES = "classes"
"""(B, C) string, the class names in the order of the scores."""

OUTPUT_VALUES = "outputs"
"""(B,) float32, the one output of a regression, which has neither scores nor classes."""

CORE_FUNCTION = "core"
PREPROCESSING_MODULE = "preprocessing"
CLASS_NAMES_FUNCTION = "class_names"
PREPROCESS_FUNCTIONS = {
    SIGNATURE_EXAMPLES: ("preprocess_examples", INPUT_EXAMPLES),
    SIGNATURE_IMAGE: ("preprocess_image", INPUT_IMAGE),
    SIGNATURE_TEXT: ("preprocess_text", INPUT_TEXT),
}
"""Signature -> (function on the preprocessing module, name of its one input)."""

FAMILY_SIGNATURES = {
    "image": (SIGNATURE_EXAMPLES, SIGNATURE_IMAGE),
    "tabular": (SIGNATURE_EXAMPLES,),
    "text": (SIGNATURE_EXAMPLES, SIGNATURE_TEXT),
}
"""Model family -> the signatures that its exports have."""

LAYER_MODULES = {"image": ("modules.image.vit",), "text": ("modules.text.layers",)}
"""Model family -> modules to import before its Keras model is read, since they register its layers."""

KERAS_MODEL = "keras/model.keras"
"""The Keras model, relative to the model artifact's folder."""

HISTORY_FILE = "history.json"
"""Loss and metrics per epoch, in the Trainer's `model_run` artifact."""

SALIENCY_FOLDER = "saliency"
SALIENCY_INDEX = "index.json"
"""In the Trainer's `model_run`: pictures of mistakes, and SHA-256 of the encoded image -> its picture."""

LABEL_MEAN = "label_mean"
LABEL_VARIANCE = "label_variance"
"""Transformed features of a regression, constant over all rows: (1,) float32, of the label in training."""

LABEL_COUNTS = "label_counts"
LABEL_VOCABULARY = "label"
"""Names of the vocabulary that Transform writes, with and without counts; line number = class id."""

IMAGE_MEAN = "image_mean"
IMAGE_VARIANCE = "image_variance"
"""Transformed features, constant over all rows: (C,) float32 per channel, of pixels in [0, 255]."""

TRACE_STEPS = "headrace.steps"
TRACE_EVALUATION = "headrace.evaluation"
"""Names that the profiler's trace has for calls of training steps and of validation."""
