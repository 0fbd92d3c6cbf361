"""The stages of an experiment file that are about data: what to read, and what it must be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.errors import nearest
from pipelines.stage import Stage

Share = Annotated[int, Field(ge=1, le=100)]


class Splits(Stage):
    """The three splits, and how records are put into them."""

    by: Literal["auto", "hash", "folder", "time"] = Field(
        "auto",
        description="hash: of the key, or of the whole record. folder: train/, validation/, test/, or files "
        "named so, such as test.csv. time: oldest to newest. auto: folder where there are such, else hash.",
    )
    key: str = Field(
        "",
        description="Feature that is hashed, so that records with one value never cross splits; "
        "with by: time, the feature with the time.",
    )

    train: Share = Field(6, description="Fitting, and calibration of rewrites.")
    validation: Share = Field(2, description="Early stopping, and judging candidates.")
    test: Share = Field(2, description="Evaluation and blessing; nothing is chosen on it.")


class Data(Stage):
    """What to read."""

    source: Literal["digits", "fashion", "languages", "taxi"] | None = Field(
        None, description="A data set that comes with Headrace and is written once into the workspace."
    )
    path: str | None = Field(
        None,
        description="A file, a folder, or a glob, here or at an address (s3://, gs://, https://); {SPAN}, "
        "{VERSION}, {YYYY}, {MM} and {DD} name spans.",
    )
    format: Literal["auto", "tfrecord", "csv", "tsv", "parquet", "avro", "jsonl", "images"] = Field(
        "auto", description="auto: by the files' endings."
    )
    delimiter: str = Field("", description="Of CSV; a comma, or a tab where the files end in .tsv.")
    encoding: str = Field(
        "utf-8", description="Of CSV, TSV and JSON Lines, by Python's names; strict. Features are UTF-8."
    )
    missing_values: list[str] = Field(
        [],
        description="Texts that stand for a missing cell in tables, such as nan; an empty one does anyway.",
    )
    span: Annotated[int, Field(ge=0)] | None = Field(
        None, description="The span to read; the latest by default."
    )
    window: Annotated[int, Field(ge=1)] = Field(
        1,
        description="So many spans up to that one are read; with 2 or more the newest is the test split (a "
        "first one alone is split like any data).",
    )
    skip_spans: list[int] = Field(
        [], description="Spans that are left out of a window; retraining leaves out those that were bad."
    )
    on_bad_record: Literal["fail", "quarantine"] = Field(
        "fail", description="quarantine: bad records are written aside with their reasons, and counted."
    )
    max_bad_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="More bad records than this fail the run even in quarantine."
    )
    damaged_files: Literal["refuse", "keep"] = Field(
        "refuse",
        description="In quarantine, keep: what was read of a file before its damage is used, and what is "
        "behind it counts as bad records, estimated by bytes where the file's length is known.",
    )
    image: str = Field("image", description="Feature with the encoded image.")
    text: str = Field("text", description="Feature with the text.")
    text_pair: str | None = Field(
        None, description="Feature with a second text, where each example is a pair."
    )
    label: str = Field("label", description="Feature with the class name.")
    exclude: list[str] = Field([], description="Features that are not read at all, such as names of people.")
    splits: Splits = Splits()

    @model_validator(mode="after")
    def _one_origin(self) -> Data:
        if (self.source is None) == (self.path is None):
            raise ValueError("exactly one of data.source and data.path must be given")
        return self

    @model_validator(mode="after")
    def _needed_are_read(self) -> Data:
        for key, name in (("label", self.label), ("splits.key", self.splits.key)):
            if name and name in self.exclude:
                raise ValueError(
                    f"data.exclude leaves out {name!r}, which data.{key} names; model.ignore of a table "
                    "keeps it from the model alone"
                )
        return self

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, text: str) -> str:
        if len(text) > 1 or text in ('"', "\n", "\r"):
            raise ValueError(f"a delimiter is one character, and no quote or line end. Received: {text!r}")
        return text

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, name: str) -> str:
        try:
            "".encode(name)
        except LookupError as error:
            raise ValueError(
                f"{name!r} is no encoding of texts; for example utf-8, latin-1, cp1252"
            ) from error
        return name


class Distances(Stage):
    """How far features may move: L-infinity of categories, Jensen-Shannon divergence of numbers.

    What so few examples may differ by chance comes on top.
    """

    default: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="For features without a limit of their own; null leaves them out."
    )
    features: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field({}, description="Feature -> limit.")


def known_anomaly(name: str) -> str:
    """The name of a kind of anomaly as TFDV has it in lower case, or `all`.

    Raises:
        ValueError: there is none of that name.
    """
    # Here, since a plain configuration needs no protocol buffers.
    from components.data_gate import gate

    known = [gate.ALL, *gate.kinds()]
    if name not in known:
        raise ValueError(f"there is no kind of anomaly {name!r}. {nearest(name, known)}")
    return name


class Validation(Stage):
    """What the data must be before anything is trained on it."""

    schema_file: str | None = Field(
        None,
        description="A curated schema (headrace schema init); an inferred one stops nothing by itself.",
    )
    fail_on: list[str] = Field(
        ["all"],
        description="Kinds of anomalies that stop a run, by TFDV's names in lower case. all: every one, but "
        "not texts that were never seen in free text (the texts of a text model, the paths of images).",
    )

    @field_validator("fail_on")
    @classmethod
    def _known_kinds(cls, names: list[str]) -> list[str]:
        return [name if name == "all" else known_anomaly(name) for name in names]

    drift: Distances = Field(
        Distances(default=0.3, features={}),
        description="Training split against that of the latest run with other data.",
    )
    skew: Distances = Field(
        Distances(default=None, features={}),
        description="Validation and test splits against the training split. Off by default: splits by "
        "hash differ by chance alone, and folders often on purpose.",
    )
