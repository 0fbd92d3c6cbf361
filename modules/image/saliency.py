"""Where a model looked when it was wrong: Grad-CAM pictures of validation mistakes.

    heat = grad_cam(model, images, class_ids)            # (B, h, w) in [0, 1]
    write(model, examples, folder, class_names)          # PNGs, and an index by image

After Selvaraju et al. (2016, arXiv:1610.02391): the features before pooling,
weighed by how much each raises the class's log probability, negative ones left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

from modules import contract
from modules.training.freezing import POOL

MAX_PICTURES = 24
_BATCH = 32
_PIXELS = 96
_STRENGTH = 0.6


def grad_cam(model: keras.Model, images: tf.Tensor, class_ids: Sequence[int]) -> np.ndarray:
    """How much each place speaks for a class.

    Args:
        model: with a layer `pool` after features (B, h, w, D) or tokens (B, h * w, D).
        images: (B, H, W, C) float32, as the model takes them.
        class_ids: B columns of the scores.

    Returns:
        (B, h, w) float32 in [0, 1]; all zero where nothing speaks for the class.
    """
    before = model.get_layer(POOL).input
    features_of = keras.Model(model.inputs[0], before)
    scores_of = keras.Model(before, model.outputs[0])
    features = features_of(images, training=False)
    with tf.GradientTape() as tape:
        tape.watch(features)
        scores = tf.gather(scores_of(features, training=False), class_ids, axis=1, batch_dims=1)
        total = tf.reduce_sum(tf.math.log(scores + 1e-12))
    gradients = tape.gradient(total, features)
    places = list(range(1, features.shape.rank - 1))
    weights = tf.reduce_mean(gradients, axis=places, keepdims=True)
    heat = tf.nn.relu(tf.reduce_sum(weights * features, axis=-1)).numpy()
    heat /= np.maximum(heat.reshape(len(heat), -1).max(axis=1), 1e-12).reshape(-1, *[1] * (heat.ndim - 1))
    return heat if heat.ndim == 3 else _as_grid(heat, images.shape[1] / images.shape[2])


def _as_grid(heat: np.ndarray, aspect: float) -> np.ndarray:
    """(B, T) tokens as (B, h, w), rows first."""
    tokens = heat.shape[1]
    height = min(
        (rows for rows in range(1, tokens + 1) if tokens % rows == 0),
        key=lambda rows: abs(rows * rows / tokens - aspect),
    )
    return heat.reshape(len(heat), height, tokens // height)


def write(
    model: keras.Model,
    examples: Iterable[tuple[bytes, np.ndarray, int]],
    folder: Path,
    class_names: Sequence[str],
) -> int:
    """Writes pictures of the surest mistakes, and returns how many.

    Args:
        model: as `grad_cam` takes it; one without a layer `pool`, or without places before it, gets no
            pictures.
        examples: (encoded image, (H, W, C) float32 pixels in [0, 255], class id).
        folder: of the Trainer's run.
        class_names: in the order of the scores.
    """
    if POOL not in [layer.name for layer in model.layers] or len(model.get_layer(POOL).input.shape) < 3:
        return 0
    mistakes = sorted(_mistakes(model, examples), key=lambda item: -item[0])[:MAX_PICTURES]
    if not mistakes:
        return 0
    heat = grad_cam(
        model, tf.stack([pixels for _, _, pixels, _ in mistakes]), [predicted for *_, predicted in mistakes]
    )
    target = folder / contract.SALIENCY_FOLDER
    target.mkdir(parents=True, exist_ok=True)
    index = {}
    for number, (_, encoded, pixels, predicted) in enumerate(mistakes):
        name = f"{number:02d}.png"
        overlay(pixels, heat[number]).save(target / name)
        index[hashlib.sha256(encoded).hexdigest()] = {"file": name, "predicted": class_names[predicted]}
    (target / contract.SALIENCY_INDEX).write_text(json.dumps(index, indent=1))
    return len(mistakes)


def _mistakes(
    model: keras.Model, examples: Iterable[tuple[bytes, np.ndarray, int]]
) -> list[tuple[float, bytes, np.ndarray, int]]:
    """(score, encoded, pixels, predicted) of what the model gets wrong."""
    found: list[tuple[float, bytes, np.ndarray, int]] = []
    waiting: list[tuple[bytes, np.ndarray, int]] = []
    # Of one shape: the last, smaller batch is not worth a trace of its own.
    spec = tf.TensorSpec((None, *model.inputs[0].shape[1:]), tf.float32)
    predict = tf.function(lambda images: model(images, training=False), input_signature=[spec])

    def judge() -> None:
        scores = np.asarray(predict(tf.stack([pixels for _, pixels, _ in waiting])))
        for (encoded, pixels, label), row in zip(waiting, scores, strict=True):
            top = int(row.argmax())
            if top != label:
                found.append((float(row[top]), encoded, pixels, top))
        waiting.clear()

    for example in examples:
        waiting.append(example)
        if len(waiting) == _BATCH:
            judge()
    if waiting:
        judge()
    return found


def overlay(pixels: np.ndarray, heat: np.ndarray) -> Image.Image:
    """The image in grey, with red where the heat is: at most 96 pixels wide and high.

    Args:
        pixels: (H, W, C) float32 in [0, 255].
        heat: (h, w) float32 in [0, 1].
    """
    colours = pixels[..., :3] if pixels.shape[-1] >= 3 else np.repeat(pixels[..., :1], 3, axis=-1)
    picture = Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8)).convert("L")
    scale = _PIXELS / max(picture.size)
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    grey = np.asarray(picture.resize(size, Image.Resampling.BILINEAR), np.float32)
    small = Image.fromarray((heat * 255).astype(np.uint8)).resize(size, Image.Resampling.BILINEAR)
    share = np.asarray(small, np.float32)[..., None] / 255 * _STRENGTH
    red = np.array([255.0, 30.0, 0.0], np.float32)
    mixed = grey[..., None] * (1 - share) + red * share
    return Image.fromarray(mixed.astype(np.uint8))
