"""Reads JSON-like mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_tuples(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: tuple(value) if name in names else value for name, value in config.items()}
