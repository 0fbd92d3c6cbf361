"""The `retraining:` section of an experiment: when to train again, and what may go into service."""

from __future__ import annotations

import zoneinfo
from typing import Annotated, Literal

from pydantic import Field, field_validator

from pipelines.data_stages import Distances
from pipelines.stage import Stage

Positive = Annotated[float, Field(gt=0)]
Points = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(gt=0, lt=1)]


class Live(Stage):
    """Accuracy in service, from outcomes that `headrace feedback` brings."""

    min_accuracy: Annotated[float, Field(gt=0, le=1)] = Field(
        description="A round begins where the accuracy lies below this beyond doubt."
    )
    outcomes: Annotated[int, Field(ge=10)] = Field(
        200, description="So many of the newest outcomes of the version in service are looked at."
    )


class Predictions(Stage):
    """What the model in service predicts, from what `headrace serve --prediction_log` writes."""

    log: str | None = Field(
        None, description="The server's prediction_log; <workspace>/predictions when not given."
    )
    requests: Annotated[int, Field(ge=50)] = Field(
        500, description="So many of the newest predictions of the version in service are looked at."
    )
    max_distance: Annotated[float, Field(ge=0, le=1)] = Field(
        0.1,
        description="By which classes (L-infinity) and scores (Jensen-Shannon) may differ from those of the "
        "test split; what chance may do comes on top.",
    )


class Watch(Stage):
    """The time after a promotion in which a bad model is taken back by itself."""

    minutes: Positive = 10.0
    url: str | None = Field(None, description="Of the server's REST API; that of push.server when not given.")
    every_s: Positive = 10.0
    max_error_rate: Annotated[float, Field(ge=0, le=1)] = 0.01
    max_latency_ratio: Positive = Field(
        2.0, description="Mean time of an answer, against before the promotion."
    )
    min_requests: Annotated[int, Field(ge=1)] = Field(20, description="Fewer say nothing.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} should begin with http:// or https://")
        return url


class Backoff(Stage):
    """What happens after rounds that failed for no reason of the data's or the model's."""

    first_minutes: Positive = 5.0
    factor: Annotated[float, Field(ge=1)] = 2.0
    max_minutes: Positive = 240.0
    jitter: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.2, description="Share by which a delay may be longer, so that many do not come at once."
    )
    stop_after: Annotated[int, Field(ge=1)] = Field(
        5, description="Failures in a row; then nothing is done until `headrace retrain reset`."
    )


class Notifications(Stage):
    """Who is told, and of what. Addresses with secrets in them stay in the environment."""

    webhook_env: str | None = Field(
        None,
        description="Environment variable with a URL that gets JSON: text, event, experiment, round, reason.",
    )
    command: list[str] = Field([], description="A program and its arguments; it gets the same JSON to read.")
    events: list[Literal["failure", "promotion", "refusal", "rollback", "stopped"]] = Field(
        ["failure", "promotion", "refusal", "rollback", "stopped"]
    )
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    timeout_s: Positive = 20.0


class Retraining(Stage):
    """When to train again, and what may go into service. Triggers combine; without any, nothing is done."""

    every: str | None = Field(None, description="Cron expression, such as 0 3 * * *.")
    timezone: str = Field("UTC", description="Of the cron expression, as Europe/Berlin.")
    missed: Literal["once", "skip"] = Field(
        "once", description="Ticks that nobody was there for: made up for once, or left out."
    )
    grace_minutes: Positive = Field(30.0, description="A tick that is older than this was missed.")
    on_new_span: bool = Field(False, description="Each new span or version, late ones too.")
    on_drift: bool = Field(
        False, description="The newest span has moved from what the model in service was trained on."
    )
    drift: Distances = Field(
        Distances(default=0.3), description="How far features may move before it counts."
    )
    max_age_days: Positive | None = Field(None, description="Of the model in service.")
    predictions: Predictions | None = Field(
        None, description="A round begins where predictions are no longer spread as on the test split."
    )
    live: Live | None = None
    golden: str | None = Field(
        None, description="Labelled data in the same format on which each candidate is compared, too."
    )
    slices: list[str] = Field([], description="feature=value: parts of the data that must not get worse.")
    max_drop: Points = Field(
        2.0, description="Points of accuracy that a candidate may lose against the model in service, as an "
        "upper bound; too few examples to tell is a refusal."
    )  # fmt: skip
    max_slice_drop: Points = Field(
        10.0,
        description="The same on each of slices; those too small to tell only refuse what is worse for sure.",
    )
    confidence: Share = 0.95
    watch: Watch | None = Field(None, description="Left out, a promotion is final.")
    backoff: Backoff = Backoff()
    budget_minutes: Positive | None = Field(
        None, description="A round that is not ready to be pushed within this has failed."
    )
    notify: Notifications | None = None

    @field_validator("every")
    @classmethod
    def _is_cron(cls, text: str | None) -> str | None:
        if text is not None:
            from datetime import datetime

            from cronsim import CronSim, CronSimError

            try:
                CronSim(text, datetime(2026, 1, 1))
            except CronSimError as error:
                raise ValueError(f"{text!r} is no cron expression: {error}") from error
        return text

    @field_validator("timezone")
    @classmethod
    def _is_zone(cls, name: str) -> str:
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{name!r} is no time zone of this machine, such as Europe/Berlin") from error
        return name

    @field_validator("slices")
    @classmethod
    def _name_values(cls, names: list[str]) -> list[str]:
        for name in names:
            if "=" not in name:
                raise ValueError(f"{name!r} should look like feature=value")
        return names
