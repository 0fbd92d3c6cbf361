"""The model stage of an experiment on texts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from modules.hparams.text import TEXT_NETWORKS
from pipelines.stage import Stage, known_network

Positive = Annotated[int, Field(ge=1)]


class Chunk(Stage):
    """Long texts in overlapping pieces, whose logits are pooled."""

    tokens: Annotated[int, Field(ge=8, le=4096)] = Field(128, description="Of a chunk.")
    overlap: Annotated[int, Field(ge=0)] = Field(32, description="Tokens that neighbours share.")
    pooling: Literal["mean", "max"] = "mean"

    @model_validator(mode="after")
    def _moves_on(self) -> Chunk:
        if self.overlap >= self.tokens - 1:
            raise ValueError("model.chunk.overlap must be smaller than model.chunk.tokens - 1")
        return self


class Pretrain(Stage):
    """Masked language modelling on the training texts, before the classes are learned."""

    task: Literal["mlm"] = "mlm"
    epochs: Positive = 20
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.001, description="Peak, after warm-up.")
    batch_size: Positive = 64
    mask_share: Annotated[float, Field(gt=0, lt=1)] = Field(0.15, description="Of the tokens.")
    whole_words: bool = Field(False, description="wordpiece: pieces of a word are hidden together.")


class Lora(Stage):
    """Low-rank adapters in a frozen encoder."""

    rank: Annotated[int, Field(ge=1, le=256)] = 8
    alpha: Annotated[float, Field(gt=0)] = Field(16.0, description="Adapters count alpha / rank.")
    targets: list[Literal["query", "key", "value", "attention_output", "inner", "outer"]] = Field(
        ["query", "value"], min_length=1, description="Dense layers of each block that get one."
    )


def _known_text_network(name: str) -> str:
    return known_network(name, TEXT_NETWORKS, "text")


_UNCASED = {"unicode": "nfd", "lowercase": True, "strip_accents": True}
"""Normalisation of BERT's uncased vocabularies, which MiniLM has too."""


class TextModel(Stage):
    """A network for texts, or pairs of texts where data.text_pair names the second."""

    family: Literal["text"] = "text"
    name: Annotated[str, AfterValidator(_known_text_network)] = Field(
        "ngrams",
        description="ngrams (a bag of hashed word and character n-grams, hard to beat on short texts), cnn, "
        "transformer, or module.function of your own.",
    )
    unicode: Literal["nfkc", "nfd", "none"] = Field("nfkc", description="Normalisation form.")
    lowercase: bool = True
    strip_accents: bool = False
    tokens: Literal["words", "characters", "wordpiece"] = Field(
        "wordpiece", description="cnn and transformer: what a token is. characters: n-grams of them."
    )
    vocabulary_size: Positive = Field(8000, description="Tokens kept; the training split decides which.")
    character_ngram: Annotated[int, Field(ge=1, le=8)] = Field(3, description="characters: of so many.")
    max_tokens: Annotated[int, Field(ge=4, le=65536)] = Field(
        64, description="Tokens kept of a text (words, for ngrams)."
    )
    truncation: Literal["head", "tail", "both"] = Field("head", description="What is kept of longer texts.")
    word_ngrams: Annotated[int, Field(ge=0, le=8)] = Field(2, description="ngrams: words at most; 0 is none.")
    character_ngrams: list[Annotated[int, Field(ge=0, le=12)]] = Field(
        [2, 5], min_length=2, max_length=2, description="ngrams: characters, from and to; [0, 0] is none."
    )
    buckets: Annotated[int, Field(ge=16, le=1 << 24)] = Field(1 << 17, description="ngrams: of the hash.")
    width: Annotated[int, Field(ge=0, le=4096)] = Field(
        0, description="Of the embeddings; with ngrams 0 is a linear model, else needed."
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    token_dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="Share of a training text's tokens or n-grams that are hidden."
    )
    filters: Positive = Field(128, description="cnn: of each size.")
    kernels: list[Annotated[int, Field(ge=1, le=32)]] = Field([2, 3, 4], description="cnn: sizes, in tokens.")
    layers: Annotated[int, Field(ge=1, le=48)] = Field(4, description="transformer: blocks.")
    heads: Annotated[int, Field(ge=1, le=64)] = 4
    feedforward: Annotated[int, Field(ge=0)] = Field(0, description="transformer: 0 is four times the width.")
    positions: Literal["learned", "rotary"] = "learned"
    pooling: Literal["mean", "max", "first"] = Field("mean", description="transformer: of its tokens.")
    chunk: Chunk | None = Field(None, description="cnn and transformer: for texts longer than a chunk.")
    weights: str = Field(
        "none",
        description="transformer: none, or a folder with config.json, model.safetensors and vocab.txt or "
        "tokenizer.json of a published BERT or MiniLM, or one that KerasHub's save_to_preset wrote. Texts "
        "are then normalised as its uncased vocabulary wants it (unicode: nfd, strip_accents: true) unless "
        "said otherwise.",
    )
    freeze: Literal["none", "embeddings", "encoder"] | Positive = Field(
        "none", description="transformer: what rests; a number is so many blocks, and the embeddings."
    )
    pretrain: Pretrain | None = None
    lora: Lora | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, raw: Any) -> Any:
        """What is not given goes by the network, and by the published weights."""
        if not isinstance(raw, dict):
            return raw
        width = {} if raw.get("name", "ngrams") == "ngrams" else {"width": 128}
        return {**width, **(_UNCASED if raw.get("weights", "none") != "none" else {}), **raw}

    @model_validator(mode="after")
    def _widths(self) -> TextModel:
        if self.name not in ("ngrams", "transformer") and not self.width:
            raise ValueError("model.width must be at least 1 for a cnn or a network of your own")
        if self.name == "transformer" and self.weights == "none":
            head = self.heads * (2 if self.positions == "rotary" else 1)
            if not self.width or self.width % head:
                raise ValueError("model.width must be a multiple of model.heads (with rotary, of twice that)")
        return self

    @model_validator(mode="after")
    def _ngrams(self) -> TextModel:
        first, last = self.character_ngrams
        if first > last or (last and not first):
            raise ValueError("model.character_ngrams must ascend")
        if self.name == "ngrams" and not self.word_ngrams and not last:
            raise ValueError("model.word_ngrams or model.character_ngrams must be given")
        return self

    @model_validator(mode="after")
    def _for_transformers(self) -> TextModel:
        asked = {
            "pretrain": self.pretrain is not None,
            "lora": self.lora is not None,
            "weights": self.weights != "none",
            "freeze": self.freeze != "none",
        }
        for name, given in asked.items():
            if given and self.name != "transformer":
                raise ValueError(f"model.{name} needs model.name: transformer")
        if self.weights != "none" and self.tokens != "wordpiece":
            raise ValueError("model.weights goes with model.tokens: wordpiece")
        return self
