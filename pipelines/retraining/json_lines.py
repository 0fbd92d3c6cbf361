"""Files of one JSON object a line, that several processes append to and a kill may cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, in order; none where it is missing. Lines that are damaged are left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []  # not there yet, or just renamed
    return [found for line in text.splitlines() if (found := _object(line)) is not None]


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
