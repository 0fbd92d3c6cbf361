"""Runs calls in threads, one by one or as batches.

    runner = DirectRunner(threads=2)
    arrays = await runner.run(model, call)

All methods are called from one event loop; only `Model.run` leaves it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from components.serving.server.loading import Call, Model
from components.serving.server.status import Code, RequestError, invalid
from components.serving.server.text_protos import BatchingParameters

Arrays = list[np.ndarray]


class Runner(Protocol):
    """Runs calls."""

    async def run(self, model: Model, call: Call) -> Arrays:
        """The call's outputs."""

    def close(self) -> None:
        """Ends its threads; nothing may be waiting."""


class DirectRunner:
    """Each call is a run of its own."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="run")

    async def run(self, model: Model, call: Call) -> Arrays:
        # A client that gives up cancels this, and with it a run that has not begun.
        return await asyncio.get_running_loop().run_in_executor(self._pool, model.run, call)

    def close(self) -> None:
        self._pool.shutdown()


@dataclass
class _Task:
    call: Call
    size: int
    since: float
    done: asyncio.Future[Arrays]


_Key = tuple[int, str, tuple[str, ...], tuple[tuple[int, ...], ...]]
"""What may be put together: same model, signature, outputs, and shapes behind the first dimension."""


class BatchingRunner:
    """Puts calls that wait at the same time together, along the first dimension.

    A batch is run when it is full, or when its oldest call has waited for the
    timeout, and a thread is free: with a timeout of 0 nothing waits while a
    thread is idle, and batches grow with the load.
    """

    def __init__(self, parameters: BatchingParameters, clock: Callable[[], float] = time.monotonic) -> None:
        self._parameters = parameters
        self._clock = clock
        self._pool = ThreadPoolExecutor(parameters.num_batch_threads, thread_name_prefix="batch")
        self._idle_threads = parameters.num_batch_threads
        self._queues: dict[_Key, list[_Task]] = {}
        self._models: dict[_Key, Model] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, model: Model, call: Call) -> Arrays:
        if not call.inputs:
            # Nothing to put together, as with a signature that reads a counter.
            return await asyncio.get_running_loop().run_in_executor(self._pool, model.run, call)
        size = _rows(call)
        if size > self._parameters.max_batch_size:
            raise invalid(
                f"Task size {size} is larger than maximum input batch size {self._parameters.max_batch_size}"
            )
        # Sorted, since two requests may name the same inputs in another order.
        shapes = tuple(call.inputs[name].shape[1:] for name in sorted(call.inputs))
        key = (id(model), call.signature, call.outputs, shapes)
        waiting = self._queues.get(key, [])
        limit = self._parameters.max_batch_size * self._parameters.max_enqueued_batches
        if sum(task.size for task in waiting) + size > limit:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"The batch scheduling queue to which this task was submitted is full: "
                f"{limit} rows are waiting",
            )
        task = _Task(call, size, self._clock(), asyncio.get_running_loop().create_future())
        self._queues.setdefault(key, []).append(task)
        self._models[key] = model
        self._start_batches()
        return await task.done

    def close(self) -> None:
        self._pool.shutdown()

    def _start_batches(self) -> None:
        while self._idle_threads:
            key = self._next_key()
            if key is None:
                return
            model, tasks = self._models[key], self._take(key)
            if tasks:
                self._idle_threads -= 1
                running = asyncio.get_running_loop().create_task(self._run_batch(model, tasks))
                self._running.add(running)
                running.add_done_callback(self._running.discard)

    def _next_key(self) -> _Key | None:
        """The queue whose oldest call waits longest, of those that are due."""
        now, timeout_s = self._clock(), self._parameters.batch_timeout_micros / 1e6
        oldest = sorted(self._queues, key=lambda key: self._queues[key][0].since)
        for key in oldest:
            full = sum(task.size for task in self._queues[key]) >= self._parameters.max_batch_size
            if full or now - self._queues[key][0].since >= timeout_s:
                return key
        if oldest and self._timer is None:
            wait_s = self._queues[oldest[0]][0].since + timeout_s - now
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)
        return None

    def _on_timer(self) -> None:
        self._timer = None
        self._start_batches()

    def _take(self, key: _Key) -> list[_Task]:
        taken: list[_Task] = []
        queue, room = self._queues[key], self._parameters.max_batch_size
        while queue and queue[0].size <= room:
            task = queue.pop(0)
            if not task.done.done():  # its client has not given up
                taken.append(task)
                room -= task.size
        if not queue:
            del self._queues[key], self._models[key]
        return taken

    async def _run_batch(self, model: Model, tasks: list[_Task]) -> None:
        loop = asyncio.get_running_loop()
        answers: Sequence[Arrays | Exception]
        try:
            answers = await loop.run_in_executor(self._pool, self._run_together, model, tasks)
        except Exception as error:
            answers = [error] * len(tasks)
        self._idle_threads += 1
        self._start_batches()
        for task, answer in zip(tasks, answers, strict=True):
            if task.done.done():
                continue
            if isinstance(answer, Exception):
                task.done.set_exception(answer)
            else:
                task.done.set_result(answer)

    def _run_together(self, model: Model, tasks: list[_Task]) -> Sequence[Arrays | Exception]:
        try:
            return self._run_joined(model, tasks)
        except Exception as error:
            if len(tasks) == 1:
                return [error]
        # One bad request must not fail those that happened to arrive with it.
        return [_run_alone(model, task.call) for task in tasks]

    def _run_joined(self, model: Model, tasks: list[_Task]) -> list[Arrays]:
        rows = sum(task.size for task in tasks)
        first = tasks[0].call
        padded = next((size for size in self._parameters.allowed_batch_sizes if size >= rows), rows)
        inputs = {name: _joined([task.call.inputs[name] for task in tasks], padded) for name in first.inputs}
        outputs = model.run(Call(first.signature, inputs, first.outputs))
        for name, output in zip(first.outputs, outputs, strict=True):
            if output.ndim == 0 or len(output) != padded:
                raise RequestError(
                    Code.FAILED_PRECONDITION,
                    f"Batched output tensor {name}'s 0th dimension does not equal the sum of "
                    f"the 0th dimension sizes of the input tensors: {list(output.shape)} for {padded}",
                )
        ends = np.cumsum([task.size for task in tasks])
        return [
            [output[end - task.size : end] for output in outputs]
            for task, end in zip(tasks, ends, strict=True)
        ]


def _rows(call: Call) -> int:
    sizes = {array.shape[0] if array.ndim else None for array in call.inputs.values()}
    if None in sizes or len(sizes) != 1:
        raise invalid(
            "Batching input tensors must have at least one dimension, and the same 0th-dimension size"
        )
    return int(next(iter(sizes)) or 0)


def _joined(parts: list[np.ndarray], rows: int) -> np.ndarray:
    missing = rows - sum(map(len, parts))
    padding = [np.repeat(parts[0][:1], missing, axis=0)] if missing else []
    return np.concatenate(parts + padding) if len(parts) + len(padding) > 1 else parts[0]


def _run_alone(model: Model, call: Call) -> Arrays | Exception:
    try:
        return model.run(call)
    except Exception as error:
        return error
