"""Hyperparameters that a search found, put into what a trainer is told.

config = configured(fn_args)        # custom_config, with the Tuner's best values in it
hparams = ImageHparams.from_config(config)
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfx.components import FnArgs

TUNE = "tune"
"""Key of the search's settings in the Tuner's `custom_config`."""

_JSON = "json:"
_ORACLES_OWN = "tuner/"


def configured(fn_args: FnArgs) -> dict[str, Any]:
    """What the trainer is told; values of the `hyperparameters` channel win over the experiment's."""
    found = getattr(fn_args, "hyperparameters", None) or {}
    return with_values(fn_args.custom_config, found.get("values", {}))


def with_values(config: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested settings with values under dotted names.

    Args:
        config: JSON-like.
        values: as KerasTuner has them: what is no plain choice is encoded.
    """
    copied: dict[str, Any] = copy.deepcopy(dict(config))
    for name, value in values.items():
        if name.startswith(_ORACLES_OWN):
            continue
        *groups, last = name.split(".")
        here = copied
        for group in groups:
            here = here.setdefault(group, {})
        here[last] = decoded(value)
    return copied


def encoded(choices: list[Any]) -> list[Any]:
    """Choices as KerasTuner takes them: plain values of one type, else each as text."""
    kinds = {type(choice) for choice in choices}
    if len(kinds) == 1 and kinds <= {int, float, str, bool}:
        return choices
    return [f"{_JSON}{json.dumps(choice)}" for choice in choices]


def decoded(value: Any) -> Any:
    """A value of `encoded` as it was."""
    if isinstance(value, str) and value.startswith(_JSON):
        return json.loads(value.removeprefix(_JSON))
    return value
