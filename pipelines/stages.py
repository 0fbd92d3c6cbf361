"""The stages of an experiment file behind training: one strict model each.

Every default is the right choice for most; what a default costs or limits
stands in its text. `pipelines.config` puts them together and loads files.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from components.rewriter import catalogue
from pipelines.errors import nearest
from pipelines.lineage import database
from pipelines.stage import Stage


def known_technique(name: str) -> str:
    """Raises ValueError where there is no rewrite technique of that name."""
    if name not in catalogue.TECHNIQUES:
        raise ValueError(f"there is no technique {name!r}. {nearest(name, catalogue.TECHNIQUES)}")
    return name


TechniqueName = Annotated[
    str, AfterValidator(known_technique), Field(json_schema_extra={"enum": list(catalogue.TECHNIQUES)})
]


class Rewrite(Stage):
    """Which candidates are built, and what they must keep to."""

    candidates: list[TechniqueName] | Literal["auto"] = Field(
        "auto",
        description="Each costs about ten seconds of building and judging. auto: those that pay for the "
        "objective, of those that the target loads.",
    )
    objective: Literal["latency", "size", "throughput"] = Field(
        "latency", description="latency: of one example. throughput: examples a second at batch 32."
    )
    target: Literal["tf_serving", "tf_serving_tflite", "triton", "edge"] = Field(
        "tf_serving",
        description="What loads the pushed folder. tf_serving: SavedModels with all signatures. "
        "tf_serving_tflite: also TFLite (--prefer_tflite_model). triton: ONNX and TensorRT. edge: TFLite.",
    )
    fixed: str = Field(
        "",
        description="The candidate that goes on whatever the clock says, if it keeps to the gate.",
    )
    max_drop: Annotated[float, Field(ge=0, le=100)] = Field(
        1.0,
        description="Points of accuracy that a candidate may lose, as an upper bound: with no "
        "disagreement at all, 1 point at 0.95 needs 299 validation examples.",
    )
    max_slice_drop: Annotated[float, Field(gt=0, le=100)] = Field(
        5.0,
        description="The same on each class that is large enough to tell: 5 points need 59 examples. "
        "A smaller one refuses a candidate only where the loss is certain. Above 0: that nothing at all is "
        "lost, no number of examples shows.",
    )
    confidence: Annotated[float, Field(gt=0, le=0.9999)] = Field(
        0.95,
        description="Of each one-sided bound; for more than 0.9999 there are too few rounds of timing.",
    )
    keep: Annotated[int, Field(ge=0)] = Field(
        0,
        description="So many of the best candidates stay in the Rewriter's report, as files; the original "
        "is none of them.",
    )
    max_examples: Annotated[int, Field(ge=1)] = Field(3000, description="Validation examples judged at most.")
    candidate_timeout_s: Annotated[float, Field(gt=0)] = Field(
        600.0, description="For each build and judgement."
    )
    candidate_memory_mb: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="For each build and judgement, in MiB; a candidate that takes more is lost alone. When "
        "not given, 0.4 of the memory that is available as the Rewriter begins, and at least 2048.",
    )

    @field_validator("max_slice_drop", mode="before")
    @classmethod
    def _slices_can_tell(cls, points: Any) -> Any:
        if points == 0:
            raise ValueError(
                "no number of examples shows that a class loses nothing at all; give more than 0: "
                "1 point needs 299 examples of a class, 5 points 59"
            )
        return points

    @model_validator(mode="after")
    def _fixed_is_tried(self) -> Rewrite:
        auto = isinstance(self.candidates, str)
        tried = catalogue.automatic(self.target, self.objective) if auto else list(self.candidates)
        if self.fixed not in ("", catalogue.IDENTITY, *tried):
            raise ValueError(
                f"fixed is {self.fixed!r}, which is not among the candidates: {', '.join(tried)}"
            )
        return self

    @model_validator(mode="after")
    def _candidates_are_known_and_loaded(self) -> Rewrite:
        if isinstance(self.candidates, str):
            return self
        for name in self.candidates:
            runtime = catalogue.TECHNIQUES[name].runtime
            if name != catalogue.IDENTITY and runtime not in catalogue.LOADS[self.target]:
                known = ", ".join(catalogue.techniques_for(self.target))
                raise ValueError(f"the target {self.target} does not load {name}; it loads {known}")
        return self


class Evaluation(Stage):
    """What a model must reach on the test split."""

    min_accuracy: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="Overall.")
    min_class_accuracy: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="On every class.")
    max_drop: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="Accuracy that may be lost against the latest blessed model."
    )
    max_error: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Regression: mean absolute error overall, in the label's unit; no limit by default."
    )
    max_error_rise: Annotated[float, Field(ge=0)] = Field(
        0.02, description="Regression: share of the latest blessed model's error that may be added to it."
    )
    engine: Literal["auto", "tfma", "vectorized"] = Field(
        "auto",
        description="vectorized computes TFMA's common metrics over whole batches, with the same values, "
        "thresholds and files; auto leaves to TFMA what that does not do.",
    )


class Infra(Stage):
    """What the served bytes must answer before they are pushed."""

    examples: Annotated[int, Field(ge=1, le=1000)] = Field(32, description="Real examples sent.")
    timeout_s: Annotated[float, Field(gt=0)] = Field(300.0, description="For starting a server and loading.")
    max_p99_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Of one example by gRPC, one request at a time; off when not given."
    )
    max_memory_mb: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Of the whole server process; off when not given."
    )


class PushServer(Stage):
    """The server that watches the serving folder, and must serve what is pushed."""

    url: str | None = Field(None, description="Of its REST API, instead of host and rest_port.")
    host: str = "127.0.0.1"
    rest_port: Annotated[int, Field(ge=1, le=65535)] = 8501
    model: str | None = Field(None, description="Its name there; the one under serving/ when not given.")
    timeout_s: Annotated[float, Field(gt=0)] = Field(
        120.0, description="The version must be AVAILABLE within this."
    )
    tolerance: Annotated[float, Field(ge=0)] = Field(
        1e-3, description="Absolute, on scores: the server's TensorFlow and device may be others."
    )

    @property
    def rest_url(self) -> str:
        return self.url or f"http://{self.host}:{self.rest_port}"


class Push(Stage):
    """Where the model goes."""

    model: str | None = Field(None, description="Name under serving/; the experiment's when not given.")
    to: list[str] = Field(
        [],
        description="Folders or URLs (s3://, gs://, file://, any that fsspec knows) that get copies of "
        "what is in service, below a folder of the model's name; the workspace's own folder stays the first.",
    )
    server: PushServer | None = Field(
        None, description="Asked after each push; a version that it does not serve well is withdrawn."
    )

    @field_validator("to")
    @classmethod
    def _without_secrets(cls, urls: list[str]) -> list[str]:
        for url in urls:
            if "@" in url.partition("://")[2].partition("/")[0]:
                # Not shown: it would be in the error's text, and in a log.
                raise ValueError("an address holds a user or a password; give them by the environment")
        return urls


class Retry(Stage):
    """When a failed node is tried again; not part of any cache key."""

    count: Annotated[int, Field(ge=1, le=100)] = Field(2, description="Tries after the first.")
    backoff_s: Annotated[float, Field(ge=0)] = Field(10.0, description="Before the second try.")
    factor: Annotated[float, Field(ge=1)] = Field(2.0, description="By which each later wait is longer.")
    on: list[str] = Field(
        ["crash", "timeout"],
        min_length=1,
        description="crash: the process ended without a word. timeout: see timeouts_s. error: any "
        "exception but a user's mistake. Else names of exception classes, such as UnavailableError; "
        "WorkerLostError, of a Beam engine, is tried again anyway.",
    )


class Metadata(Stage):
    """A MySQL, MariaDB or PostgreSQL database that is there already; `HEADRACE_METADATA` comes before it."""

    url: str = Field(description=f"{database.EXPECTED}; without a password, since it is recorded.")
    password_env: str = Field(
        database.PASSWORD_VARIABLE, description="Environment variable that holds the password."
    )
    password_file: str | None = Field(None, description="File that holds the password; comes first.")

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str) -> str:
        if database.Server.of(url).password:
            raise ValueError("metadata.url holds a password, which would be recorded; use password_env")
        return url


class Card(Stage):
    """What a model card says that no measurement can; see `headrace models card`."""

    license: str = Field("", description="Of the model, best as an SPDX identifier, such as Apache-2.0.")
    intended_use: str = Field("", description="What the model is for, in a sentence or two.")
    limits: list[str] = Field(
        [], description="What it is not for, and what is known to go wrong; a sentence each."
    )
