"""A BERT that KerasHub saved (`backbone.save_to_preset(FOLDER)`), by the names of the transformers library.

    config, tensors = preset.read("bert/")      # config.json, model.weights.h5

Reading needs neither KerasHub nor what it brings along; the vocabulary lies in
`assets/tokenizer/vocabulary.txt`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from modules.errors import TrainingError

CONFIG, WEIGHTS = "config.json", "model.weights.h5"
VOCABULARY = "assets/tokenizer/vocabulary.txt"
_BACKBONE = "BertBackbone"
_EPSILON = 1e-12
"""Of every layer normalisation in KerasHub's BERT; its configuration does not say it."""

_CONFIG = {
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "vocab_size": "vocabulary_size",
}
_EMBEDDINGS = {
    "word_embeddings.weight": "reversible_embedding/vars/0",
    "position_embeddings.weight": "position_embedding/vars/0",
    "token_type_embeddings.weight": "embedding/vars/0",
    "LayerNorm.weight": "layer_normalization/vars/0",
    "LayerNorm.bias": "layer_normalization/vars/1",
}
_DENSE = {
    "attention.self.query": "_self_attention_layer/query_dense",
    "attention.self.key": "_self_attention_layer/key_dense",
    "attention.self.value": "_self_attention_layer/value_dense",
    "attention.output.dense": "_self_attention_layer/output_dense",
    "intermediate.dense": "_feedforward_intermediate_dense",
    "output.dense": "_feedforward_output_dense",
}
_NORMS = {
    "attention.output.LayerNorm": "_self_attention_layer_norm",
    "output.LayerNorm": "_feedforward_layer_norm",
}


def read(folder: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration and the weights, both as the transformers library would write them.

    Raises:
        TrainingError: a file is missing or not understood, or it is no BERT.
    """
    config = _config(Path(folder, CONFIG))
    path = Path(folder, WEIGHTS)
    try:
        with h5py.File(path, "r") as file:
            return config, dict(_tensors(file["layers"], config))
    except (OSError, KeyError) as error:
        raise TrainingError(
            f"The weights of a preset cannot be read: {error}",
            place=str(path),
            remedy="Save it anew: keras_hub.models.Backbone.from_preset(NAME).save_to_preset(FOLDER).",
        ) from error


def _config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        kind, values = found["class_name"], found["config"]
        config = {ours: int(values[theirs]) for ours, theirs in _CONFIG.items()} if kind == _BACKBONE else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(
            f"The configuration of a preset cannot be read: {error!r}", place=str(path)
        ) from error
    if not config:
        raise TrainingError(
            f"Only presets of a {_BACKBONE} can be read. Received: {kind!r}",
            place=str(path),
            remedy="Save the backbone, not the task: keras_hub.models.Backbone.from_preset(NAME).",
        )
    # KerasHub computes BERT with the approximation, whatever the weights were trained with.
    return {**config, "layer_norm_eps": _EPSILON, "hidden_act": "gelu_new"}


def _tensors(layers: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    for name, place in _EMBEDDINGS.items():
        yield f"embeddings.{name}", np.asarray(layers[place])
    for index in range(config["num_hidden_layers"]):
        block = layers["transformer_encoder" + (f"_{index}" if index else "")]
        prefix = f"encoder.layer.{index}"
        for name, place in _DENSE.items():
            yield f"{prefix}.{name}.weight", _matrix(np.asarray(block[f"{place}/vars/0"]), name).T
            yield f"{prefix}.{name}.bias", np.asarray(block[f"{place}/vars/1"]).reshape(-1)
        for name, place in _NORMS.items():
            yield f"{prefix}.{name}.weight", np.asarray(block[f"{place}/vars/0"])
            yield f"{prefix}.{name}.bias", np.asarray(block[f"{place}/vars/1"])


def _matrix(kernel: np.ndarray, name: str) -> np.ndarray:
    """Heads are an axis of their own there: (W, H, D) going in, (H, D, W) coming out."""
    rows = int(np.prod(kernel.shape[:-1])) if name == "attention.output.dense" else kernel.shape[0]
    return kernel.reshape(rows, -1)
