"""The base of all stages of an experiment file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Stage(BaseModel):
    """Unknown keys are refused, values are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
