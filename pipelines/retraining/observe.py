"""What a scheduler knows when it decides: spans, rounds, the model in service, drift, outcomes.

state = observe(experiment, workspace, ledger, drift, now)
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from components import subprocesses
from components.data_gate import between
from components.serving_pusher import root as serving_root
from pipelines import config
from pipelines.config import Experiment
from pipelines.errors import HeadraceError, InputError, InterruptedRunError
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.lineage.source import Push
from pipelines.lineage.view import RunView, view
from pipelines.remote_failures import UnreachableError
from pipelines.retraining import feedback
from pipelines.retraining.ledger import Ledger, Record
from pipelines.retraining.part_names import part_name
from pipelines.retraining.policy import Serving, Span, State
from pipelines.retraining.present import Present
from pipelines.run import Options, Progress, run
from pipelines.workspace import Workspace

Drift = Callable[[Span, "RunView | None"], Sequence[str] | None]
"""(newest span, run of the version in service) -> what has moved too far, or None."""


Predictions = Callable[[Push, RunView], "Sequence[str] | None"]
"""(version in service, its run) -> how its predictions have moved, or None."""


def observe(
    experiment: Experiment,
    workspace: Workspace,
    ledger: Ledger,
    drift: Drift,
    predictions: Predictions,
    now: float,
    *,
    sets_up: bool = False,
) -> State:
    """Gathers what `policy.decide` goes by; reads statistics of a new span where drift is watched.

    With `sets_up`, retraining counts as set up from now on where it was not yet.
    """
    data = Present(experiment)
    present = data.spans
    push, seen = _in_service(workspace, experiment.model_name)
    live = experiment.retraining.live
    correct, outcomes = (
        feedback.recent(workspace, experiment.model_name, push.version, live.outcomes)
        if live is not None and push is not None
        else (0, 0)
    )
    trained_on = _trained_on(seen, data)
    began, older = ledger.set_up(now, _before_window(present, experiment.data.window), keep=sets_up)
    # What the model in service has seen is no news to it.
    watches_drift = experiment.retraining.on_drift and bool(present) and present[-1] not in trained_on
    return State(
        began=began,
        spans=present,
        window=experiment.data.window,
        rounds=[record.as_round() for record in ledger.records() if not mended(record, data)],
        failures=[record.as_round() for record in ledger.failures()],
        serving=Serving(push.version, push.at) if push else None,
        trained_on=trained_on,
        older=older,
        drift=drift(present[-1], seen) if watches_drift else None,
        predictions=predictions(push, seen) if push and seen else None,
        correct=correct,
        outcomes=outcomes,
        data=data.state() if _tells_by_files(experiment, data) else "",
    )


def _tells_by_files(experiment: Experiment, data: Present) -> bool:
    """Whether a cause is told from an earlier one by the files, for want of spans."""
    told = experiment.retraining
    causes = (told.max_age_days, told.live, told.predictions)
    return any(causes) and not data.has_spans and bool(data.files)


def _before_window(present: Sequence[Span], window: int) -> list[Span]:
    numbers = sorted({number for number, _ in present})[-window:]
    return [span for span in present if span[0] < numbers[0]]


def mended(record: Record, data: Present) -> bool:
    """Whether a round's data were bad and are others now, so that it counts for nothing."""
    if record.outcome != "bad_data" or not record.data:
        return False
    return data.state(record.blamed) != record.data


def _in_service(workspace: Workspace, model: str) -> tuple[Push | None, RunView | None]:
    """The version in service, and the run that made it."""
    if not workspace.database.is_there():
        return None, None
    number = serving_root.in_service(workspace.serving_root(model))
    if number is None:
        return None, None
    with record_of(workspace) as source, contextlib.suppress(HeadraceError):
        push = query.find_push(source, model, str(number))
        return push, view(source, query.run_of(source, push))
    return None, None


def _trained_on(seen: RunView | None, data: Present) -> frozenset[Span]:
    """Spans and versions of the files behind a run."""
    if seen is None or not data.spans:
        return frozenset()
    files = {item.path: (item.span, item.version) for item in data.files}
    found = set()
    for artifact in seen.input_files:
        path = artifact.uri
        while path and path not in files:
            path = path.rpartition("/")[0]
        if path:
            found.add(files[path])
    return frozenset(found)


class SpanDrift:
    """Distance of a span from the data behind the model in service.

    Each span is looked at once for each model: what was found is kept beside the
    rounds, since a scheduler that a cron job starts would else run that part of
    the chain at every look.

    Args:
        experiment: whose data it is.
        workspace: where its statistics are kept.
        progress: makes what is told of the run that takes them.
        looks_only: never to run anything; what was not looked at yet says nothing.
    """

    def __init__(
        self,
        experiment: Experiment,
        workspace: Workspace,
        progress: Callable[[], Progress],
        *,
        looks_only: bool = False,
    ) -> None:
        self._experiment = experiment
        self._workspace = workspace
        self._progress = progress
        self._looks_only = looks_only
        self._path = workspace.root / "retraining" / experiment.name / "drift.json"

    def __call__(self, newest: Span, serving: RunView | None) -> Sequence[str] | None:
        if serving is None:
            return None
        limits = self._experiment.retraining.drift.model_dump(mode="json")
        key = json.dumps([list(newest), serving.run.run_id, limits], sort_keys=True)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self._path.read_text())
            if kept["of"] == key:
                return list(kept["moved"])
        found = None if self._looks_only else self._measure(newest, serving)
        if found is not None:
            self._keep(json.dumps({"of": key, "moved": list(found)}))
        return found

    def _keep(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_name(f".{self._path.name}.part")
        scratch.write_text(text)
        scratch.replace(self._path)

    def _measure(self, newest: Span, serving: RunView) -> Sequence[str] | None:
        before = serving.output("StatisticsGen", "statistics")
        schema = serving.output("SchemaGen", "schema")
        if before is None or schema is None:
            return None
        raw = self._experiment.model_dump(mode="json")
        raw["name"] = part_name(self._experiment.name, "span")
        raw["data"] = {**raw["data"], "span": newest[0], "window": 1}
        try:
            outcome = run(
                config.from_mapping(raw), self._workspace, Options(to_node="StatisticsGen"), self._progress()
            )
        except InterruptedRunError:
            raise
        except UnreachableError:
            return None
        except InputError as error:
            # Bad data is a round's to name; where new spans are no cause, drift has to lead to one.
            known = self._experiment.retraining.on_new_span
            return None if known else [f"it cannot be looked at: {error.headline}"]
        except HeadraceError:
            return None
        with record_of(self._workspace) as source:
            seen = view(source, query.find_run(source, outcome.run_id))
        now = seen.output("StatisticsGen", "statistics")
        return _moved(now.uri, before.uri, schema.uri, self._experiment) if now else None


def _moved(now: str, before: str, schema: str, experiment: Experiment) -> list[str] | None:
    limits = experiment.retraining.drift
    try:
        return between.moved(now, before, schema, limits.default, limits.features)
    except subprocesses.WorkerFailed:
        return None


def ignore_drift(newest: Span, serving: Any) -> None:
    """For schedules that do not watch it."""


def ignore_predictions(push: Push, run: RunView) -> None:
    """For schedules that do not watch them."""
