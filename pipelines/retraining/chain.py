"""What a round does, on the real chain: implements `rounds.Chain`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from components import subprocesses
from components.challenge import compare
from components.errors import ServableError
from components.serving import manifest
from components.serving_pusher import root as serving_root
from pipelines import config, operations, resuming, spans
from pipelines.config import Experiment
from pipelines.errors import (
    HeadraceError,
    InputError,
    InterruptedRunError,
    NodeFailedError,
    RejectedError,
    SurroundingsError,
)
from pipelines.inputs import SPLITS
from pipelines.lineage import store as lineage
from pipelines.lineage.store import Store
from pipelines.retraining import observe, watching
from pipelines.retraining.ledger import Record
from pipelines.retraining.part_names import part_name
from pipelines.retraining.policy import Span
from pipelines.retraining.present import Present
from pipelines.retraining.rounds import RefusedError, StaleError, Trained, over_budget
from pipelines.retraining.settings import Retraining
from pipelines.run import Options, Outcome, Progress, interruptible, run
from pipelines.workspace import Workspace

_JUDGED = "Evaluator"
_COMPARE_S = 3600.0
_SERVED_S = 60.0


class LocalChain:
    """An experiment's chain in a workspace of this machine."""

    def __init__(
        self,
        experiment: Experiment,
        workspace: Workspace,
        progress: Callable[[], Progress],
    ) -> None:
        """Args: `progress` makes what is told of each run."""
        self._experiment = experiment
        self._workspace = workspace
        self._progress = progress
        self._root = workspace.serving_root(experiment.model_name)

    def spans(self) -> list[Span]:
        data = Present(self._experiment)
        if not data.has_spans:
            return []
        chosen = spans.of(self._experiment.data, data.pattern)
        return [(item.span, item.version) for item in chosen]

    def state(self, numbers: Sequence[int]) -> str:
        return Present(self._experiment).state(numbers)

    def bad_spans(self, records: Sequence[Record]) -> list[int]:
        data = Present(self._experiment)
        refused = [record for record in records if record.outcome == "bad_data"]
        bad = [record for record in refused if not observe.mended(record, data)]
        return sorted({span for record in bad for span in record.bad})

    def named(self, place: str) -> list[int]:
        # By whole names: data-1.csv is not data-11.csv.
        data = Present(self._experiment)
        found = data.files if data.has_spans else []
        pointed = [item for item in found if re.search(re.escape(str(item.path)) + r"(?![\w-])", place)]
        return sorted({item.span for item in pointed})

    def without(self, skipped: Sequence[int]) -> LocalChain:
        if not skipped:
            return self
        data = self._experiment.data.model_copy(update={"skip_spans": list(skipped)})
        fewer = self._experiment.model_copy(update={"data": data})
        return type(self)(fewer, self._workspace, self._progress)

    def in_service(self) -> int:
        return serving_root.in_service(self._root) or 0

    def train(self, run_id: str, begun: Callable[[str], None], budget_s: float | None) -> Trained:
        options = Options(to_node=_JUDGED)
        with _within(budget_s, self._experiment.retraining):
            outcome = self._run(options, run_id, begun)
        return self._judged(outcome)

    def _run(self, options: Options, run_id: str, begun: Callable[[str], None]) -> Outcome:
        progress = _Telling(self._progress(), begun)
        try:
            if run_id and self._can_resume(run_id):
                return resuming.resume(run_id, self._workspace, progress)
            return run(self._experiment, self._workspace, options, progress)
        finally:
            progress.close()

    def _run_like(self, run_id: str) -> Outcome:
        """The whole chain, where it is still the one that a run carried out a part of."""

        def accept(template: Any) -> None:
            if not resuming.is_same(run_id, self._workspace, template):
                raise StaleError

        progress = self._progress()
        try:
            return run(self._experiment, self._workspace, Options(), progress, accept)
        finally:
            getattr(progress, "close", lambda: None)()

    def _can_resume(self, run_id: str) -> bool:
        with Store(self._workspace.database) as store:
            known = {record.run_id: record for record in store.runs()}
        # One whose code or data have changed meanwhile cannot go on; what it finished is cached.
        return run_id in known and resuming.is_unchanged(known[run_id], self._workspace)

    def _judged(self, outcome: Outcome) -> Trained:
        summary = outcome.summary
        refusals = [f"evaluation: {sentence}" for sentence in summary.failures]
        if summary.blessed is False and not refusals:
            refusals.append("evaluation: not blessed")
        servable = self._output(outcome.run_id, "Rewriter", "servable")
        return Trained(servable.uri, self._serves(servable.id), refusals)

    def _output(self, run_id: str, node: str, key: str) -> Any:
        with Store(self._workspace.database) as store:
            found = {item.node: item for item in store.nodes(run_id)}
        if node not in found or not found[node].outputs.get(key):
            raise NodeFailedError(f"The run has no output {key!r} of {node}", place=run_id)
        return found[node].outputs[key][0]

    def _serves(self, servable_id: int) -> bool:
        folder = serving_root.folder_of(self._root, self.in_service())
        if folder is None:
            return False
        with contextlib.suppress(ServableError):
            return bool(manifest.read(folder).get("servable_id") == servable_id)
        return False

    def compare(self, record: Record, budget_s: float | None) -> list[str]:
        current = serving_root.folder_of(self._root, record.before)
        if current is None:
            return []  # nothing to compare with
        settings = self._experiment.retraining
        newest = self._output(record.run_id, "ExampleGen", "examples").uri
        sets = {"newest data": (newest, ["test"])}
        if settings.golden:
            sets["golden set"] = (self._golden(settings.golden), list(SPLITS))
        seconds = _COMPARE_S if budget_s is None else budget_s
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch, "results.json")
            task = compare.Task(
                record.servable, str(current), sets, self._experiment.data.label, settings.slices, str(target)
            )
            try:
                subprocesses.run(compare.compare, task, limits=subprocesses.Limits(seconds=seconds))
            except subprocesses.WorkerFailed as error:
                raise NodeFailedError(
                    f"The candidate could not be compared: {error}", place=str(current)
                ) from error
            results = compare.read(target)
        limits = compare.Limits(settings.max_drop, settings.max_slice_drop, settings.confidence)
        return compare.faults(results, limits)

    def _golden(self, path: str) -> str:
        """Examples of the golden set, read once: a chain of its own, as far as ExampleGen.

        Raises:
            SurroundingsError: it cannot be used, which says nothing about the data.
        """
        raw = self._experiment.model_dump(mode="json")
        raw["name"] = part_name(self._experiment.name, "golden")
        raw["data"] = {**raw["data"], "path": path, "source": None, "span": None, "window": 1}
        progress = _Telling(self._progress(), _nobody)
        try:
            outcome = run(config.from_mapping(raw), self._workspace, Options(to_node="ExampleGen"), progress)
        except InputError as error:
            raise SurroundingsError(
                f"The golden set cannot be used: {error.headline}",
                place=f"retraining.golden: {path}" + (f", {error.place}" if error.place != path else ""),
                remedy=error.remedy,
            ) from error
        return str(self._output(outcome.run_id, "ExampleGen", "examples").uri)

    def counts(self) -> dict[str, float]:
        return asdict(self._sample() or watching.Sample())

    def push(self, record: Record) -> int:
        try:
            outcome = self._run_like(record.run_id)
        except StaleError:
            # A push that was killed may have put it in service before anything else came.
            if self._serves(self._output(record.run_id, "Rewriter", "servable").id):
                return self.in_service()
            raise
        except RejectedError as error:
            self._take_back(record, error.headline)
            if self.in_service() != record.before:
                raise  # there is nothing to go back to: somebody has to look
            raise RefusedError(error.headline) from error
        if outcome.state == lineage.REFUSED or not outcome.summary.pushed_version:
            raise RefusedError(outcome.summary.refusal or "no version came of it")
        return int(outcome.summary.pushed_version)

    def _take_back(self, record: Record, reason: str) -> None:
        """Of a push that was killed before the server was asked, the next finds the version in service."""
        if record.before and self.in_service() > record.before:
            self.roll_back(record, reason)

    def fault(self, record: Record) -> str:
        watch = self._experiment.retraining.watch
        if watch is None:
            return ""
        return watching.fault(watching.Sample(**record.counts), self._sample(), watch)

    def unseen(self, record: Record) -> str:
        watch, url = self._experiment.retraining.watch, watching.url_of(self._experiment)
        if watch is None or url is None:
            return ""
        return watching.unseen(watching.Sample(**record.counts), self._sample(), watch, url)

    def _sample(self) -> watching.Sample | None:
        server, url = self._experiment.push.server, watching.url_of(self._experiment)
        name = (server.model if server else None) or self._experiment.model_name
        return watching.sample(url, name) if url else None

    def roll_back(self, record: Record, reason: str) -> None:
        target = record.before or None
        # By the clock that pushes are recorded by, whatever a simulated scheduler goes by.
        operations.roll_back(self._workspace, self._experiment.model_name, target, reason, time.time())


