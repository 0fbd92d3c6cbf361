"""The base of all stages of an experiment file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Stage(BaseModel):
    """Unknown keys are refused, values are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Fraction = Annotated[float, Field(gt=0, lt=1)]


def _on_off(value: Any) -> Any:
    """What was written: YAML reads a bare on or off as true or false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


ON_OFF = BeforeValidator(_on_off)
