"""What a round keeps for whoever goes on with it: notices, the server's counts, how often it began anew."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import NodeFailedError
from pipelines.retraining.scheduler import Scheduler
from tests.pipelines.retraining.chains import FakeChain, Killed

WATCH = {"minutes": 1.0, "every_s": 30.0}


def dies_when_it_tells(scheduler: Scheduler) -> Scheduler:
    def die(event: str, record: Any) -> None:
        raise Killed

    object.__setattr__(scheduler, "notify", die)
    return scheduler


@pytest.mark.parametrize(
    ("changes", "events"),
    [
        ({"worse": ["lost 3 points"]}, ["refusal"]),
        ({"error": NodeFailedError("The node crashed")}, ["failure", "stopped"]),
        ({}, ["promotion"]),
    ],
)
def test_what_a_kill_kept_from_being_told_is_told_at_the_next_start(make, changes, events) -> None:
    settings = {"backoff": {"stop_after": 1}}
    chain = FakeChain(**changes)
    with pytest.raises(Killed):
        dies_when_it_tells(make(chain, **settings)).once()
    assert make.notified == []
    for _ in range(2):
        make(chain, **settings).once()
    assert [event for event, _ in make.notified] == events


def test_what_was_told_before_a_kill_is_not_told_again(make) -> None:
    chain = FakeChain(kill_at=4)  # after the promotion, in the first look at the server
    with pytest.raises(Killed):
        make(chain, watch=WATCH).once()
    assert [event for event, _ in make.notified] == ["promotion"]
    chain.kill_at = 10**6
    make(chain, watch=WATCH).once()
    assert [event for event, _ in make.notified] == ["promotion"]


def test_the_servers_counts_are_those_from_before_the_push_after_a_kill(make) -> None:
    chain = FakeChain(dies_pushed=True)
    with pytest.raises(Killed):
        make(chain, watch=WATCH).once()
    make(chain, watch=WATCH).once()
    assert chain.counted == {"answered": 1.0}


def test_they_are_taken_again_where_nothing_was_put_into_service(make) -> None:
    chain = FakeChain(kill_at=3)
    with pytest.raises(Killed):
        make(chain, watch=WATCH).once()
    chain.kill_at = 10**6
    make(chain, watch=WATCH).once()
    assert chain.counted == {"answered": 2.0}


def test_a_round_under_which_data_never_rests_fails(make) -> None:
    chain = FakeChain(stale=100)
    record = make(chain).once().record
    assert record is not None
    assert (record.outcome, chain.versions) == ("failed", [])
    assert record.detail.startswith("Data, code or settings changed 4 times between training and push")
    assert chain.calls.count("train") == 4
    # Another attempt has as many tries again.
    chain.stale = 3
    make.clock.sleep(86_400.0)
    again = make(chain).once().record
    assert again is not None
    assert (again.outcome, again.attempts) == ("promoted", 2)
