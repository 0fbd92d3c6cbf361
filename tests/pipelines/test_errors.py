"""Errors of all packages are recognised by their three parts."""

from __future__ import annotations

from components.errors import DataError
from modules.errors import TrainingError
from pipelines import errors


def test_a_user_error_is_found_in_the_chain() -> None:
    for kind in (DataError, TrainingError, errors.InputError):
        try:
            try:
                raise kind("bad", place="here", remedy="mend")
            except Exception as inner:
                raise RuntimeError("outer") from inner
        except RuntimeError as outer:
            assert errors.user_fields(outer) == {"headline": "bad", "place": "here", "remedy": "mend"}


def test_other_errors_are_no_user_errors() -> None:
    assert errors.user_fields(ValueError("x")) is None


def test_the_nearest_name_or_all() -> None:
    assert errors.nearest("Trainr", ["Trainer", "Pusher"]) == "Did you mean 'Trainer'?"
    assert errors.nearest("xyz", ["b", "a"]) == "Known: a, b."
    assert errors.nearest("xyz", []) == ""


def test_what_bad_data_holds_does_not_reach_the_terminal_as_it_is() -> None:
    error = errors.InputError("Row 3: \x00\x1b[2Jbroken \ufffd, Zürich")
    assert error.headline == "Row 3: \\x00\\x1b[2Jbroken \ufffd, Zürich"
