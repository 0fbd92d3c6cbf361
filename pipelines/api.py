"""Headrace from Python: a notebook or a script.

    from pipelines import api as headrace

    project = headrace.Project("workspace")
    run = project.run("digits", {"train.epochs": 5})
    run.metrics                         # {"accuracy": 0.98, ...}
    run.nodes                           # a pandas.DataFrame
    run.examples("test").head()
    run.model.predict(images)           # the servable, as it is served
    project.compare(run, "latest")
    project.lineage("digits@1").edges

Raises the errors that the command line prints (`pipelines.errors.HeadraceError`).
A run goes on in a process of its own, so that a notebook's TensorFlow, threads
and memory stay out of it.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modules import contract
from pipelines import config, errors
from pipelines.lineage import compare, models, query
from pipelines.lineage.open import record_of
from pipelines.lineage.view import RunView, view
from pipelines.workspace import Workspace, default_root

if TYPE_CHECKING:
    import pandas as pd

_SPLITS = ("train", "validation", "test")


class Project:
    """A workspace: its runs, models and lineage.

    Args:
        root: the workspace's folder; `workspace`, or what HEADRACE_WORKSPACE says, by default.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        self._root = Path(root or default_root()).expanduser().absolute()

    def run(
        self,
        experiment: str | Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        *,
        runner: str = "local",
        progress: bool = True,
    ) -> Run:
        """Runs an experiment to its end.

        Args:
            experiment: a name, a YAML file, or the keys and values of one.
            settings: dotted key -> value, as `--set` takes them.
            runner: local or beam.
            progress: whether lines about the nodes are printed.

        Raises:
            HeadraceError: a mistake in what was given, a node that failed, or an interruption.
        """
        overrides = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
        loaded = (
            config.load(experiment, overrides)
            if isinstance(experiment, str)
            else config.from_mapping(experiment, overrides)
        )
        return self.get(_in_child(loaded, self._root, runner, progress))

    def get(self, run: str = "latest") -> Run:
        """A run by its id, a unique prefix of it, or `latest`.

        Raises:
            NotFoundError: there is none.
            WorkspaceError: there is no workspace.
        """
        with record_of(self._workspace) as source:
            return Run(view(source, query.find_run(source, run)))

    def runs(self, limit: int = 50) -> pd.DataFrame:
        """The runs, newest first: run, experiment, state, began, seconds, accuracy, version."""
        import pandas as pd

        with record_of(self._workspace) as source:
            records = [source.run(run_id) for run_id in source.run_ids(limit=limit)]
        rows = [
            {
                "run": record.run_id,
                "experiment": record.experiment,
                "state": record.state,
                "began": pd.Timestamp(record.started, unit="s", tz="UTC"),
                "seconds": record.ended - record.started if record.ended else None,
                "accuracy": (record.details.get("summary") or {}).get("accuracy"),
                "version": (record.details.get("summary") or {}).get("pushed_version") or None,
            }
            for record in records
            if record is not None
        ]
        columns = ["run", "experiment", "state", "began", "seconds", "accuracy", "version"]
        return pd.DataFrame(rows, columns=columns)

    def models(self, model: str | None = None) -> pd.DataFrame:
        """Pushed versions, newest first: model, version, state, accuracy, bytes, run."""
        import pandas as pd

        with record_of(self._workspace) as source:
            found = models.versions(source, model)
        rows = [
            {
                "model": item.push.model,
                "version": item.push.version,
                "state": item.state,
                "accuracy": item.accuracy,
                "bytes": item.bytes,
                "run": item.run_id,
            }
            for item in found
        ]
        return pd.DataFrame(rows, columns=["model", "version", "state", "accuracy", "bytes", "run"])

    def compare(self, first: str | Run, second: str | Run) -> pd.DataFrame:
        """What differs between two runs: section, what, before, after; causes before effects."""
        import pandas as pd

        with record_of(self._workspace) as source:
            seen = [view(source, query.find_run(source, _id(run))) for run in (first, second)]
        rows = [asdict(item) for item in compare.compare(*seen)]
        return pd.DataFrame(rows, columns=["section", "what", "before", "after"])

    def lineage(self, target: str, *, down: bool = False, depth: int | None = None) -> Graph:
        """What made a target, or with `down` what came of it.

        Args:
            target: `model@version`, a run, `artifact:ID`, or an input file.
            down: follow outputs instead of inputs.
            depth: at most so many executions in a row.

        Raises:
            NotFoundError: nothing has that name.
        """
        with record_of(self._workspace) as source:
            found = query.resolve(source, target)
            return Graph(query.follow(source, found, "down" if down else "up", depth))

    @property
    def _workspace(self) -> Workspace:
        return Workspace.open(self._root)


