"""Makes a metadata store of many recorded runs, with ML Metadata's own API. Seeded; nothing is executed.

    Writer(Database(path), seed=7).write(10_000)

Each run has ten executions, as the chain leaves them: a fifth of the runs read
new files, a third train anew on the same data, and the rest take everything
from the cache. One model in five is refused.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.lineage.database import Database

EXPERIMENTS = ("digits", "photos", "reviews", "taxi", "wine")
UNCHANGING = "wine"
"""Its data never changes: each of its files is behind a fifth of all runs."""

FILES = 4
BEGAN_S = 1_700_000_000
EVERY_S = 600

CHAIN: dict[str, tuple[Sequence[tuple[str, str, str]], dict[str, str]]] = {
    # node: ((input key, node that made it, its output key), ...), {output key: artifact type}
    "ExampleGen": ((), {"examples": "Examples", "report": "IngestionReport"}),
    "StatisticsGen": ((("examples", "ExampleGen", "examples"),), {"statistics": "ExampleStatistics"}),
    "SchemaGen": ((("statistics", "StatisticsGen", "statistics"),), {"schema": "Schema"}),
    "ExampleValidator": (
        (("statistics", "StatisticsGen", "statistics"), ("schema", "SchemaGen", "schema")),
        {"anomalies": "ExampleAnomalies"},
    ),
    "Transform": (
        (("examples", "ExampleGen", "examples"), ("schema", "SchemaGen", "schema")),
        {"transform_graph": "TransformGraph", "transformed_examples": "Examples"},
    ),
    "Trainer": (
        (
            ("examples", "Transform", "transformed_examples"),
            ("transform_graph", "Transform", "transform_graph"),
            ("schema", "SchemaGen", "schema"),
        ),
        {"model": "Model", "model_run": "ModelRun"},
    ),
    "Rewriter": (
        (("model", "Trainer", "model"), ("examples", "ExampleGen", "examples")),
        {"servable": "Model", "report": "RewriteReport"},
    ),
    "Evaluator": (
        (("model", "Rewriter", "servable"), ("examples", "ExampleGen", "examples")),
        {"evaluation": "ModelEvaluation", "blessing": "ModelBlessing"},
    ),
    "InfraValidator": (
        (("model", "Rewriter", "servable"), ("examples", "ExampleGen", "examples")),
        {"blessing": "InfraBlessing"},
    ),
    "Pusher": (
        (
            ("model", "Rewriter", "servable"),
            ("model_blessing", "Evaluator", "blessing"),
            ("infra_blessing", "InfraValidator", "blessing"),
        ),
        {"pushed_model": "PushedModel"},
    ),
}
DATA_NODES = ("ExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator", "Transform")
COMPLETE, CACHED = pb.Execution.COMPLETE, pb.Execution.CACHED


@dataclass
class _State:
    """What an experiment has so far: (node, output key) -> artifact id."""

    outputs: dict[tuple[str, str], int] = field(default_factory=dict)
    versions: int = 0
    data: int = 0
    baseline: int = 0


_Reference = tuple[int | None, int | None]
"""An artifact of the subgraph by its index, or one that is stored by its id."""


@dataclass
class _Subgraph:
    """What goes to the store in one transaction."""

    executions: list[Any] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    artifacts: list[Any] = field(default_factory=list)
    edges: list[tuple[int, int | None, Any]] = field(default_factory=list)
    made: dict[tuple[str, str], _Reference] = field(default_factory=dict)

    def new(self, message: Any) -> _Reference:
        self.artifacts.append(message)
        return len(self.artifacts) - 1, None

    def link(self, execution: int, artifact: _Reference, key: str, kind: int) -> None:
        index, number = artifact
        path = pb.Event.Path(steps=[pb.Event.Path.Step(key=key)])
        self.edges.append((execution, index, pb.Event(artifact_id=number, type=kind, path=path)))


class Writer:
    """Writes runs to a store."""

    def __init__(self, database: Database, seed: int = 7) -> None:
        self._store = metadata_store.MetadataStore(database.config())
        self._random = random.Random(seed)
        self._states = {name: _State() for name in EXPERIMENTS}
        self._types: dict[str, int] = {}
        self._contexts: dict[str, int] = {}
        self._count = 0

    def write(self, runs: int) -> list[str]:
        """Writes so many runs, ten minutes apart; returns their ids."""
        return [self._run(EXPERIMENTS[number % len(EXPERIMENTS)]) for number in range(runs)]

    def _run(self, experiment: str) -> str:
        began = BEGAN_S + self._count * EVERY_S
        run_id = f"{experiment}-{self._count:06d}-{self._random.randrange(1 << 16):04x}"
        state = self._states[experiment]
        fresh = self._fresh_nodes(state, changes=experiment != UNCHANGING)
        self._store.put_contexts([self._run_context(run_id, experiment, began)])
        graph = _Subgraph()
        for position, node in enumerate(CHAIN):
            self._node(graph, experiment, state, node, node in fresh, began + position)
        self._put(graph, run_id, experiment, state)
        self._count += 1
        return run_id

    def _fresh_nodes(self, state: _State, *, changes: bool) -> Sequence[str]:
        draw = self._random.random()
        if not state.outputs or (changes and draw < 0.2):
            state.data += 1
            return tuple(CHAIN)
        return [node for node in CHAIN if node not in DATA_NODES] if draw < 0.53 else ()

    def _node(
        self, graph: _Subgraph, experiment: str, state: _State, node: str, fresh: bool, at: int
    ) -> None:
        inputs, outputs = CHAIN[node]
        number = len(graph.executions)
        graph.executions.append(self._execution(node, fresh, at))
        graph.nodes.append(node)
        if node == "ExampleGen" and fresh:
            for artifact in self._files(experiment, state.data):
                graph.link(number, graph.new(artifact), "files", pb.Event.INPUT)
        for key, maker, output in inputs:
            graph.link(number, graph.made[maker, output], key, pb.Event.INPUT)
        if node == "Evaluator" and fresh and state.baseline:
            graph.link(number, (None, state.baseline), "baseline_model", pb.Event.INPUT)
        for key, kind in outputs.items():
            graph.made[node, key] = (
                graph.new(self._output(experiment, state, node, key, kind, at))
                if fresh
                else (None, state.outputs[node, key])
            )
            graph.link(number, graph.made[node, key], key, pb.Event.OUTPUT)

    def _execution(self, node: str, fresh: bool, at: int) -> Any:
        execution = pb.Execution(
            type_id=self._type(pb.ExecutionType, f"components.{node}"),
            last_known_state=COMPLETE if fresh else CACHED,
        )
        _set(execution, {"wall_s": self._random.uniform(0.1, 60), "user": "bench", "host": "bench"})
        return execution

    def _files(self, experiment: str, data: int) -> Iterator[Any]:
        for file in range(FILES):
            artifact = pb.Artifact(
                type_id=self._type(pb.ArtifactType, "InputFile"),
                uri=f"/data/{experiment}/{data}/part-{file}.csv",
            )
            digest = f"{self._random.getrandbits(256):064x}"
            _set(artifact, {"sha256": digest, "bytes": 1 << 20, "files": 1, "records": 1000})
            yield artifact

    def _output(self, experiment: str, state: _State, node: str, key: str, kind: str, at: int) -> Any:
        artifact = pb.Artifact(
            type_id=self._type(pb.ArtifactType, kind), uri=f"/w/artifacts/{experiment}/{node}/{key}/{at}"
        )
        _set(artifact, {"tfx_version": "1.21.0", "name": f"{node}.{key}"})
        if key == "pushed_model":
            pushed = self._random.random() < 0.8
            state.versions += pushed
            version = str(state.versions)
            _set(artifact, {"pushed": int(pushed)})
            if pushed:
                destination = f"/w/serving/{experiment}/{version}"
                _set(artifact, {"pushed_version": version, "pushed_destination": destination})
        return artifact

    def _put(self, graph: _Subgraph, run_id: str, experiment: str, state: _State) -> None:
        pipeline = pb.Context(type_id=self._type(pb.ContextType, "pipeline"), name=experiment)
        run = pb.Context(type_id=self._type(pb.ContextType, "pipeline_run"), name=run_id)
        executions, artifacts, _ = self._store.put_lineage_subgraph(
            graph.executions, graph.artifacts, [pipeline, run], graph.edges, True
        )
        self._store.put_attributions_and_associations(
            [],
            [
                pb.Association(context_id=self._node_context(experiment, node), execution_id=execution)
                for node, execution in zip(graph.nodes, executions, strict=True)
            ],
        )
        for key, (index, number) in graph.made.items():
            state.outputs[key] = number if index is None else artifacts[index]
        state.baseline = state.outputs["Rewriter", "servable"]

    def _node_context(self, experiment: str, node: str) -> int:
        name = f"{experiment}.{node}"
        if name not in self._contexts:
            context = pb.Context(type_id=self._type(pb.ContextType, "node"), name=name)
            self._contexts[name] = self._store.put_contexts([context])[0]
        return self._contexts[name]

    def _run_context(self, run_id: str, experiment: str, began: int) -> Any:
        context = pb.Context(type_id=self._type(pb.ContextType, "HeadraceRun"), name=run_id)
        details = json.dumps({"config": "{}", "packages": {}})
        _set(context, {"experiment": experiment, "state": "complete", "started": float(began)})
        _set(context, {"ended": began + 60.0, "details": details})
        return context

    def _type(self, kind: Any, name: str) -> int:
        if name not in self._types:
            put = {
                pb.ArtifactType: self._store.put_artifact_type,
                pb.ExecutionType: self._store.put_execution_type,
                pb.ContextType: self._store.put_context_type,
            }[kind]
            self._types[name] = put(kind(name=name))
        return self._types[name]


def _set(message: Any, properties: dict[str, str | int | float]) -> None:
    for key, value in properties.items():
        target = message.custom_properties[key]
        name = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
        setattr(target, name, value)
