"""Low-rank adapters: few weights that learn beside a frozen encoder (Hu et al., 2021, arXiv:2106.09685).

adapt(model, hparams)                   # freezes the encoder, adds adapters
save(model, "adapters.safetensors")     # kilobytes
merge(model, plain)                     # the same answers without adapters
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from safetensors.numpy import save_file

from modules.errors import TrainingError
from modules.hparams.text import LoraHparams
from modules.text import layers
from modules.text import model as text_model

TARGETS = ("query", "key", "value", "attention_output", "inner", "outer")
"""The dense layers of an encoder block, as `model.lora.targets` names them."""


def freeze(model: keras.Model, what: str) -> None:
    """Keeps weights as they are: `none`, `embeddings`, `encoder`, or with them so many blocks from below."""
    if what == "none":
        return
    _, embedding, *others = text_model.encoder_of(model)
    if what == "embeddings":
        frozen = [embedding]
    elif what == "encoder":
        frozen = [embedding, *others]
    else:
        frozen = [embedding, *_lowest_blocks(others, int(what))]
    for layer in frozen:
        layer.trainable = False


def _lowest_blocks(others: Sequence[keras.layers.Layer], count: int) -> Sequence[keras.layers.Layer]:
    blocks = sum(isinstance(layer, layers.EncoderBlock) for layer in others)
    if count > blocks:
        raise TrainingError(
            f"{count} blocks cannot rest: the encoder has {blocks}",
            place="model.freeze",
            remedy=f"Give at most {blocks}, or encoder for all of it.",
        )
    return others[:count]


def adapt(model: keras.Model, hparams: LoraHparams) -> None:
    """Freezes the encoder of a built transformer, and adds adapters to its dense layers.

    Biases, norms and embeddings rest; the layer that names classes learns as before.

    Raises:
        TrainingError: a target is no layer of an encoder block.
    """
    unknown = sorted(set(hparams.targets) - set(TARGETS))
    if unknown:
        raise TrainingError(
            f"There is no layer {unknown[0]!r} to adapt",
            place="model.lora.targets",
            remedy=f"Known: {', '.join(TARGETS)}.",
        )
    _, embedding, *others = text_model.encoder_of(model)
    embedding.trainable = False
    for layer in others:
        if not isinstance(layer, layers.EncoderBlock):
            layer.trainable = False
            continue
        for part in layer._layers:
            if part.name in hparams.targets:
                part.enable_lora(hparams.rank, lora_alpha=hparams.alpha)
                part.bias.trainable = False
            else:
                part.trainable = False


def adapted(model: keras.Model) -> list[keras.layers.Dense]:
    """The layers with adapters, in order."""
    return [layer for layer in model._flatten_layers() if getattr(layer, "lora_enabled", False)]


def merge(model: keras.Model, plain: keras.Model) -> keras.Model:
    """Gives `plain`, of the same shape without adapters, weights that answer the same.

    A layer's kernel becomes kernel + alpha / rank * A B.
    """
    sources = {id(layer._kernel): layer.kernel for layer in adapted(model)}
    kept = [variable for variable in model.variables if "lora_kernel" not in variable.name]
    for target, source in zip(plain.variables, kept, strict=True):
        target.assign(np.asarray(keras.ops.convert_to_numpy(sources.get(id(source), source))))
    return plain


def save(model: keras.Model, path: str | Path) -> None:
    """Writes the adapters alone, `<layer path>/lora_kernel_a` and `_b`, with rank and alpha."""
    tensors, scale = {}, {}
    for layer in adapted(model):
        for part in (layer.lora_kernel_a, layer.lora_kernel_b):
            tensors[part.path] = keras.ops.convert_to_numpy(part)
        scale = {"rank": str(layer.lora_rank), "alpha": str(layer.lora_alpha)}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(path), metadata=scale)
