"""Environment variables that an experiment needs where it is started by something else: names, no values.

found = variables(experiment)
found.needed, found.welcome
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.config import Experiment
from pipelines.lineage import database

_OF_STORES = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_ENDPOINT_URL",
        "FSSPEC_S3_ANON",
    ),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS", "FSSPEC_GS_TOKEN"),
}
"""What the stores' clients go by; a public store, or a machine with a role, needs none of them."""

_ALIASES = {"s3a": "s3", "gcs": "gs"}


@dataclass(frozen=True)
class Variables:
    """Names of environment variables.

    Attributes:
        needed: without them nothing goes.
        welcome: taken where they are given.
    """

    needed: Sequence[str]
    welcome: Sequence[str]


def variables(experiment: Experiment, environment: Mapping[str, str] = os.environ) -> Variables:
    """What an experiment's settings name, and what the stores in them go by.

    Args:
        experiment: what is to be started.
        environment: of whoever asks; a record that it names is taken to be meant for later, too.
    """
    notify = experiment.retraining.notify
    needed = [notify.webhook_env] if notify and notify.webhook_env else []
    if environment.get(database.VARIABLE):
        needed.append(database.VARIABLE)
    named, usual = _password(experiment, environment)
    schemes = {_scheme(text) for text in _texts(experiment.model_dump(mode="json"))}
    stores = [name for scheme in sorted(schemes & set(_OF_STORES)) for name in _OF_STORES[scheme]]
    return Variables((*needed, *named), (*usual, *stores))


def _password(experiment: Experiment, environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The metadata password's variable: where one is named, and where it is the usual one."""
    told = experiment.metadata
    if told is None:
        return [], [database.PASSWORD_VARIABLE] if environment.get(database.VARIABLE) else []
    if told.password_file:
        return [], []
    return ([told.password_env], []) if "password_env" in told.model_fields_set else ([], [told.password_env])


def _scheme(text: str) -> str:
    scheme, separator, _ = text.partition("://")
    return _ALIASES.get(scheme.lower(), scheme.lower()) if separator else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
