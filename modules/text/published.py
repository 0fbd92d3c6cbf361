"""Published BERT and MiniLM weights into our encoder, from a local folder.

    published = read("minilm/")      # config.json, model.safetensors, vocab.txt or tokenizer.json
    encoder = model.encoder_layers(published.shape, published.vocabulary, dropout=0.1)
    published.load(encoder)

The folder is as the transformers library writes it, or KerasHub (see `preset`). Nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from modules.errors import TrainingError
from modules.text import layers, preset
from modules.text import vocabulary as vocabularies
from modules.text.model import Shape, Vocabulary

CONFIG, WEIGHTS = "config.json", "model.safetensors"
VOCABULARIES = ("vocab.txt", preset.VOCABULARY, "tokenizer.json")
"""Searched in this order: a preset's tokenizer.json holds settings alone."""

# Our layer in a block -> its name in the file.
_BLOCK = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "norm": "output.LayerNorm",
}
_EMBEDDING = {
    "tokens": "word_embeddings",
    "places": "position_embeddings",
    "types": "token_type_embeddings",
    "norm": "LayerNorm",
}
_DEFAULTS = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2}
"""Of transformers' BertConfig, which leaves out what is as it is there; sizes are always said."""

_TANH_GELU = ("gelu_new", "gelu_pytorch_tanh")
_PREFIX = "bert."
_OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}


@dataclass(frozen=True)
class Published:
    """An encoder from a file.

    Attributes:
        shape: of the encoder.
        vocabulary: how many ids, and the special ones.
        tensors: name without prefix -> value.
        place: the file, for errors.
    """

    shape: Shape
    vocabulary: Vocabulary
    tensors: dict[str, np.ndarray]
    place: str

    def load(self, encoder: Sequence[keras.layers.Layer]) -> None:
        """Fills the built layers of `model.encoder_layers(self.shape, self.vocabulary, ...)`.

        Raises:
            TrainingError: a tensor is missing, or of another shape.
        """
        for variable, name, transposed in _pairs(encoder):
            if name not in self.tensors:
                raise TrainingError(f"The published weights lack {name!r}", place=self.place)
            value = self.tensors[name].T if transposed else self.tensors[name]
            if tuple(value.shape) != tuple(variable.shape):
                raise TrainingError(
                    f"A published weight has another shape: expected {tuple(variable.shape)}, "
                    f"received {tuple(value.shape)}",
                    place=f"{self.place}, {name}",
                )
            variable.assign(value.astype(np.float32))


def _pairs(encoder: Sequence[keras.layers.Layer]) -> Iterator[tuple[keras.Variable, str, bool]]:
    """Our variable, the file's name for it, and whether the file has it transposed."""
    _, embedding, *blocks = encoder
    for part, name in _EMBEDDING.items():
        layer = getattr(embedding, part)
        if layer is not None:
            yield from _of_layer(layer, f"embeddings.{name}")
    for index, block in enumerate(blocks):
        if isinstance(block, layers.EncoderBlock):
            for part, name in _BLOCK.items():
                yield from _of_layer(getattr(block, part), f"encoder.layer.{index}.{name}")


def _of_layer(layer: Any, name: str) -> Iterator[tuple[keras.Variable, str, bool]]:
    if isinstance(layer, keras.layers.Embedding):
        yield layer.embeddings, f"{name}.weight", False
    elif isinstance(layer, keras.layers.LayerNormalization):
        yield layer.gamma, f"{name}.weight", False
        yield layer.beta, f"{name}.bias", False
    else:
        yield layer._kernel, f"{name}.weight", True
        yield layer.bias, f"{name}.bias", False


def vocabulary_file(folder: str | Path) -> Path:
    """The file with the folder's vocabulary.

    Raises:
        TrainingError: there is none.
    """
    for name in VOCABULARIES:
        path = Path(folder, name)
        if path.is_file():
            return path
    raise TrainingError(
        "A folder with published weights lacks its vocabulary",
        place=str(folder),
        remedy=f"Put {' or '.join(VOCABULARIES)} there.",
    )


def read(folder: str | Path) -> Published:
    """Reads an encoder's shape, weights and vocabulary.

    Raises:
        TrainingError: a file is missing or not understood, or it is no BERT.
    """
    lines = vocabularies.read_published(vocabulary_file(folder))
    config, tensors, path = _files(Path(folder))
    _check_size(lines, config["vocab_size"], vocabulary_file(folder))
    shape = Shape(
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        feedforward=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        types=config["type_vocab_size"],
        norm="post",
        embedding_norm=True,
        epsilon=config["layer_norm_eps"],
        tanh_gelu=config["hidden_act"] in _TANH_GELU,
    )
    vocabulary = Vocabulary(config["vocab_size"], vocabularies.published_specials(lines))
    return Published(shape, vocabulary, tensors, str(path))


def _files(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], Path]:
    """Configuration, tensors by name without prefix, and the file that they are from."""
    if not (folder / WEIGHTS).exists() and (folder / preset.WEIGHTS).exists():
        return *preset.read(folder), folder / preset.WEIGHTS
    config, path = _config(folder / CONFIG), folder / WEIGHTS
    try:
        raw = load_file(str(path))
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"Published weights cannot be read: {error}",
            place=str(path),
            remedy="Give a folder with config.json, model.safetensors and vocab.txt or tokenizer.json.",
        ) from error
    return config, {_plain(name): value for name, value in raw.items()}, path


def _check_size(lines: Sequence[str], rows: int, path: Path) -> None:
    """Raises a TrainingError where words have no embedding; says where embeddings have no word."""
    if len(lines) > rows:
        raise TrainingError(
            f"The vocabulary has {len(lines)} lines, and the published weights embed {rows}",
            place=str(path),
            remedy=f"Give the vocabulary that the weights came with; {CONFIG} says vocab_size.",
        )
    if len(lines) < rows:
        print(f"{path}: {len(lines)} lines for {rows} embeddings; words beyond the last line are unknown")


def _plain(name: str) -> str:
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name.removeprefix(_PREFIX)


def _config(path: Path) -> dict[str, Any]:
    try:
        config = {**_DEFAULTS, **json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(
            f"The configuration of published weights cannot be read: {error}", place=str(path)
        ) from error
    activation, kind = config.get("hidden_act"), config.get("model_type")
    if (
        kind != "bert"
        or activation not in ("gelu", *_TANH_GELU)
        or config.get("position_embedding_type", "absolute") != "absolute"
    ):
        raise TrainingError(
            f"Only encoders of type bert with gelu can be read. Received: {kind!r} with {activation!r}",
            place=str(path),
        )
    return config
