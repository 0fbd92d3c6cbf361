"""An experiment whose files at addresses are local copies: what nodes are told of.

    here = located(experiment, workspace.fetched)      # model.weights, validation.schema_file, ...

The record keeps the addresses. Data has a way of its own (`pipelines.inputs`),
since a folder of it may hold more than is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from pipelines import remote
from pipelines.config import Experiment

Node = TypeVar("Node", bound=BaseModel)

FIELDS = (("validation", "schema_file"), ("model", "weights"), ("train", "distill", "teacher"))
"""Settings that name a file or folder."""


def located(experiment: Experiment, cache: Path) -> Experiment:
    """The experiment with local paths instead of addresses; data.path apart.

    Raises:
        InputError: an address cannot be read.
    """
    for field in FIELDS:
        found = value(experiment, field)
        if isinstance(found, str) and remote.is_remote(found):
            experiment = _with(experiment, field, str(remote.fetch(found, cache, remote.everything)))
    return experiment


def value(node: Any, field: tuple[str, ...]) -> Any:
    """A setting by its names; None where there is none of that name."""
    for name in field:
        node = getattr(node, name, None)
    return node


def _with(node: Node, field: tuple[str, ...], value: str) -> Node:
    name, *rest = field
    inner: Any = _with(getattr(node, name), tuple(rest), value) if rest else value
    update: Mapping[str, Any] = {name: inner}
    return node.model_copy(update=update)
