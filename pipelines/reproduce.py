"""Runs again what made a pushed version, in a scratch workspace, and compares.

    asked = recall(source, "digits@3")
    found = obstacles(asked, scratch)       # what is not as it was
    outcome = run(asked.experiment, scratch, Options(), progress)
    rows = compare(asked, view(scratch_source, outcome_run))

What was chosen by timing (precision, XLA, the candidate) is taken from the
record. With `train.deterministic` on the same kind of machine weights and
metrics must be identical; else accuracies may differ by what chance lets two
trainings differ by on so many test examples.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.example_gen import origins
from pipelines import config, fingerprint, inputs, remote
from pipelines.config import Experiment
from pipelines.errors import InputError, NotFoundError
from pipelines.evaluation import ACCURACY, CANDIDATE
from pipelines.lineage import query
from pipelines.lineage.compare import OVERALL
from pipelines.lineage.record import read_listed
from pipelines.lineage.source import Push, Source
from pipelines.lineage.view import RunView, view
from pipelines.located import located
from pipelines.workspace import Workspace

SIGMAS = 4.0
"""Standard errors that the accuracies of two equally good trainings may be apart."""

IDENTITY = "identity"


@dataclass(frozen=True)
class Recalled:
    """What the record says of a version.

    Attributes:
        push: the version.
        seen: the run that pushed it.
        experiment: its configuration, with the recorded choices in it.
        folder: where the command was given; paths in the configuration may start there.
    """

    push: Push
    seen: RunView
    experiment: Experiment
    folder: Path


@dataclass(frozen=True)
class Obstacle:
    """Something that is not as it was: `kind` is code, lock or data."""

    kind: str
    what: str
    before: str
    now: str


@dataclass(frozen=True)
class Row:
    """One comparison: values in words, and what is allowed; `same` is whether that holds."""

    what: str
    recorded: str
    again: str
    allowed: str
    same: bool


def recall(source: Source, name: str) -> Recalled:
    """Finds a version's run and configuration.

    Raises:
        NotFoundError: there is no such version, or its run is not recorded.
        ConfigError: the recorded configuration is not understood any more.
    """
    target = query.resolve(source, name)
    if target.kind != "version":
        raise NotFoundError(
            f"{name!r} is no pushed version", place=target.title, remedy="Name one, such as digits@1."
        )
    model, _, version = target.title.rpartition("@")
    push = query.find_push(source, model, version)
    seen = view(source, query.run_of(source, push))
    folder = Path(str(seen.run.details.get("folder") or Path.cwd()))
    return Recalled(push, seen, _experiment(seen), folder)


def _experiment(seen: RunView) -> Experiment:
    raw: dict[str, Any] = json.loads(json.dumps(seen.config))
    # The scratch workspace has a record of its own, and pushes nowhere else: not to the
    # places that get copies, and to no server.
    raw["metadata"] = None
    raw["push"].update(server=None, to=[])
    train, rewrite = raw["train"], raw["rewrite"]
    for key in ("precision", "xla"):
        chosen = seen.fact("Trainer", key)
        if chosen is not None and train[key] == "auto":
            train[key] = str(chosen)
    teacher = _teacher(seen)
    if teacher and train.get("distill"):
        # By its place: the scratch workspace knows no version of that name.
        train["distill"]["teacher"] = teacher["teacher"]
    chosen = seen.fact("Rewriter", "chosen")
    if chosen is not None:
        rewrite["fixed"] = str(chosen)
        rewrite["candidates"] = [] if chosen == IDENTITY else [str(chosen)]
    if raw["data"].get("path") and raw["data"].get("span") is None:
        raw["data"]["span"] = _span(seen)
    return config.from_mapping(raw)


def _teacher(seen: RunView) -> Mapping[str, str]:
    """Place and digest of the model that a distillation learned from; empty where there was none."""
    told = json.loads(str(seen.fact("Trainer", "custom_config") or "{}"))
    return told.get("train", {}).get("distill") or {}


def _span(seen: RunView) -> int | None:
    """The newest span that was read: meanwhile there may be newer ones."""
    request = json.loads(str(seen.fact("ExampleGen", "request") or "{}"))
    spans = [int(source.get("span", -1)) for source in request.get("sources", ())]
    newest = max(spans, default=-1)
    return newest if newest >= 0 else None


def obstacles(asked: Recalled, scratch: Workspace) -> list[Obstacle]:
    """What differs between then and now: packages, code node by node, input files.

    Raises:
        InputError: an input file is gone, so that nothing can be run at all.
    """
    found = list(_packages(asked.seen))
    if not found:
        # A node's fingerprint holds the packages too: it tells of code where those are the same.
        found.extend(_code(asked, scratch))
    return [*found, *_files(asked, scratch), *_changed_teacher(asked.seen)]


def _packages(seen: RunView) -> Iterator[Obstacle]:
    now = fingerprint.environment()
    for name in sorted({*seen.packages, *now}):
        before, version = seen.packages.get(name, ""), now.get(name, "")
        if before != version:
            yield Obstacle("lock", name, before or "not there", version or "not there")


def _code(asked: Recalled, scratch: Workspace) -> Iterator[Obstacle]:
    for node, now in _fingerprints(asked.experiment, scratch).items():
        before = asked.seen.fact(node, fingerprint.PROPERTY)
        if before is not None and before != now:
            yield Obstacle("code", node, str(before)[:12], now[:12])


def _fingerprints(experiment: Experiment, scratch: Workspace) -> Mapping[str, str]:
    from pipelines.create import create_pipeline

    pipeline = create_pipeline(located(experiment, scratch.fetched), scratch, enable_cache=False)
    return {
        node.id: node.exec_properties[fingerprint.PROPERTY]
        for node in pipeline.components
        if fingerprint.PROPERTY in node.exec_properties
    }


def _files(asked: Recalled, scratch: Workspace) -> Iterator[Obstacle]:
    """Input files whose content is another; of folders that stand for very many files, each of these."""
    gone = []
    recorded = _recorded_files(asked.seen)
    copies = _copies(asked, scratch) if any(map(remote.is_remote, recorded)) else {}
    for path, before in recorded.items():
        here = copies.get(path, Path(path))
        if not here.is_file():
            gone.append(path)
        elif (now := _digest(here)) != before:
            yield Obstacle("data", path, before[:12], now[:12])
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise InputError(
            f"An input file is gone: {gone[0]}{more}",
            place=asked.push.name,
            remedy="Put back what the version was trained on; headrace lineage names every file.",
        )


def _copies(asked: Recalled, scratch: Workspace) -> dict[str, Path]:
    """Address -> the copy of what is there now, of all that the experiment reads."""
    inputs.resolve(asked.experiment, scratch)
    return {origins.name(str(path)): path for path in scratch.fetched.glob("*/**/*") if path.is_file()}


def _changed_teacher(seen: RunView) -> Iterator[Obstacle]:
    recorded = _teacher(seen)
    path = Path(recorded.get("teacher", ""))
    if recorded and path.exists():  # else the run itself says that it is gone
        now = inputs.digest_of_tree(path)
        if now != recorded.get("teacher_digest"):
            yield Obstacle("data", str(path), recorded.get("teacher_digest", "")[:12], now[:12])


def _recorded_files(seen: RunView) -> dict[str, str]:
    single = {
        file.uri: str(file.properties["sha256"])
        for file in seen.input_files
        if int(file.properties.get("files", 1)) == 1
    }
    report = seen.output("ExampleGen", "report")
    listed = read_listed(Path(report.uri)) if report else []
    return {**single, **{row["path"]: row["sha256"] for row in listed}}


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def must_be_identical(asked: Recalled, again: RunView) -> bool:
    """Whether training was deterministic, and the machine is of the same kind."""
    same_device = asked.seen.surroundings.get("device") == again.surroundings.get("device")
    return asked.experiment.train.deterministic and same_device


def compare(asked: Recalled, again: RunView) -> list[Row]:
    """Data, weights, choice, and metrics of then and now."""
    exact = must_be_identical(asked, again)
    return [
        *_same(asked.seen, again, "ExampleGen", "data_digest", "input data"),
        *_counts(asked.seen, again),
        *_same(asked.seen, again, "Trainer", "weights_sha256", "trained weights", required=exact),
        *_same(asked.seen, again, "Rewriter", "chosen", "candidate"),
        *_training(asked.seen, again, exact=exact),
        *_accuracies(asked.seen, again, exact=exact),
    ]


def _same(
    first: RunView, second: RunView, node: str, key: str, what: str, *, required: bool = True
) -> Iterator[Row]:
    before, now = first.fact(node, key), second.fact(node, key)
    if before is None:
        return  # recorded by a version of the chain that did not know it
    same = before == now
    allowed = "identical" if required else "may differ"
    yield Row(what, str(before)[:16], str(now)[:16], allowed, same or not required)


def _counts(first: RunView, second: RunView) -> Iterator[Row]:
    before, now = (dict(run.summary.get("examples") or {}) for run in (first, second))
    yield Row("examples", _words(before), _words(now), "identical", before == now)


def _words(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _training(first: RunView, second: RunView, *, exact: bool) -> Iterator[Row]:
    before, now = (json.loads(str(run.fact("Trainer", "metrics") or "{}")) for run in (first, second))
    for name in sorted(before):
        same = before[name] == now.get(name)
        allowed = "identical" if exact else "may differ"
        yield Row(
            f"training {name}", _figure(before[name]), _figure(now.get(name)), allowed, same or not exact
        )


def _accuracies(first: RunView, second: RunView, *, exact: bool) -> Iterator[Row]:
    """Of the whole test split and each slice."""
    before, now = _slices(first), _slices(second)
    overall = first.summary.get("accuracy")
    if OVERALL not in before and overall is not None:
        # The evaluation's files were removed; the record has the one figure.
        before = {OVERALL: {ACCURACY: overall}}
    for name, values in before.items():
        if ACCURACY not in values:
            continue
        other = now.get(name, {})
        count = other.get("example_count", values.get("example_count", 0.0))
        bound = 0.0 if exact else allowed_difference(values[ACCURACY], count)
        value = other.get(ACCURACY)
        near = value is not None and abs(value - values[ACCURACY]) <= bound
        allowed = "identical" if exact else f"{bound:.4f} apart"
        yield Row(f"accuracy of {name}", _figure(values[ACCURACY]), _figure(value), allowed, near)


def _slices(run: RunView) -> dict[str, dict[str, float]]:
    artifact = run.output("Evaluator", "evaluation")
    path = Path(artifact.uri, "summary.json") if artifact else None
    if path is None or not path.exists():
        return {}
    slices: dict[str, dict[str, float]] = json.loads(path.read_text())["metrics"][CANDIDATE]
    return dict(sorted(slices.items(), key=lambda item: (item[0] != OVERALL, item[0])))


def allowed_difference(accuracy: float, examples: float) -> float:
    """How far apart accuracies of two equally good models may be on so many examples.

    `SIGMAS` standard errors of the difference of two shares; the share is taken
    by the rule of A. Agresti and B. Coull (1998), so that 1.0 does not forbid any mistake.
    """
    if examples < 1:
        return 1.0
    share = (accuracy * examples + 2) / (examples + 4)
    return min(1.0, SIGMAS * math.sqrt(2 * share * (1 - share) / examples))


def _figure(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "-"
