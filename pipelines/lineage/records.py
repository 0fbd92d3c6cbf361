"""Runs, nodes and artifacts as they were recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class RunRecord:
    """One run as it was recorded. Times are seconds since the epoch, UTC."""

    run_id: str
    experiment: str
    state: str
    started: float
    ended: float | None
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, run_id: str, values: Mapping[str, Any]) -> Self:
        """A run from the properties of its context."""
        ended = values.get("ended")
        return cls(
            run_id=run_id,
            experiment=str(values.get("experiment", "")),
            state=str(values.get("state", "")),
            started=float(values.get("started", 0.0)),
            ended=float(ended) if ended is not None else None,
            details=json.loads(str(values.get("details", "{}"))),
        )


@dataclass(frozen=True)
class ArtifactRecord:
    """An artifact: its id, type, place, and properties."""

    id: int
    type: str
    uri: str
    properties: Mapping[str, str | int | float]


@dataclass(frozen=True)
class NodeRecord:
    """One node's execution in a run.

    Attributes:
        node: node id.
        execution_id: MLMD's.
        state: `complete`, `cached`, `running`, `failed`, `canceled`.
        properties: execution properties, ours and TFX's.
        inputs: input key -> artifacts.
        outputs: output key -> artifacts.
    """

    node: str
    execution_id: int
    state: str
    properties: Mapping[str, str | int | float]
    inputs: Mapping[str, Sequence[ArtifactRecord]]
    outputs: Mapping[str, Sequence[ArtifactRecord]]
