"""The base of all stages of an experiment file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pipelines.errors import nearest


class Stage(BaseModel):
    """Unknown keys are refused, values are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Fraction = Annotated[float, Field(gt=0, lt=1)]


def _on_off(value: Any) -> Any:
    """What was written: YAML reads a bare on or off as true or false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


ON_OFF = BeforeValidator(_on_off)


def known_network(name: str, networks: Sequence[str], kind: str) -> str:
    """A name that is known, or the dotted path of a function of the user's.

    Raises:
        ValueError: neither.
    """
    if name not in networks and "." not in name:
        near = nearest(name, networks)
        raise ValueError(f"there is no {kind} network {name!r}. {near} One of your own is module.function")
    return name
