"""Runs a compiled pipeline with no cluster: from its file alone, container by container.

    outcome = run_spec(text, Path("workspace/spec"), parameters={"epochs": "3"})
    outcome.state, outcome.tasks

What Kubeflow Pipelines' compiler would refuse is refused (`spec_load`). Tasks
run as Argo would run them: a task when all it depends on have succeeded, tasks
behind a skipped or failed one not at all, exit handlers in any case.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pipelines.runners import events, spec_records, spec_values, spec_warm
from pipelines.runners.spec_container import ContainerFailedError, Place
from pipelines.runners.spec_load import ROOT, Pipeline, dependencies, is_exit, load
from pipelines.runners.spec_records import Records
from pipelines.runners.spec_step import (
    FAILED,
    OMITTED,
    SKIPPED,
    SUCCEEDED,
    Step,
    Surroundings,
    TaskOutcome,
    mlmd_state,
    output_of,
)
from pipelines.runners.spec_store import ObjectStore, local_path
from pipelines.runners.spec_values import ResolutionError, RunInfo, Scope
from pipelines.runners.spec_warm import Process, WarmPython
from pipelines.workspace import new_run_id

DEFAULT_ROOT = "minio://mlpipeline/v2/artifacts"
"""Kubeflow's own default for where artifacts go."""

_SHOWN = {SUCCEEDED: events.COMPLETE, SKIPPED: events.SKIPPED, FAILED: events.FAILED}


class Progress(Protocol):
    """What a run tells while it goes on."""

    def begun(self, run_id: str) -> None: ...
    def planned(self, nodes: list[str]) -> None: ...
    def event(self, event: events.Event) -> None: ...
    def tick(self) -> None: ...


@dataclass(frozen=True)
class SpecOutcome:
    """How a run ended.

    Attributes:
        run_id: its id.
        state: `succeeded` or `failed`.
        tasks: path of a task (`dag/task`, without the root's name) -> how it ended.
        folder: logs and JSON of each task.
        store: where artifacts lie.
    """

    run_id: str
    state: str
    tasks: Mapping[str, TaskOutcome]
    folder: Path
    store: ObjectStore


@dataclass(frozen=True)
class Settings:
    """How to run.

    Attributes:
        cache: whether earlier outputs count.
        parallel: containers at a time; the number of cores when 0.
        sleep: waits between retries.
        warm: whether containers of ours are forked from one process that has imported TFX.
    """

    cache: bool = True
    parallel: int = 0
    sleep: Callable[[float], None] = time.sleep
    warm: bool = False


