"""Batching: what is put together, when, and what it must never change."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from components.serving.server.loading import Call
from components.serving.server.running import BatchingRunner
from components.serving.server.status import Code, RequestError
from components.serving.server.text_protos import BatchingParameters


class Doubling:
    """Doubles its input, remembers batch sizes, and waits for `gate` where there is one."""

    signatures: dict[str, Any] = {}

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def run(self, call: Call) -> list[np.ndarray]:
        assert self.gate.wait(30)
        x = call.inputs["x"]
        self.sizes.append(len(x))
        if (x < 0).any():
            raise ValueError("negative")
        return [x * 2, np.zeros(1)][: len(call.outputs)]

    def close(self) -> None:
        pass


def call(*values: float, outputs: tuple[str, ...] = ("y",), shape: tuple[int, ...] | None = None) -> Call:
    x = np.float32(values)
    return Call("serving_default", {"x": x if shape is None else x.reshape(shape)}, outputs)


async def together(runner: BatchingRunner, model: Doubling, calls: list[Call]) -> list[Any]:
    """Sends the calls while the only thread is busy with another, so that they wait together."""
    model.gate.clear()
    first = asyncio.create_task(runner.run(model, call(0)))
    await asyncio.sleep(0)
    rest = [asyncio.create_task(runner.run(model, item)) for item in calls]
    await asyncio.sleep(0)
    model.gate.set()
    await first
    answers = await asyncio.gather(*rest, return_exceptions=True)
    runner.close()
    return list(answers)


def one_thread(**more: Any) -> BatchingRunner:
    return BatchingRunner(BatchingParameters(num_batch_threads=1, **more))


def values(answers: list[Any]) -> list[list[float]]:
    return [answer[0].ravel().tolist() for answer in answers]


def test_calls_that_wait_together_run_together() -> None:
    model = Doubling()
    answers = asyncio.run(together(one_thread(), model, [call(1), call(2, 3), call(4)]))
    assert values(answers) == [[2], [4, 6], [8]]
    assert model.sizes == [1, 4]


def test_batches_are_cut_at_the_largest_size() -> None:
    model = Doubling()
    answers = asyncio.run(
        together(one_thread(max_batch_size=3), model, [call(1), call(2, 3), call(4), call(5)])
    )
    assert values(answers) == [[2], [4, 6], [8], [10]]
    assert model.sizes == [1, 3, 2]


def test_batches_are_padded_to_an_allowed_size() -> None:
    model = Doubling()
    runner = one_thread(max_batch_size=8, allowed_batch_sizes=(2, 8))
    answers = asyncio.run(together(runner, model, [call(1), call(2), call(3)]))
    assert values(answers) == [[2], [4], [6]]
    assert model.sizes == [2, 8]


def test_other_shapes_and_outputs_form_batches_of_their_own() -> None:
    model = Doubling()
    calls = [call(1), call(1, 2, shape=(1, 2)), call(3), call(3, 4, shape=(1, 2))]
    answers = asyncio.run(together(one_thread(), model, calls))
    assert values(answers) == [[2], [2, 4], [6], [6, 8]]
    assert model.sizes == [1, 2, 2]


def test_a_bad_request_fails_alone() -> None:
    model = Doubling()
    answers = asyncio.run(together(one_thread(), model, [call(1), call(-1), call(2)]))
    assert isinstance(answers[1], ValueError)
    assert values([answers[0], answers[2]]) == [[2], [4]]


def test_a_full_queue_refuses() -> None:
    model = Doubling()
    runner = one_thread(max_batch_size=2, max_enqueued_batches=1)
    answers = asyncio.run(together(runner, model, [call(1), call(2), call(3)]))
    assert values(answers[:2]) == [[2], [4]]
    assert isinstance(answers[2], RequestError)
    assert answers[2].code is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (call(1, 2, 3), "larger than maximum input batch size 2"),
        (call(1, shape=()), "at least one dimension"),
    ],
)
def test_calls_that_cannot_be_batched(bad: Call, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        asyncio.run(one_thread(max_batch_size=2).run(Doubling(), bad))


def test_an_output_that_is_no_row_each_is_refused() -> None:
    runner = one_thread()
    with pytest.raises(RequestError, match="0th dimension") as caught:
        asyncio.run(runner.run(Doubling(), call(1, 2, outputs=("y", "one"))))
    assert caught.value.code is Code.FAILED_PRECONDITION


def test_a_batch_that_is_not_full_waits_for_its_timeout() -> None:
    model = Doubling()

    async def check() -> None:
        runner = one_thread(max_batch_size=3, batch_timeout_micros=60_000_000)
        calls = [asyncio.create_task(runner.run(model, call(number))) for number in (1, 2)]
        await asyncio.sleep(0.05)
        assert model.sizes == []
        answers = await asyncio.gather(*calls, runner.run(model, call(3)))
        assert values(list(answers)) == [[2], [4], [6]]
        runner.close()

    asyncio.run(check())
    assert model.sizes == [3]


def test_the_timeout_ends_the_wait() -> None:
    model = Doubling()

    async def check() -> None:
        runner = one_thread(batch_timeout_micros=20_000)
        answers = await asyncio.gather(runner.run(model, call(1)), runner.run(model, call(2)))
        assert values(list(answers)) == [[2], [4]]
        runner.close()

    asyncio.run(check())
    assert model.sizes == [2]


def test_clients_that_give_up_are_left_out() -> None:
    model = Doubling()

    async def check() -> None:
        runner = one_thread()
        model.gate.clear()
        first = asyncio.create_task(runner.run(model, call(0)))
        waiting = asyncio.create_task(runner.run(model, call(1)))
        patient = asyncio.create_task(runner.run(model, call(2)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.gather(first, patient)
        runner.close()

    asyncio.run(check())
    assert model.sizes == [1, 1]


def test_calls_without_inputs_run_alone() -> None:
    class Counter(Doubling):
        def run(self, call: Call) -> list[np.ndarray]:
            return [np.float32(7)]

    answer = asyncio.run(one_thread().run(Counter(), Call("get", {}, ("count",))))
    assert answer == [7]
