"""A small BERT with made weights, in the files that the transformers library writes."""

from __future__ import annotations

import json
from pathlib import Path

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
