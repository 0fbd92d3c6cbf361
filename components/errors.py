"""Errors that a user can cause inside a component.

    raise DataError("A record is no tf.train.Example", place="a.tfrecord, record 7", remedy="...")

Every class carries a headline, the place and a remedy. `pipelines.errors`
derives from the same base, and the command line prints all of them alike.
"""

from __future__ import annotations


class UserError(Exception):
    """An error with a headline, the place it was seen at, and a remedy.

    Attributes:
        headline: one sentence that says what is wrong: expected, then received.
        place: file, record, field or node; empty when there is none.
        remedy: what to do about it.
    """

    def __init__(self, headline: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(headline, place, remedy)
        self.headline = headline
        self.place = place
        self.remedy = remedy

    def __str__(self) -> str:
        place = f" [{self.place}]" if self.place else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.headline}{place}{remedy}"


class DataError(UserError):
    """Input data that cannot be used: unreadable, of the wrong type, too little."""


class DamagedFileError(DataError):
    """A file that cannot be read to its end.

    Attributes:
        at_byte: how far it was read; None where that is not known.
    """

    def __init__(
        self, headline: str, *, place: str = "", remedy: str = "", at_byte: int | None = None
    ) -> None:
        super().__init__(headline, place=place, remedy=remedy)
        self.at_byte = at_byte


class AnomalyError(UserError):
    """Data that is readable but not what the schema says."""


class ServableError(UserError):
    """A servable that cannot be loaded, or answers wrongly."""


class WrongAnswersError(ServableError):
    """A servable that a server has loaded, and that does not answer there as it should."""


class PushError(UserError):
    """A push that could not be carried out; the serving root is unchanged."""


class RejectedError(PushError):
    """A push whose model answers wrongly on the server, for no reason of the server's."""


class EngineError(UserError):
    """A worker of a distributed engine that cannot do its part."""


class WorkerLostError(RuntimeError):
    """A worker of a distributed engine, or its host, died in the middle of a job; trying again may do."""
