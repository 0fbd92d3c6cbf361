"""What the profiler's trace is read as: made traces, exact to the millisecond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modules.contract import TRACE_EVALUATION, TRACE_STEPS
from pipelines import profiling
from pipelines.errors import NotFoundError

MS = 10**9
CALLS = [(0, 40, TRACE_STEPS, {"steps": 2, "jit": 0}), (60, 100, TRACE_STEPS, {"steps": 2, "jit": 0})]
"""Milliseconds: two calls of two steps each, 20 ms apart."""


def trace(folder: Path, *threads: list[Any], plane: str = "/host:CPU") -> Path:
    """Writes a trace of threads with events (begin, end, name, stats), in milliseconds."""
    space = profiling._xplane().XSpace()
    host = space.planes.add(name="/host:CPU")
    device = host if plane == host.name else space.planes.add(name=plane)
    for number, events in enumerate(threads):
        owner = host if number == 0 else device
        line = owner.lines.add(id=number)
        for begin, end, name, stats in events:
            key = len(owner.event_metadata) + 1
            owner.event_metadata[key].name = name
            event = line.events.add(metadata_id=key, offset_ps=begin * MS, duration_ps=(end - begin) * MS)
            for stat, value in stats.items():
                owner.stat_metadata[hash(stat) % 1000].name = stat
                if isinstance(value, int):
                    event.stats.add(metadata_id=hash(stat) % 1000, int64_value=value)
                else:
                    event.stats.add(metadata_id=hash(stat) % 1000, str_value=value)
    path = folder / "plugins/profile/now/host.xplane.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(space.SerializeToString())
    return path


def test_a_step_is_taken_apart(tmp_path: Path) -> None:
    """Of 100 ms: 80 in calls (10 waiting, 50 computing on two threads, 20 neither), 4 of 20 validation."""
    python = [*CALLS, (45, 49, TRACE_EVALUATION, {})]
    one = [(0, 10, "IteratorGetNextOp::DoCompute", {}), (10, 30, "while/conv:Conv2D", {})]
    two = [
        (20, 40, "while/conv_1:Conv2D", {}),
        (70, 90, "a/mul:Mul", {}),
        (70, 100, "while/step:StatefulPartitionedCall", {}),
        (42, 44, "validation/conv:Conv2D", {}),
    ]
    path = trace(tmp_path, python, one, two)
    assert profiling.find(tmp_path) == path
    found = profiling.read(path)
    assert (found.steps, found.compiled) == (4, False)
    assert found.input_ms == pytest.approx(10 / 4)
    assert found.compute_ms == pytest.approx(50 / 4)
    assert found.host_ms == pytest.approx(20 / 4)
    assert found.python_ms == pytest.approx(16 / 4)
    assert [(item.name, item.step_ms, round(item.share, 3)) for item in found.operations] == [
        ("Conv2D", pytest.approx(40 / 4), 0.667),
        ("Mul", pytest.approx(20 / 4), 0.333),
    ]
    assert sum(found.shares().values()) == pytest.approx(1.0)


def test_accelerators_and_compiled_operations_count(tmp_path: Path) -> None:
    calls = [(0, 100, TRACE_STEPS, {"steps": 10, "jit": 1})]
    stream = [(10, 60, "kernel", {"hlo_op": "fusion.12"}), (60, 90, "gpu/gemm.3", {})]
    found = profiling.read(trace(tmp_path, calls, stream, plane="/device:GPU:0"))
    assert found.compiled
    assert found.device_ms == pytest.approx(8.0)
    assert {(item.name, item.device) for item in found.operations} == {
        ("fusion", "/device:GPU:0"),
        ("gemm", "/device:GPU:0"),
    }


@pytest.mark.parametrize(
    ("parts", "compiled", "operation", "advice"),
    [
        ((2.0, 8.0, 0.0, 0.0), False, "Conv2D", "Waiting for input"),
        ((0.0, 7.0, 0.0, 3.0), False, "Conv2D", "raise train.steps_per_call"),
        ((0.0, 7.0, 3.0, 0.0), False, "Conv2D", "set train.xla: on"),
        ((0.0, 7.0, 3.0, 0.0), True, "fusion", "runtime busy: raise train.batch_size"),
        ((0.0, 10.0, 0.0, 0.0), False, "Mul", "Element-wise operations take 100%"),
        ((0.0, 10.0, 0.0, 0.0), False, "MatMul", "Arithmetic: most of it in MatMul"),
    ],
)
def test_the_next_thing_to_change(parts: Any, compiled: bool, operation: str, advice: str) -> None:
    waiting, compute, host, python = parts
    operations = [profiling.Operation(operation, compute, 1.0, "host")]
    profile = profiling.Profile(10, compiled, waiting, compute, 0.0, host, python, operations)
    assert advice in profile.advice()


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no profiler trace"):
        profiling.find(tmp_path)
    with pytest.raises(NotFoundError, match="holds no training steps"):
        profiling.read(trace(tmp_path, [(0, 1, "main", {})]))
    damaged = tmp_path / "damaged.xplane.pb"
    damaged.write_bytes(b"\xff\xff\xff")
    with pytest.raises(NotFoundError, match="damaged"):
        profiling.read(damaged)
