"""What docs/watching.md promises."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[3] / "docs/watching.md").read_text()


def events() -> dict[str, set[str]]:
    """Event -> its keys."""
    rows = re.findall(r"^\| `([a-z_.]+)` \| ([a-z_, ]+) \|$", TEXT, re.MULTILINE)
    return {event: set(keys.split(", ")) for event, keys in rows}


def metrics() -> dict[str, tuple[str, set[str]]]:
    """Metric -> its type and labels."""
    rows = re.findall(r"^\| `(headrace_[a-z_]+)` \| (\w+) \| ([a-z_, ]+) \|", TEXT, re.MULTILINE)
    return {name: (kind, set(labels.split(", "))) for name, kind, labels in rows}


def commands(option: str) -> list[str]:
    """Commands that are said to take an option."""
    (row,) = re.findall(rf"^\|[^|]*\| `{option}[^|]*\| ([^|(]*)", TEXT, re.MULTILINE)
    return re.findall(r"`([a-z -]+)`", row)
