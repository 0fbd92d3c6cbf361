"""What preprocessing and training of texts are told, and which networks there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from modules.hparams.reading import with_tuples
from modules.hparams.train import TrainHparams

TEXT_NETWORKS = ("cnn", "ngrams", "transformer")
"""Networks for texts, by name."""


@dataclass(frozen=True)
class TextInputHparams:
    """What Transform is told of texts; `pipelines.text_stages.TextModel` describes each field.

    `vocabulary_digest` only makes Transform run again when the file has changed.
    """

    text_feature: str
    text_pair_feature: str
    label_feature: str
    tokens: str
    unicode: str
    lowercase: bool
    strip_accents: bool
    max_tokens: int
    truncation: str
    vocabulary_size: int
    character_ngram: int
    word_ngrams: int
    character_ngrams: tuple[int, int]
    buckets: int
    vocabulary_file: str = ""
    vocabulary_digest: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        return cls(**with_tuples(config, ("character_ngrams",)))


@dataclass(frozen=True)
class ChunkHparams:
    """How a long text is cut: tokens of a chunk, tokens shared with the next, and how logits are pooled."""

    tokens: int = 128
    overlap: int = 32
    pooling: str = "mean"


@dataclass(frozen=True)
class PretrainHparams:
    """Masked language modelling before the classes are learned; see `modules.text.pretraining`."""

    epochs: int = 20
    learning_rate: float = 0.001
    batch_size: int = 64
    mask_share: float = 0.15
    whole_words: bool = False


@dataclass(frozen=True)
class LoraHparams:
    """Low-rank adapters; see `modules.text.lora`."""

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("query", "value")


@dataclass(frozen=True)
class TextModelHparams:
    """A network for texts; `pipelines.text_stages.TextModel` describes each field."""

    name: str
    width: int
    dropout: float
    token_dropout: float
    filters: int
    kernels: tuple[int, ...]
    layers: int
    heads: int
    feedforward: int
    positions: str
    pooling: str
    weights: str
    freeze: str
    weights_digest: str = ""
    chunk: ChunkHparams | None = None
    pretrain: PretrainHparams | None = None
    lora: LoraHparams | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        given = with_tuples(config, ("kernels",))
        if given.get("chunk") is not None:
            given["chunk"] = ChunkHparams(**given["chunk"])
        if given.get("pretrain") is not None:
            given["pretrain"] = PretrainHparams(**given["pretrain"])
        if given.get("lora") is not None:
            given["lora"] = LoraHparams(**with_tuples(given["lora"], ("targets",)))
        return cls(**given)


@dataclass(frozen=True)
class TextHparams:
    """Everything that training on texts is told."""

    inputs: TextInputHparams
    model: TextModelHparams
    train: TrainHparams
    state_root: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads the JSON-like mapping that `pipelines.create` writes.

        Raises:
            TypeError: a key is missing or unknown.
        """
        return cls(
            inputs=TextInputHparams.from_config(config["inputs"]),
            model=TextModelHparams.from_config(config["model"]),
            train=TrainHparams.from_config(config["train"]),
            state_root=config.get("state_root", ""),
        )
