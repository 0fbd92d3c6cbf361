"""The loop around the policy, with what it is made of replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import CodeChangedError, InputError
from pipelines.remote_failures import UnreachableError
from pipelines.retraining.scheduler import Scheduler
from tests.pipelines.retraining.chains import FakeChain


@pytest.mark.parametrize("kind", [UnreachableError, InputError])
def test_data_that_cannot_be_looked_at_for_a_moment_does_not_end_the_schedule(kind: type[InputError]) -> None:
    waits: list[float] = []
    told: list[str] = []

    def once() -> Any:
        if waits:
            raise KeyboardInterrupt
        raise kind("It cannot be reached", place="s3://bucket")

    loop: Any = SimpleNamespace(
        once=once,
        clock=lambda: 100.0,
        say_waiting=lambda decision: told.append(decision.reason),
        _wait=waits.append,
    )
    with pytest.raises(KeyboardInterrupt):
        Scheduler.forever(loop)
    assert waits == [160.0]
    assert told == ["It cannot be reached [s3://bucket]"]


def test_a_scheduler_whose_own_code_was_replaced_ends_and_the_next_goes_on_with_its_round(make) -> None:
    chain = FakeChain(error=CodeChangedError("Headrace's own code has changed since this process began"))
    with pytest.raises(CodeChangedError):
        make(chain).forever()
    assert make.notified == []
    chain.error = None
    make(chain).once()
    assert [call for call in chain.calls if call.startswith("train")] == ["train", "train run-1"]
    assert [event for event, _ in make.notified] == ["promotion"]
