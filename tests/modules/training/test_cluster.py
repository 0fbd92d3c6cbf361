"""TF_CONFIG, and strategies without their devices."""

from __future__ import annotations

import json
import socket

import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.training import cluster, strategies
from tests.modules.training.small import hparams, start


def config(**changes: object) -> dict[str, str]:
    whole = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}, **changes}
    return {"TF_CONFIG": json.dumps(whole)}


def test_members_and_their_order() -> None:
    assert cluster.read({}) is None
    assert cluster.read(config()) == cluster.Cluster(("a:1", "b:2"), 1)
    with_chief = cluster.read(
        config(cluster={"chief": ["c:3"], "worker": ["a:1"]}, task={"type": "worker", "index": 0})
    )
    assert with_chief == cluster.Cluster(("c:3", "a:1"), 1)
    assert not with_chief.is_chief
    assert cluster.read({"TF_CONFIG": cluster.config_json(["a:1", "b:2"], 1)}) == cluster.read(config())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{cluster", "no JSON.*character 1"),
        (config(task={"type": "worker", "index": 2})["TF_CONFIG"], "index 2 has no worker; there are 2"),
        (config(task={"type": "evaluator", "index": 0})["TF_CONFIG"], "Received: 'evaluator'"),
        (config(task={})["TF_CONFIG"], "lacks or misspells"),
    ],
)
def test_a_bad_tf_config_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message) as caught:
        cluster.read({"TF_CONFIG": text})
    assert "TF_CONFIG" in caught.value.place


def test_reachable_addresses() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        here = f"127.0.0.1:{listener.getsockname()[1]}"
        assert cluster.unreachable([here], timeout_s=1.0) == []
    assert cluster.unreachable([here, "nonsense"], timeout_s=0.2) == [here, "nonsense"]


def test_a_worker_that_does_not_come_is_named_in_time() -> None:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (first, second)]
    process = start("join", 5.0, TF_CONFIG=cluster.config_json(addresses, 0))
    out, err = process.communicate(timeout=120)
    assert f"Workers did not come within 5 s: {addresses[1]}" in out, err[-3000:]


@pytest.mark.parametrize(
    ("changes", "environment", "message"),
    [
        ({"strategy": "mirrored"}, {}, "mirrored needs two devices"),
        ({"strategy": "multi_worker"}, {}, "needs TF_CONFIG"),
        ({"strategy": "parallel"}, {}, "no strategy 'parallel'.*Known: auto"),
        ({"strategy": "no.such.function"}, {}, "cannot be loaded"),
        ({"strategy": "os.getcwd"}, {}, "should return a tf.distribute.Strategy. Received: str"),
        ({"batch_size": 2, "accumulate_steps": 4}, {}, "batch of 2 is smaller than 1 replicas times 4"),
        ({"strategy": "auto"}, {"TF_CONFIG": "x"}, "no JSON"),
    ],
)
def test_strategies_that_cannot_be(
    changes: dict[str, object], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        strategies.build(hparams(**changes), environment)


def own_strategy() -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy("/cpu:0")


def test_auto_and_a_strategy_of_ones_own() -> None:
    alone = strategies.build(hparams(strategy="auto"), {})
    assert (alone.name, alone.replicas, alone.distributed) == ("one_device", 1, False)
    own = strategies.build(hparams(strategy=f"{__name__}.own_strategy"), {})
    assert (own.replicas, own.workers, own.distributed) == (1, 1, True)