def run_spec(
    text: str,
    root: Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> SpecOutcome:
    """Runs a compiled pipeline.

    Args:
        text: the YAML.
        root: folder for metadata, artifacts and logs.
        parameters: of the pipeline.
        settings: how to run.
        progress: told what happens.

    Raises:
        SpecRefusedError: Kubeflow Pipelines would refuse it.
        ConfigError: a parameter is unknown, missing or of another type.
    """
    pipeline = load(text)
    values = spec_values.runtime_parameters(pipeline, parameters or {})
    settings = settings or Settings()
    with WarmPython() as warm:
        start = warm.start if settings.warm else spec_warm.start
        run = _Run(pipeline, root.absolute(), settings, start)
        if progress is not None:
            progress.begun(run.run_id)
            progress.planned(run.task_names())
        return run.run(values, progress)


class _Run:
    def __init__(
        self,
        pipeline: Pipeline,
        root: Path,
        settings: Settings,
        start: Callable[[Sequence[str], Path, Mapping[str, str], Path], Process],
    ) -> None:
        name = pipeline.spec.pipeline_info.name
        now = datetime.now(UTC)
        run_id = new_run_id(name.replace("/", "-"), now)
        place = Place(root / "runs" / run_id, ObjectStore(root / "store"), root / "metadata.db")
        place.folder.mkdir(parents=True)
        self._pipeline = pipeline
        self._events: queue.SimpleQueue[events.Event] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._outcomes: dict[str, TaskOutcome] = {}
        self._shared = Surroundings(
            pipeline=pipeline,
            info=RunInfo(run_id, run_id, now.isoformat()),
            place=place,
            records=Records(place.metadata_path, name),
            root_uri="/".join([pipeline.spec.default_pipeline_root or DEFAULT_ROOT, name, run_id]),
            cache=settings.cache,
            sleep=settings.sleep,
            slot=threading.Semaphore(settings.parallel or os.cpu_count() or 1),
            start=start,
            stopped=self._stopped.is_set,
            run_dag=self._dag,
        )

    @property
    def run_id(self) -> str:
        return str(self._shared.info.run_id)

    def task_names(self) -> list[str]:
        """All containers and importers, DAG by DAG, in an order in which they could run."""
        return list(self._named(ROOT, ""))

    def _named(self, component: str, prefix: str) -> list[str]:
        tasks = self._pipeline.component(component).dag.tasks
        found = []
        for name in _in_order(tasks):
            reference = tasks[name].component_ref.name
            if self._pipeline.component(reference).WhichOneof("implementation") == "dag":
                found += self._named(reference, _join(prefix, name))
            else:
                found.append(_join(prefix, name))
        return found

    def run(self, values: dict[str, Any], progress: Progress | None) -> SpecOutcome:
        shared = self._shared
        local_path(Path("/"), shared.root_uri)  # an unknown scheme is an error before anything runs
        shared.records.begin(shared.info.run_id, shared.root_uri)
        execution = shared.records.create(
            spec_records.DAG, "", None, values, {}, extra={"run": shared.info.run_id}
        )
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(self._dag, ROOT, "", execution, values, {})
            try:
                self._follow(work, progress)
            except BaseException:
                self._stopped.set()
                wait([work])
                shared.records.close_open()
                raise
            state, _ = work.result()
        shared.records.publish(execution, mlmd_state(state))
        self._write_outcomes(state)
        return SpecOutcome(shared.info.run_id, state, self._outcomes, shared.place.folder, shared.place.store)

    def _follow(self, work: Future[Any], progress: Progress | None) -> None:
        while not work.done() or not self._events.empty():
            while not self._events.empty():
                event = self._events.get()
                if progress is not None:
                    progress.event(event)
            if progress is not None:
                progress.tick()
            wait([work], timeout=0.1)

    def _write_outcomes(self, state: str) -> None:
        found = {
            name: {"state": task.state, "cached": task.cached, "attempts": task.attempts, "error": task.error}
            for name, task in self._outcomes.items()
        }
        text = json.dumps({"run": self._shared.info.run_id, "state": state, "tasks": found}, indent=1)
        (self._shared.place.folder / "outcome.json").write_text(text)

    def _dag(
        self,
        component_name: str,
        prefix: str,
        execution: int,
        parameters: Mapping[str, Any],
        artifacts: Mapping[str, list[dict[str, Any]]],
    ) -> tuple[str, dict[str, TaskOutcome]]:
        """Runs the tasks of a DAG; how it ended, and how each of its tasks did."""
        tasks = self._pipeline.component(component_name).dag.tasks
        ended: dict[str, TaskOutcome] = {}
        scope = Scope(
            parameters,
            artifacts,
            lambda task, key: output_of(ended, task, key, "parameters"),
            lambda task, key: output_of(ended, task, key, "artifacts"),
            lambda task: mlmd_state(ended[task].state),
        )
        running: dict[Future[TaskOutcome], str] = {}
        waiting = _in_order(tasks)
        with ThreadPoolExecutor(max(1, len(tasks))) as pool:
            while waiting or running:
                self._start_ready(tasks, waiting, ended, running, pool, prefix, execution, scope)
                if not running:
                    continue
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    ended[running.pop(future)] = future.result()
        failed = any(outcome.state == FAILED for outcome in ended.values())
        return FAILED if failed else SUCCEEDED, ended

    def _start_ready(
        self,
        tasks: Mapping[str, Any],
        waiting: list[str],
        ended: dict[str, TaskOutcome],
        running: dict[Future[TaskOutcome], str],
        pool: ThreadPoolExecutor,
        prefix: str,
        execution: int,
        scope: Scope,
    ) -> None:
        """Starts what may start, and passes over what never will."""
        for name in list(waiting):
            task = tasks[name]
            needed = set(task.dependent_tasks) if is_exit(task) else dependencies(task)
            if needed - ended.keys():
                continue
            waiting.remove(name)
            if self._may_run(task, needed, ended):
                running[pool.submit(self._task, name, task, prefix, execution, scope)] = name
            else:
                ended[name] = self._end(_join(prefix, name), TaskOutcome(OMITTED))

    def _may_run(self, task: Any, needed: set[str], ended: Mapping[str, TaskOutcome]) -> bool:
        if self._stopped.is_set():
            return False
        if is_exit(task):
            return any(ended[name].state in (SUCCEEDED, FAILED) for name in needed)
        # Argo starts nothing more in a DAG in which a task has failed.
        failed = any(outcome.state == FAILED for outcome in ended.values())
        return not failed and all(ended[name].state == SUCCEEDED for name in needed)

    def _task(self, name: str, task: Any, prefix: str, parent: int, scope: Scope) -> TaskOutcome:
        path = _join(prefix, name)
        began = time.time()
        component = self._pipeline.component(task.component_ref.name)
        inner = component.WhichOneof("implementation") == "dag"
        if not inner:
            self._events.put(events.Event(path, events.RUNNING, began))
        try:
            step = Step(self._shared, name, path, task, parent, scope)
            outcome = step.dag() if inner else step.leaf()
        except (ResolutionError, ContainerFailedError) as error:
            outcome = TaskOutcome(FAILED, error=str(error))
        return self._end(path, outcome, began, shown=not inner)

    def _end(
        self, path: str, outcome: TaskOutcome, began: float | None = None, *, shown: bool = True
    ) -> TaskOutcome:
        self._outcomes[path] = outcome
        if shown:
            now = time.time()
            state = events.CACHED if outcome.cached else _SHOWN.get(outcome.state, events.SKIPPED)
            error = {
                "headline": f"{path}: {outcome.error}",
                "place": str(self._shared.place.folder / path),
                "remedy": "",
            }
            self._events.put(
                events.Event(
                    path, state, now, now - began if began else None, error if outcome.error else None
                )
            )
        return outcome


def _in_order(tasks: Mapping[str, Any]) -> list[str]:
    """Task names, each behind what it depends on; else by name."""
    waiting = {name: dependencies(task) for name, task in sorted(tasks.items())}
    found: list[str] = []
    while waiting:
        name = next(name for name, needed in waiting.items() if not needed & waiting.keys())
        del waiting[name]
        found.append(name)
    return found


def _join(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name
