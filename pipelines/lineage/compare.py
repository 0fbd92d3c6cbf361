"""What differs between two runs: causes before effects, so that the most telling comes first.

for difference in compare(view_a, view_b): print(difference.what, difference.before, difference.after)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.evaluation import ACCURACY, CANDIDATE
from pipelines.lineage.view import RunView

OVERALL = "overall"
MANY = 8
"""More lines of one kind than this are counted instead of listed."""


@dataclass(frozen=True)
class Difference:
    """One thing that differs.

    Attributes:
        section: data, schema, code, configuration, versions, environment,
            chosen candidate, metrics or outcome.
        what: its name.
        before: in the first run; empty where it is not there.
        after: in the second.
    """

    section: str
    what: str
    before: str
    after: str


def compare(first: RunView, second: RunView) -> list[Difference]:
    """All differences but times and costs, section by section."""
    return [
        Difference(section, what, before, after)
        for section, find in _SECTIONS.items()
        for what, before, after in find(first, second)
    ]


Lines = Iterator[tuple[str, str, str]]


def _changed(first: Mapping[str, Any], second: Mapping[str, Any]) -> Lines:
    for key in sorted(first.keys() | second.keys()):
        before, after = first.get(key), second.get(key)
        if before != after:
            yield key, _text(before), _text(after)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _data(first: RunView, second: RunView) -> Lines:
    files = [
        {file.uri: str(file.properties.get("sha256", ""))[:12] for file in run.input_files}
        for run in (first, second)
    ]
    lines = list(_changed(*files))
    if len(lines) > MANY:
        yield _counted(lines)
    else:
        yield from lines
    digests = [run.fact("ExampleGen", "data_digest") for run in (first, second)]
    if not lines and digests[0] != digests[1]:
        yield "digest of all input", _text(digests[0])[:12], _text(digests[1])[:12]
    yield from _changed(
        {f"{split} examples": n for split, n in (first.summary.get("examples") or {}).items()},
        {f"{split} examples": n for split, n in (second.summary.get("examples") or {}).items()},
    )


def _counted(lines: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    removed = sum(1 for _, _, after in lines if not after)
    added = sum(1 for _, before, _ in lines if not before)
    changed = len(lines) - added - removed
    return "input files", "", f"{added} added, {removed} removed, {changed} with other content"


def _schema(first: RunView, second: RunView) -> Lines:
    yield from _changed(*(_features(run) for run in (first, second)))


def _features(run: RunView) -> dict[str, str]:
    """Feature -> its definition in one line; empty where the schema's file is gone."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    artifact = run.output("SchemaGen", "schema")
    path = Path(artifact.uri, "schema.pbtxt") if artifact else None
    if path is None or not path.exists():
        return {}
    schema = text_format.Parse(path.read_text(), schema_pb2.Schema())
    return {f"feature {f.name}": text_format.MessageToString(f, as_one_line=True) for f in schema.feature}


def _code(first: RunView, second: RunView) -> Lines:
    for node in dict.fromkeys([*first.nodes, *second.nodes]):
        prints = [_text(run.fact(node, "code_fingerprint"))[:12] for run in (first, second)]
        if node in first.nodes and node in second.nodes and prints[0] != prints[1]:
            yield f"code of {node}", prints[0], prints[1]
    yield from _changed(*(_commit(run) for run in (first, second)))


def _commit(run: RunView) -> dict[str, Any]:
    found = run.surroundings
    if "git_commit" not in found:
        return {}
    dirty = " with uncommitted changes" if found.get("git_dirty") else ""
    return {"commit": f"{str(found['git_commit'])[:12]}{dirty}"}


def _configuration(first: RunView, second: RunView) -> Lines:
    told = ("description", "needs", "takes")
    for line in _changed(flat(first.config), flat(second.config)):
        if line[0] not in told:
            yield line


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"train": {"seed": 1}}` as `{"train.seed": 1}`."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found


def _versions(first: RunView, second: RunView) -> Lines:
    yield from _changed(first.packages, second.packages)


def _environment(first: RunView, second: RunView) -> Lines:
    keys = ("device", "host", "user")
    yield from _changed(
        *({key: run.surroundings[key] for key in keys if key in run.surroundings} for run in (first, second))
    )
    yield from _changed(
        {"runner": first.run.details.get("runner")}, {"runner": second.run.details.get("runner")}
    )


def _chosen(first: RunView, second: RunView) -> Lines:
    if first.summary.get("chosen") != second.summary.get("chosen"):
        yield from _changed(*({"candidate": run.summary.get("chosen") or None} for run in (first, second)))
        yield from _changed(*({"because": run.summary.get("reason") or None} for run in (first, second)))


def _metrics(first: RunView, second: RunView) -> Lines:
    yield from _changed(*({**_tested(run), **_trained(run)} for run in (first, second)))
    before, after = _slices(first), _slices(second)
    both = sorted(before.keys() & after.keys(), key=lambda name: (-abs(after[name] - before[name]), name))
    moved = [name for name in both if before[name] != after[name]]
    for name in moved[:MANY]:
        yield f"accuracy of {name}", _text(before[name]), _text(after[name])


def _slices(run: RunView) -> dict[str, float]:
    """Slice -> accuracy on the test split; empty where the evaluation's files are gone."""
    artifact = run.output("Evaluator", "evaluation")
    path = Path(artifact.uri, "summary.json") if artifact else None
    if path is None or not path.exists():
        return {}
    slices = json.loads(path.read_text())["metrics"][CANDIDATE]
    return {
        name: values[ACCURACY] for name, values in slices.items() if name != OVERALL and ACCURACY in values
    }


_TESTED = ("accuracy", "baseline_accuracy", "error", "baseline_error")


def _tested(run: RunView) -> dict[str, Any]:
    found = {key: run.summary.get(key) for key in _TESTED}
    return {key: value for key, value in found.items() if value is not None}


def _trained(run: RunView) -> dict[str, Any]:
    metrics = json.loads(str(run.fact("Trainer", "metrics") or "{}"))
    return {f"training {key}": value for key, value in metrics.items()}


def _outcome(first: RunView, second: RunView) -> Lines:
    told = [
        {
            "state": run.run.state,
            "error": (run.run.details.get("error") or {}).get("headline"),
            "refused": run.summary.get("refusal") or None,
            "pushed version": run.summary.get("pushed_version") or None,
        }
        for run in (first, second)
    ]
    yield from _changed(*told)


_SECTIONS: Mapping[str, Callable[[RunView, RunView], Lines]] = {
    "data": _data,
    "schema": _schema,
    "code": _code,
    "configuration": _configuration,
    "versions": _versions,
    "environment": _environment,
    "chosen candidate": _chosen,
    "metrics": _metrics,
    "outcome": _outcome,
}
