"""Where a training step's time goes, from the profiler's trace.

    profile = read(find(Path(model_run_uri)))
    profile.shares(), profile.operations, profile.advice()

Reads TensorFlow's XSpace protocol buffer by itself; TensorFlow is not imported.
Times are wall times of the traced steps: waiting for input, computing (any
operation runs on any thread or device), the runtime in between, and Python
between two calls. Operations are summed over threads.
"""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from modules.contract import TRACE_EVALUATION, TRACE_STEPS
from pipelines.errors import NotFoundError

Span = tuple[int, int]
"""Begin and end in picoseconds."""

_PS_PER_MS = 1e9
_FILES = "plugins/profile/*/*.xplane.pb"
_NEXT_ELEMENT = "IteratorGetNextOp::DoCompute"
_HLO = "hlo_op"
_DEVICES = ("/device:GPU", "/device:TPU")
_TF_OPERATION = re.compile(r"^[^:\s]+:(_?[A-Z]\w*)$")
# XLA's parts run on threads of their own, of which not every piece is in the trace.
_COMPILED_PARTS = ("CpuExecutable::ExecuteAsyncOnStream", "ThunkExecutor::Execute")
# They wait for others, or are what is measured otherwise.
_NO_COMPUTING = re.compile(
    r"^(Iterator|OptionalFrom|Timestamp|_?Arg|_?Retval|_Send|_Recv|While|If|PartitionedCall|"
    r"StatefulPartitionedCall|XlaLaunch|_XlaRun|_XlaCompile|XlaLocalLaunch|\w*Dataset)"
)
_ELEMENT_WISE = re.compile(
    r"^_?(Mkl)?(Native)?(Mul|Add|AddV2|AddN|Sub|RealDiv|Square|Sqrt|Rsqrt|Maximum|Minimum|Select|Cast|Relu|"
    r"ReluGrad|BiasAdd|BiasAddGrad|Neg|Exp|Log|Tanh|Sigmoid|Erf|Softmax|Transpose|Tile|BroadcastTo|Sum|Mean|"
    r"AssignVariableOp|AssignAddVariableOp|AssignSubVariableOp|ReadVariableOp|FusedBatchNorm\w*)$"
)
INPUT_LIMIT, HOST_LIMIT, PYTHON_LIMIT, ELEMENT_LIMIT = 0.10, 0.25, 0.20, 0.30


@dataclass(frozen=True)
class Operation:
    """A kind of operation: milliseconds a step, summed over threads, and share of all operations."""

    name: str
    step_ms: float
    share: float
    device: str


@dataclass(frozen=True)
class Profile:
    """Milliseconds a step, by what they went into.

    Attributes:
        steps: that the trace holds.
        compiled: whether XLA compiled them.
        input_ms: waiting for the next batch.
        compute_ms: while any operation ran, on host or device.
        device_ms: while an accelerator ran; 0 where there is none.
        host_ms: the rest of the calls: dispatch and scheduling.
        python_ms: between calls, validation apart: callbacks, summaries, checkpoints.
        operations: all kinds, the longest first.
    """

    steps: int
    compiled: bool
    input_ms: float
    compute_ms: float
    device_ms: float
    host_ms: float
    python_ms: float
    operations: Sequence[Operation]

    @property
    def step_ms(self) -> float:
        return self.input_ms + self.compute_ms + self.host_ms + self.python_ms

    def shares(self) -> dict[str, float]:
        """Part of a step -> share of its time, in [0, 1]; they sum to 1."""
        parts = {
            "input": self.input_ms,
            "compute": self.compute_ms,
            "host": self.host_ms,
            "Python": self.python_ms,
        }
        return {name: value / self.step_ms if self.step_ms else 0.0 for name, value in parts.items()}

    def advice(self) -> str:
        """The next thing to change."""
        shares = self.shares()
        if shares["input"] > INPUT_LIMIT:
            return (
                "Waiting for input: decode less per step (smaller images, cheaper augmentation), or give the "
                "input more cores."
            )
        if shares["Python"] > PYTHON_LIMIT:
            return "Python between calls: raise train.steps_per_call, or write checkpoints less often."
        if shares["host"] > HOST_LIMIT:
            batch = "raise train.batch_size"
            wanted = batch if self.compiled else f"set train.xla: on, or {batch}"
            return f"Many small operations keep the runtime busy: {wanted}."
        element_wise = sum(item.share for item in self.operations if _ELEMENT_WISE.match(item.name))
        if element_wise > ELEMENT_LIMIT and not self.compiled:
            return (
                f"Element-wise operations take {element_wise:.0%} of the computing, which XLA would fuse: "
                "set train.xla: on."
            )
        first = self.operations[0].name if self.operations else "nothing"
        return (
            f"Arithmetic: most of it in {first}. A smaller network, 16-bit numbers (train.precision) "
            "where the device has units for them, or a faster device."
        )


def find(folder: Path) -> Path:
    """The latest trace below a Trainer's `model_run` folder.

    Raises:
        NotFoundError: there is none.
    """
    found = sorted(folder.glob(_FILES), key=lambda path: path.stat().st_mtime)
    if not found:
        raise NotFoundError(
            "This run has no profiler trace",
            place=str(folder),
            remedy="Write one with --set train.profile=20-30, and enough steps: headrace run EXPERIMENT.",
        )
    return found[-1]


