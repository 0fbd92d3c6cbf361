"""The exception tree of the command line: a headline, the place, a remedy, an exit code.

raise ConfigError("Unknown key 'epoch'", place="digits.yaml", remedy="Did you mean 'epochs'?")
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def visible(text: str) -> str:
    """Text that a terminal takes for what it is: what bad data holds may be quoted in a message."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


class HeadraceError(Exception):
    """An error that a command prints without a traceback.

    Attributes:
        headline: one sentence that says what is wrong.
        place: file, field, record or node; may be empty.
        remedy: what to do about it; may be empty.
        exit_code: 2 for a user's mistake, 1 for a failed run.
    """

    exit_code = 2

    def __init__(self, headline: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(headline, place, remedy)
        self.headline = visible(headline)
        self.place = place
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.headline} [{self.place}] {self.remedy}".strip()


class ConfigError(HeadraceError):
    """An experiment, an override or an argument that is not understood."""


class InputError(HeadraceError):
    """Input data that is missing or cannot be used."""


class SurroundingsError(HeadraceError):
    """What a node needs of its surroundings and did not get, such as room on a disk or a server's answer."""


class CodeChangedError(HeadraceError):
    """Code that was edited while it was being run, so that no key says what has run."""


class RejectedError(SurroundingsError):
    """A model that the server in use loads, and that answers wrongly there."""


class WorkspaceError(HeadraceError):
    """A workspace that cannot be written or read."""


class NotFoundError(HeadraceError):
    """A name that nothing has: an experiment, a run, a node."""


class EngineError(HeadraceError):
    """A distributed engine that cannot be reached, or cannot do what is asked."""


class NodeFailedError(HeadraceError):
    """A node that failed for no reason of the user's."""

    exit_code = 1


class InterruptedRunError(HeadraceError):
    """A run that was ended from outside."""

    exit_code = 1


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy that names the nearest known name, or all of them."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(choices)}." if choices else ""


def user_fields(error: BaseException) -> dict[str, str] | None:
    """Headline, place and remedy of the nearest user error in an exception's chain.

    The packages of components and modules have error classes of their own;
    all are recognised by their three attributes.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if all(hasattr(current, name) for name in ("headline", "place", "remedy")):
            fields: Any = current
            return {"headline": fields.headline, "place": fields.place, "remedy": fields.remedy}
        # `raise ... from None` says that what led to it is beside the point.
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return None
