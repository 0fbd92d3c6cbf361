"""What the ExampleGen node is asked to do, as one JSON execution property."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Self

FeatureKind = Literal["image", "string", "int", "float"]


@dataclass(frozen=True)
class FeatureRule:
    """A feature that every record must have: one value of that kind."""

    name: str
    kind: FeatureKind


@dataclass(frozen=True)
class Request:
    """Files in, splits out.

    Attributes:
        files: absolute paths, in the order in which records are numbered.
        format: how they are read; a key of `read.READERS`.
        splits: (name, share) pairs; shares are hash buckets, such as 6, 2, 2.
        features: what each record must hold.
        label: the feature whose values are counted; must be among `features`.
    """

    files: tuple[str, ...]
    format: str
    splits: tuple[tuple[str, int], ...]
    features: tuple[FeatureRule, ...]
    label: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        return cls(
            files=tuple(raw["files"]),
            format=raw["format"],
            splits=tuple((name, int(share)) for name, share in raw["splits"]),
            features=tuple(FeatureRule(**rule) for rule in raw["features"]),
            label=raw["label"],
        )

    def split_names(self) -> Sequence[str]:
        return [name for name, _ in self.splits]
