"""What the record knows of a pushed version, read once for a card or an export.

found = known(source, push)
found.slices["overall"]["accuracy"], found.servable["class_names"]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.serving.servable import MANIFEST
from pipelines.evaluation import BASELINE, CANDIDATE
from pipelines.lineage import models, query
from pipelines.lineage.source import Push, Source
from pipelines.lineage.view import RunView, view

OVERALL = "overall"


@dataclass(frozen=True)
class Known:
    """A version with what was recorded on its way.

    Attributes:
        push: when and where it was pushed.
        view: the run that pushed it.
        baseline: name of the version it was compared with, or empty.
        servable: as `servable.json` says how it is called; empty where that is gone.
        slices: slice -> metric -> value on the test split; empty where that is gone.
        before: the same of the baseline.
        counts: split -> label -> examples.
    """

    push: Push
    view: RunView
    baseline: str
    servable: Mapping[str, Any]
    slices: Mapping[str, Mapping[str, float]]
    before: Mapping[str, Mapping[str, float]]
    counts: Mapping[str, Mapping[str, int]]

    @property
    def words(self) -> Mapping[str, Any]:
        """The experiment's section `card`; empty in runs from before there was one."""
        return self.view.config.get("card") or {}

    @property
    def family(self) -> str:
        """image, text or tabular."""
        return str(self.view.config.get("model", {}).get("family", ""))

    @property
    def chosen(self) -> Mapping[str, Any]:
        """The row of the candidate that was pushed; empty where none was recorded."""
        name = self.view.summary.get("chosen")
        rows = self.view.summary.get("candidates") or ()
        return next((row for row in rows if row["name"] == name), {})


def known(source: Source, push: Push) -> Known:
    """Reads the record and the artifacts it names.

    Raises:
        NotFoundError: the run that pushed the version is not recorded.
    """
    seen = view(source, query.run_of(source, push))
    evaluation = (_json(seen, "Evaluator", "evaluation", "summary.json") or {}).get("metrics", {})
    return Known(
        push=push,
        view=seen,
        baseline=models.baseline_of(source, seen),
        servable=_json(seen, "Rewriter", "servable", MANIFEST) or {},
        slices=evaluation.get(CANDIDATE, {}),
        before=evaluation.get(BASELINE, {}),
        counts=(_json(seen, "ExampleGen", "report", "report.json") or {}).get("counts", {}),
    )


def _json(seen: RunView, node: str, key: str, name: str) -> dict[str, Any] | None:
    artifact = seen.output(node, key)
    path = Path(artifact.uri, name) if artifact else None
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path and path.exists() else None