class Run:
    """A run as it was recorded, and what it made."""

    def __init__(self, seen: RunView) -> None:
        self._view = seen

    @property
    def id(self) -> str:
        """Its id."""
        return self._view.run.run_id

    @property
    def state(self) -> str:
        """complete, refused, failed, interrupted or running."""
        return self._view.run.state

    @property
    def settings(self) -> Mapping[str, Any]:
        """The whole configuration, defaults included."""
        return self._view.config

    @property
    def summary(self) -> Mapping[str, Any]:
        """What came of it, as `headrace show --output json` has it."""
        return self._view.summary

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metric -> value over the whole test split; empty where it was not evaluated."""
        found = self._json("Evaluator", "evaluation", "summary.json")
        return dict(found["metrics"]["candidate"]["overall"]) if found else {}

    @cached_property
    def slices(self) -> pd.DataFrame:
        """A row per slice of the test split, a column per metric."""
        import pandas as pd

        found = self._json("Evaluator", "evaluation", "summary.json")
        return pd.DataFrame.from_dict(found["metrics"]["candidate"] if found else {}, orient="index")

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """A row per node: state, seconds, cpu_s, peak_memory_mb."""
        import pandas as pd

        keys = {"seconds": "wall_s", "cpu_s": "cpu_s", "peak_memory_mb": "peak_memory_mb"}
        rows = {
            name: {
                "state": node.execution.state,
                **{column: node.execution.properties.get(key) for column, key in keys.items()},
            }
            for name, node in self._view.nodes.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["state", *keys])

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """A row per rewritten candidate, with its figures and verdict."""
        import pandas as pd

        found = self._json("Rewriter", "report", "candidates.json") or {"candidates": []}
        rows = [{**(item.pop("figures", None) or {}), **item} for item in map(dict, found["candidates"])]
        return pd.DataFrame(rows).set_index("name") if rows else pd.DataFrame()

    @cached_property
    def history(self) -> pd.DataFrame:
        """A row per epoch of the training."""
        import pandas as pd

        found = self._json("Trainer", "model_run", contract.HISTORY_FILE) or {"history": {}}
        frame = pd.DataFrame(found["history"])
        frame.index += 1
        return frame.rename_axis("epoch")

    def artifact(self, node: str, output: str) -> Path:
        """The folder of a node's output.

        Raises:
            NotFoundError: the run has no such node or output.
        """
        if node not in self._view.nodes:
            raise errors.NotFoundError(
                f"The run has no node {node!r}",
                place=self.id,
                remedy=errors.nearest(node, self._view.nodes),
            )
        found = self._view.output(node, output)
        if found is None:
            known = self._view.nodes[node].outputs
            raise errors.NotFoundError(
                f"{node} has no output {output!r}", place=self.id, remedy=errors.nearest(output, known)
            )
        return Path(found.uri)

    def examples(self, split: str = "train", limit: int = 1000) -> pd.DataFrame:
        """Raw examples of a split, a column per feature; single values are unpacked.

        Raises:
            NotFoundError: there is no such split.
        """
        import pandas as pd

        from components.serving.examples import read_split

        if split not in _SPLITS:
            raise errors.NotFoundError(
                f"There is no split {split!r}", place=self.id, remedy=errors.nearest(split, _SPLITS)
            )
        records = read_split(str(self.artifact("ExampleGen", "examples")), split, limit)
        return pd.DataFrame([_features(record) for record in records])

    @cached_property
    def model(self) -> Model:
        """What was chosen to be served, loaded as a server would."""
        return Model(self.artifact("Rewriter", "servable"))

    def _json(self, node: str, output: str, name: str) -> Any:
        found = self._view.output(node, output) if node in self._view.nodes else None
        path = Path(found.uri, name) if found else None
        return json.loads(path.read_text()) if path and path.exists() else None

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.state})"


class Model:
    """A servable behind one call, whatever its format."""

    def __init__(self, folder: Path) -> None:
        from components.serving import runtimes

        self._runtime = runtimes.load(str(folder))

    @property
    def class_names(self) -> Sequence[str]:
        """In the order of the scores."""
        return self._runtime.servable.class_names

    def scores(self, records: Sequence[bytes]) -> npt.NDArray[np.float32]:
        """Scores (B, C) of B serialized tf.train.Examples; probabilities in [0, 1]."""
        return np.asarray(self._runtime.predict(list(records)).scores, np.float32)

    def predict(self, records: Sequence[bytes]) -> list[str]:
        """The likeliest class of each serialized tf.train.Example."""
        return [self.class_names[index] for index in self.scores(records).argmax(axis=1)]


@dataclass(frozen=True)
class Graph:
    """A lineage: `artifacts`, `executions` and `edges` as data frames."""

    _lineage: query.Lineage

    @cached_property
    def artifacts(self) -> pd.DataFrame:
        """id, type, uri."""
        import pandas as pd

        found = self._lineage.artifacts.values()
        rows = [{"id": item.id, "type": item.type, "uri": item.uri} for item in found]
        return pd.DataFrame(rows, columns=["id", "type", "uri"])

    @cached_property
    def executions(self) -> pd.DataFrame:
        """id, node, run, state."""
        import pandas as pd

        found = self._lineage.executions.values()
        rows = [{"id": item.id, "node": item.node, "run": item.run_id, "state": item.state} for item in found]
        return pd.DataFrame(rows, columns=["id", "node", "run", "state"])

    @cached_property
    def edges(self) -> pd.DataFrame:
        """execution, artifact, key, and whether the execution read or wrote it."""
        import pandas as pd

        rows = [edge._asdict() for edge in self._lineage.edges]
        return pd.DataFrame(rows)


def _id(run: str | Run) -> str:
    return run.id if isinstance(run, Run) else run


def _features(record: bytes) -> dict[str, Any]:
    """Feature -> its value, or its list of values."""
    import tensorflow as tf

    found = {}
    for name, feature in tf.train.Example.FromString(record).features.feature.items():
        values = list(getattr(feature, feature.WhichOneof("kind") or "bytes_list").value)
        found[name] = values[0] if len(values) == 1 else values or None
    return found


def _in_child(experiment: config.Experiment, root: Path, runner: str, progress: bool) -> str:
    """Runs in a fresh process, and raises here what was raised there; returns the run's id."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    arguments = (theirs, config.to_json(experiment), str(root), runner, progress)
    child = context.Process(target=_child, args=arguments)
    child.start()
    theirs.close()
    try:
        kind, said = ours.recv()
    except EOFError:
        child.join()
        raise errors.NodeFailedError(
            f"The run's process ended with exit code {child.exitcode}", place=str(root / "runs")
        ) from None
    except KeyboardInterrupt:
        child.join()
        raise
    child.join()
    if kind == "run":
        return str(said)
    raise getattr(errors, said.pop("class"), errors.HeadraceError)(said.pop("headline"), **said)


def _child(connection: Connection, settings: str, root: str, runner: str, progress: bool) -> None:
    from pipelines.cli.progress import ConsoleProgress
    from pipelines.cli.screen import output_apart
    from pipelines.run import Options, run

    experiment = config.from_mapping(json.loads(settings))
    try:
        workspace = Workspace.open(root, create=True)
        with output_apart(workspace.runs / "headrace.log") as console:
            console.quiet = not progress
            shown = ConsoleProgress(console)
            try:
                outcome = run(experiment, workspace, Options(runner=runner), shown)  # type: ignore[arg-type]
            finally:
                shown.close()
        connection.send(("run", outcome.run_id))
    except errors.HeadraceError as error:
        parts = {"headline": error.headline, "place": error.place, "remedy": error.remedy}
        connection.send(("error", {"class": type(error).__name__, **parts}))
    connection.close()
    sys.stdout.flush()