def read(path: Path) -> Profile:
    """Analyses a trace of our training loop.

    Raises:
        NotFoundError: it holds no training steps, or is damaged.
    """
    from google.protobuf.message import DecodeError

    space = _xplane().XSpace()
    try:
        space.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise NotFoundError("A profiler trace is damaged", place=str(path)) from error
    lines = [_Line(plane, line) for plane in space.planes for line in plane.lines]
    calls = [event for line in lines for event in line.named(TRACE_STEPS)]
    if not calls:
        raise NotFoundError(
            "A profiler trace holds no training steps",
            place=str(path),
            remedy="train.profile should name steps after the first, such as 20-30.",
        )
    return _analyse(lines, calls)


@cache
def _xplane() -> Any:
    """TensorFlow's generated module, loaded without TensorFlow, which would take seconds."""
    package = importlib.util.find_spec("tensorflow")
    assert package is not None and package.submodule_search_locations
    path = Path(package.submodule_search_locations[0], "tsl/profiler/protobuf/xplane_pb2.py")
    spec = importlib.util.spec_from_file_location("headrace_xplane_pb2", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class _Event:
    name: str
    span: Span
    stats: Mapping[str, Any]


class _Line:
    """One thread or stream of a trace."""

    def __init__(self, plane: Any, line: Any) -> None:
        self._plane, self._line = plane, line
        self._begin_ps = line.timestamp_ns * 1000
        self.device = plane.name if plane.name.startswith(_DEVICES) else "host"

    def events(self) -> Iterator[_Event]:
        names, stats = self._plane.event_metadata, self._plane.stat_metadata
        for event in self._line.events:
            begin = self._begin_ps + event.offset_ps
            found = {stats[item.metadata_id].name: _value(item, stats) for item in event.stats}
            yield _Event(names[event.metadata_id].name, (begin, begin + event.duration_ps), found)

    def named(self, name: str) -> list[_Event]:
        known = {number for number, data in self._plane.event_metadata.items() if data.name == name}
        if not any(event.metadata_id in known for event in self._line.events):
            return []
        return [event for event in self.events() if event.name == name]


def _value(stat: Any, names: Any) -> Any:
    kind = stat.WhichOneof("value")
    return names[stat.ref_value].name if kind == "ref_value" else getattr(stat, kind)


def _analyse(lines: Sequence[_Line], calls: Sequence[_Event]) -> Profile:
    inside = merged(event.span for event in calls)
    waits: list[Span] = []
    computing: list[Span] = []
    on_device: list[Span] = []
    spent: dict[tuple[str, str], int] = defaultdict(int)
    for line in lines:
        for event in line.events():
            if event.name == _NEXT_ELEMENT:
                waits.append(event.span)
            if event.name in _COMPILED_PARTS:
                computing.append(event.span)
            kind = _kind(event, line.device)
            if kind is None:
                continue
            clipped = _length(_common([event.span], inside))
            spent[kind, line.device] += clipped
            (computing if line.device == "host" else on_device).append(event.span)
    steps = sum(int(event.stats.get("steps", 1)) for event in calls)
    ran = merged([*_common(merged(computing), inside), *_common(merged(on_device), inside)])
    waited = _without(_common(merged(waits), inside), ran)
    validation = merged(event.span for line in lines for event in line.named(TRACE_EVALUATION))
    whole = [(inside[0][0], inside[-1][1])]
    between = _length(_without(_without(whole, inside), validation))
    per_step = 1 / (_PS_PER_MS * max(steps, 1))
    in_calls, compute, waiting = _length(inside), _length(ran), _length(waited)
    return Profile(
        steps=steps,
        compiled=any(int(event.stats.get("jit", 0)) for event in calls),
        input_ms=waiting * per_step,
        compute_ms=compute * per_step,
        device_ms=_length(_common(merged(on_device), inside)) * per_step,
        host_ms=(in_calls - compute - waiting) * per_step,
        python_ms=between * per_step,
        operations=_operations(spent, per_step),
    )


def _kind(event: _Event, device: str) -> str | None:
    """The kind of operation that an event is of; None where it is none."""
    if _HLO in event.stats:
        return re.sub(r"[.\d]+$", "", str(event.stats[_HLO]))
    if device != "host":
        return re.sub(r"[.\d]+$", "", event.name.rpartition("/")[2])
    matched = _TF_OPERATION.match(event.name)
    kind = matched.group(1) if matched else ""
    return kind if kind and not _NO_COMPUTING.match(kind) else None


def _operations(spent: Mapping[tuple[str, str], int], per_step: float) -> list[Operation]:
    total = sum(spent.values()) or 1
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    return [Operation(name, time * per_step, time / total, device) for (name, device), time in ordered]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of spans, in order, without overlaps."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _common(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """What two unions share."""
    found = []
    start = 0
    for begin, end in one:
        while start < len(other) and other[start][1] <= begin:
            start += 1
        for from_, to in other[start:]:
            if from_ >= end:
                break
            found.append((max(begin, from_), min(end, to)))
    return found


def _without(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """What is in the one union and not in the other."""
    found = []
    for begin, end in one:
        at = begin
        for from_, to in _common([(begin, end)], other):
            if from_ > at:
                found.append((at, from_))
            at = to
        if at < end:
            found.append((at, end))
    return found


def _length(spans: Iterable[Span]) -> int:
    return sum(end - begin for begin, end in spans)
