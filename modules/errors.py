"""Errors that a user can cause inside Transform and Trainer code."""

from __future__ import annotations


class TrainingError(Exception):
    """A training job that cannot start or go on.

    Has the same three parts as the errors of the other packages, which the
    command line looks for by name: modules import nothing of theirs.
    """

    def __init__(self, headline: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(headline, place, remedy)
        self.headline = headline
        self.place = place
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.headline} [{self.place}] {self.remedy}".strip()
