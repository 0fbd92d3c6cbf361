"""What the ExampleGen node is asked to do, as one JSON execution property."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

FeatureKind = Literal["image", "text", "string", "int", "float", "any"]
SplitBy = Literal["hash", "folder", "time"]
OnBadRecord = Literal["fail", "quarantine"]
DamagedFiles = Literal["refuse", "keep"]

IMAGE_PATH = "path"
"""Feature of image files: where they lie below the data's root."""


@dataclass(frozen=True)
class FeatureRule:
    """A feature that every record must have: one value of that kind.

    A column of a table is read as bytes where the kind is `text` or `string`,
    whatever its values look like. A `text` must hold more than white space.
    """

    name: str
    kind: FeatureKind


@dataclass(frozen=True)
class Source:
    """One thing to read: a file, with what its place says of it.

    Attributes:
        path: absolute.
        split: the split that its folder names, or empty.
        label: the class that its folder or list names, or empty.
        span: the span it belongs to, or -1.
    """

    path: str
    split: str = ""
    label: str = ""
    span: int = -1


@dataclass(frozen=True)
class SplitPlan:
    """How records are put into splits.

    Attributes:
        by: `hash` of the key or of the whole record, the `folder` a file lies
            in, or order in `time`.
        shares: (name, share) pairs in the order train, validation, test; hash
            buckets, or parts of the time axis from oldest to newest.
        key: feature whose value is hashed, so that rows with one key never
            cross; the whole record where empty. With `time`, the feature with
            the time (a number or ISO text).
        test_span: records of this span are test whatever their hash; -1 for none.
    """

    by: SplitBy
    shares: tuple[tuple[str, int], ...]
    key: str = ""
    test_span: int = -1

    def names(self) -> Sequence[str]:
        return [name for name, _ in self.shares]


@dataclass(frozen=True)
class Request:
    """Sources in, splits out.

    Attributes:
        sources: in the order in which files are numbered.
        format: how they are read; a key of `readers.READERS`.
        exclude: features that are left out of every record.
        options: what the reader of that format takes: `delimiter`, `encoding`,
            and for images `root`, against which paths are stored.
        split: how records are put into splits.
        features: what each record must hold.
        label: the feature whose values are counted; must be among `features`.
        classes: whether the label names classes (at least two are then needed).
        on_bad_record: fail on the first, or write them aside and go on.
        max_bad_fraction: of all records; more fail the run even in quarantine.
        damaged_files: in quarantine, whether what was read before a file's damage is kept. How much
            behind it is lost can only be estimated.
        missing_values: texts that stand for a missing cell in tables, besides an empty one.
    """

    sources: tuple[Source, ...]
    format: str
    split: SplitPlan
    features: tuple[FeatureRule, ...]
    label: str
    classes: bool = True
    exclude: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    on_bad_record: OnBadRecord = "fail"
    max_bad_fraction: float = 0.01
    damaged_files: DamagedFiles = "refuse"
    missing_values: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        raw["sources"] = tuple(Source(**source) for source in raw["sources"])
        raw["features"] = tuple(FeatureRule(**rule) for rule in raw["features"])
        raw["exclude"] = tuple(raw["exclude"])
        raw["missing_values"] = tuple(raw["missing_values"])
        split = raw["split"]
        split["shares"] = tuple((name, int(share)) for name, share in split["shares"])
        raw["split"] = SplitPlan(**split)
        return cls(**raw)