class _Telling:
    """Passes a run's progress on, and says when it has an id."""

    def __init__(self, inner: Progress, begun: Callable[[str], None]) -> None:
        self._inner = inner
        self._begun = begun

    def begun(self, run_id: str) -> None:
        self._begun(run_id)
        self._inner.begun(run_id)

    def loading(self) -> None:
        self._inner.loading()

    def waiting(self) -> None:
        self._inner.waiting()

    def planned(self, nodes: list[str]) -> None:
        self._inner.planned(nodes)

    def event(self, event: Any) -> None:
        self._inner.event(event)

    def tick(self) -> None:
        self._inner.tick()

    def ended(self, outcome: Outcome, error: HeadraceError | None) -> None:
        self._inner.ended(outcome, error)

    def close(self) -> None:
        close = getattr(self._inner, "close", None)
        if close is not None:
            close()


def _nobody(run_id: str) -> None:
    return None


@contextlib.contextmanager
def _within(budget_s: float | None, settings: Retraining) -> Iterator[None]:
    """Ends what runs inside when its time is up, as a SIGTERM would.

    Raises:
        NodeFailedError: it was.
    """
    if budget_s is None:
        yield
        return
    late = threading.Event()

    def end() -> None:
        late.set()
        os.kill(os.getpid(), signal.SIGTERM)

    timer = threading.Timer(budget_s, end)
    timer.daemon = True
    # The handler outlives the timer: a signal that nobody takes would end the scheduler.
    with interruptible():
        try:
            timer.start()
            try:
                yield
            finally:
                timer.cancel()
                timer.join()
        except (InterruptedRunError, KeyboardInterrupt) as error:
            if not late.is_set():
                raise
            raise over_budget(settings) from error
