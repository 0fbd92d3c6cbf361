"""Versions are swapped under load: no request fails, and none is answered by a version out of service."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.components.serving.server import models
from tests.components.serving.server.running_server import Clients, in_thread, wait_for
from tests.components.serving.server.test_grpc import predict_request

_MODEL = "n"


@dataclass
class Timeline:
    """When each version could first answer, and when it could no longer be asked."""

    begins: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)

    def allows(self, version: int, sent: float, answered: float) -> bool:
        began = self.begins.get(version, float("inf"))
        return began <= answered and sent <= self.ends.get(version, float("inf"))


@dataclass(frozen=True)
class Answer:
    version: int
    echoed: int
    sent: float
    answered: float


def ask(clients: Clients, by_rest: bool) -> Answer:
    sent = time.monotonic()
    if by_rest:
        response = clients.post(f"{_MODEL}:predict", {"instances": [0.0]})
        response.raise_for_status()
        version = echoed = int(response.json()["predictions"][0])
    else:
        answer = clients.predictions.Predict(predict_request(_MODEL, x=np.float32([0.0])), timeout=60)
        version, echoed = int(answer.outputs["number"].float_val[0]), answer.model_spec.version.value
    return Answer(version, echoed, sent, time.monotonic())


def soak(tmp_path: Path, swaps: int, requests: int, workers: int, batching: bool) -> None:
    made = {
        number: models.numbered(tmp_path / "made" / str(number), number) for number in range(1, swaps + 2)
    }
    base = tmp_path / "root" / _MODEL
    base.mkdir(parents=True)
    models.publish(made[1], base, 1)
    timeline = Timeline({1: 0.0})
    choices = random.Random(7)
    kinds = [choices.random() < 0.3 for _ in range(requests)]
    answers: list[Answer] = []
    with in_thread(model_root=str(base.parent), enable_batching=batching) as clients:
        swapped = threading.Event()

        def swap() -> None:
            for number in range(2, swaps + 2):
                # Spread over the run: the next one when its share of answers is in.
                wait_for(lambda share=requests * (number - 1) // (swaps + 1): len(answers) >= share, 300)
                timeline.begins[number] = time.monotonic()
                models.publish(made[number], base, number)
                wanted = {number: "AVAILABLE", number - 1: "END"}
                wait_for(lambda wanted=wanted: wanted.items() <= clients.states(_MODEL).items(), 60)
                timeline.ends[number - 1] = time.monotonic()
            swapped.set()

        def work(by_rest: bool) -> None:
            answers.append(ask(clients, by_rest))

        swapping = threading.Thread(target=swap)
        swapping.start()
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, kinds))  # raises what a request raised
        swapping.join(120)
        assert swapped.is_set()
    assert len(answers) == requests
    assert [item for item in answers if item.version != item.echoed] == []
    assert [item for item in answers if not timeline.allows(item.version, item.sent, item.answered)] == []
    assert {item.version for item in answers} >= set(range(1, swaps + 1))


def test_three_swaps_under_eight_clients(tmp_path: Path) -> None:
    soak(tmp_path, swaps=3, requests=500, workers=8, batching=False)


def test_swaps_with_batching(tmp_path: Path) -> None:
    soak(tmp_path, swaps=2, requests=300, workers=8, batching=True)


@pytest.mark.slow
@pytest.mark.parametrize("batching", [False, True])
def test_twenty_swaps_under_sixteen_clients(tmp_path: Path, batching: bool) -> None:
    soak(tmp_path, swaps=20, requests=10_000, workers=16, batching=batching)
