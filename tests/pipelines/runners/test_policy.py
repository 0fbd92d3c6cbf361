"""When a failed node is tried again."""

from __future__ import annotations

import pytest

from pipelines.runners.events import FAILED, Event
from pipelines.runners.policy import Policy


def failure(*kinds: str, user_error: bool = False) -> Event:
    return Event("Trainer", FAILED, 0.0, kinds=kinds, user_error=user_error)


def test_waits_grow_until_the_tries_are_used_up() -> None:
    policy = Policy(count=3, backoff_s=10, factor=2, on=("crash",))
    assert [policy.delay(failure("crash"), tries) for tries in (1, 2, 3, 4)] == [10, 20, 40, None]


@pytest.mark.parametrize(
    ("on", "event", "covered"),
    [
        (("crash",), failure("timeout"), False),
        (("UnavailableError",), failure("UnavailableError", "OpError", "Exception"), True),
        (("OpError",), failure("UnavailableError", "OpError", "Exception"), True),
        (("OpError",), failure("ValueError", "Exception"), False),
        (("error",), failure("ValueError", "Exception"), True),
        (("error",), failure("crash"), False),
        (("error",), failure("DataError", user_error=True), False),
        (("DataError",), failure("DataError", user_error=True), True),
    ],
)
def test_which_failures_are_covered(on, event: Event, covered: bool) -> None:
    assert (Policy(count=1, on=on).delay(event, 1) is not None) == covered


def test_by_default_nothing_is_tried_again() -> None:
    assert Policy().delay(failure("crash"), 1) is None
