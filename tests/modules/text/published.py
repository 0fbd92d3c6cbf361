"""A small BERT with made weights, in the files that the transformers library writes, and KerasHub."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
from safetensors.numpy import save_file

WIDTH, INNER, BLOCKS, PLACES = 8, 16, 2, 12
VOCABULARY = [
    "[PAD]",
    "a",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "low",
    "##er",
    "##est",
    "new",
    "\u20ac5",
    ",",
]
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": WIDTH,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 2,
    "intermediate_size": INNER,
    "max_position_embeddings": PLACES,
    "type_vocab_size": 2,
    "vocab_size": len(VOCABULARY),
    "layer_norm_eps": 1e-12,
}


def tensors() -> dict[str, np.ndarray]:
    """Weights by the library's names, from a fixed seed."""
    random = np.random.default_rng(7)

    def made(*shape: int) -> np.ndarray:
        return random.normal(scale=0.5, size=shape).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": made(len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": made(PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": made(2, WIDTH),
        "embeddings.LayerNorm.weight": 1 + made(WIDTH),
        "embeddings.LayerNorm.bias": made(WIDTH),
    }
    for block in range(BLOCKS):
        prefix = f"encoder.layer.{block}."
        for name, rows, columns in (
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", INNER, WIDTH),
            ("output.dense", WIDTH, INNER),
        ):
            found[f"{prefix}{name}.weight"] = made(rows, columns)
            found[f"{prefix}{name}.bias"] = made(rows)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found[f"{prefix}{name}.weight"] = 1 + made(WIDTH)
            found[f"{prefix}{name}.bias"] = made(WIDTH)
    return found


def write(folder: Path) -> Path:
    """Writes config.json, model.safetensors and vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    save_file(tensors(), str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


def write_preset(folder: Path) -> Path:
    """The same weights in the files that KerasHub's `save_to_preset` writes."""
    (folder / "assets/tokenizer").mkdir(parents=True)
    (folder / "assets/tokenizer/vocabulary.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps({"class_name": "BertTokenizer", "config": {}}))
    config = {
        "vocabulary_size": len(VOCABULARY),
        "num_layers": BLOCKS,
        "num_heads": 2,
        "hidden_dim": WIDTH,
        "intermediate_dim": INNER,
        "dropout": 0.1,
        "max_sequence_length": PLACES,
        "num_segments": 2,
    }
    (folder / "config.json").write_text(json.dumps({"class_name": "BertBackbone", "config": config}))
    with h5py.File(folder / "model.weights.h5", "w") as file:
        for name, value in tensors().items():
            place = _in_block(name) if name.startswith("encoder") else _PRESET[name.split(".")[1]]
            file[f"layers/{place}/vars/{int(name.endswith('.bias'))}"] = _by_heads(name, value)
    return folder


_PRESET = {
    "word_embeddings": "reversible_embedding",
    "position_embeddings": "position_embedding",
    "token_type_embeddings": "embedding",
    "LayerNorm": "layer_normalization",
}
_PARTS = {
    "attention.self.query": "_self_attention_layer/query_dense",
    "attention.self.key": "_self_attention_layer/key_dense",
    "attention.self.value": "_self_attention_layer/value_dense",
    "attention.output.dense": "_self_attention_layer/output_dense",
    "attention.output.LayerNorm": "_self_attention_layer_norm",
    "intermediate.dense": "_feedforward_intermediate_dense",
    "output.dense": "_feedforward_output_dense",
    "output.LayerNorm": "_feedforward_layer_norm",
}


def _in_block(name: str) -> str:
    number, part = name.removeprefix("encoder.layer.").rsplit(".", 1)[0].split(".", 1)
    return "transformer_encoder" + ("" if number == "0" else f"_{number}") + f"/{_PARTS[part]}"


def _by_heads(name: str, value: np.ndarray) -> np.ndarray:
    """Kernels as Keras has them, where heads are an axis of their own."""
    if name.endswith(".weight") and "LayerNorm" not in name and "embeddings" not in name:
        value = value.T
    if ".attention.self." in name:
        return value.reshape(*value.shape[:-1], 2, WIDTH // 2)
    return value.reshape(2, WIDTH // 2, -1) if name.endswith("attention.output.dense.weight") else value
