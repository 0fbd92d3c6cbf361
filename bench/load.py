"""Closed-loop load: so many clients, each sends its next request when the last is answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypedDict


class Timing(TypedDict):
    """Latency of each request, and the time from the first to the last."""

    latencies_s: list[float]
    total_s: float


def timed_in_threads(calls: Sequence[Callable[[], object]], requests: int) -> Timing:
    """Runs `requests` calls, one thread per entry of `calls`.

    Raises:
        RuntimeError: a call failed.
    """
    latencies: list[float] = []
    failures: list[BaseException] = []
    remaining = iter(range(requests))
    lock = threading.Lock()

    def work(call: Callable[[], object]) -> None:
        while True:
            with lock:
                if next(remaining, None) is None or failures:
                    return
            began = time.perf_counter()
            try:
                call()
            except BaseException as error:
                failures.append(error)
                return
            latencies.append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError("A request failed") from failures[0]
    return {"latencies_s": latencies, "total_s": time.perf_counter() - began}
