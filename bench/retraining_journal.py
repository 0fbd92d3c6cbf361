"""What happened in a retraining simulation, line by line, in the simulation's own folder.

journal = Journal(folder)
journal.note("disk", day=4, payload=12_000_000)
journal.of("disk")                  # every such note, in order
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Journal:
    """Notes that outlive the process; a line that was cut short is none."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal.jsonl"
        self._answers = folder / "server" / "versions.jsonl"
        self._notes = _lines(self._path)

    def note(self, what: str, day: int, **values: Any) -> None:
        entry = {"what": what, "day": day, **values}
        with open(self._path, "a") as file:
            file.write(json.dumps(entry) + "\n")
        self._notes.append(entry)

    def of(self, what: str) -> list[dict[str, Any]]:
        """All notes of a kind, oldest first."""
        return [entry for entry in self._notes if entry["what"] == what]

    def days_done(self) -> int:
        """How many days have passed from their beginning to their end."""
        return max((entry["day"] + 1 for entry in self.of("done")), default=0)

    def answers(self) -> list[dict[str, Any]]:
        """When which version began to answer the client: at, version."""
        return _lines(self._answers)

    def answering(self) -> int:
        """The version that answered last; 0 for none."""
        found = self.answers()
        return int(found[-1]["version"]) if found else 0


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]
