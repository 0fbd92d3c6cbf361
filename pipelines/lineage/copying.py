"""Copies a record into a SQLite file, so that looking can leave no trace in it.

    copy_to_file(workspace.database, scratch / "metadata.db")

A record in a file is copied as a file. One on MySQL, MariaDB or PostgreSQL is
read through ML Metadata's API and written with the ids it has there: its
tables are filled with what has an id, ML Metadata itself adds the properties.
Not copied, since nothing that looks at a cache reads it: which type and which
context is whose parent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines import backups
from pipelines.lineage.database import Database, connected

_CHUNK = 100
"""Executions that ML Metadata takes as the start of one look at a graph."""

_ARTIFACT_TYPE, _EXECUTION_TYPE, _CONTEXT_TYPE = 1, 0, 2
_EDGES = ("events", "associations", "attributions")


@dataclass
class _Record:
    """All of a record, as ML Metadata's messages."""

    types: dict[int, list[Any]] = field(default_factory=dict)
    artifacts: list[Any] = field(default_factory=list)
    executions: list[Any] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    associations: set[tuple[int, int]] = field(default_factory=set)
    attributions: set[tuple[int, int]] = field(default_factory=set)


def copy_to_file(database: Database, target: Path) -> None:
    """Copies a record; of one that is not there yet nothing.

    Raises:
        WorkspaceError: the database cannot be reached.
    """
    if not database.is_file:
        with database.exclusive(), connected(database) as store:
            record = _read(store)
        _write(record, Database(target))
    elif database.path.exists():
        backups.copy(database.path, target)


def _read(store: Any) -> _Record:
    found = _Record(
        types={
            _ARTIFACT_TYPE: store.get_artifact_types(),
            _EXECUTION_TYPE: store.get_execution_types(),
            _CONTEXT_TYPE: store.get_context_types(),
        },
        artifacts=store.get_artifacts(),
        executions=store.get_executions(),
        contexts=store.get_contexts(),
    )
    for graph in _edges(store, [item.id for item in found.executions]):
        found.events += graph.events
        found.associations |= {(item.context_id, item.execution_id) for item in graph.associations}
        found.attributions |= {(item.context_id, item.artifact_id) for item in graph.attributions}
    return found


def _edges(store: Any, executions: Sequence[int]) -> Iterator[Any]:
    from ml_metadata.proto import metadata_store_pb2 as pb

    for begin in range(0, len(executions), _CHUNK):
        numbers = executions[begin : begin + _CHUNK]
        asked = pb.LineageSubgraphQueryOptions(max_num_hops=1)
        asked.starting_executions.filter_query = f"id IN ({', '.join(map(str, numbers))})"
        graph = store.get_lineage_subgraph(asked, _EDGES)
        # One hop from an execution is an artifact; its other executions bring events of their own.
        kept = set(numbers)
        others = [item for item in graph.events if item.execution_id not in kept]
        for item in others:
            graph.events.remove(item)
        yield graph


def _write(record: _Record, target: Database) -> None:
    with connected(target):
        pass  # makes the tables
    with closing(sqlite3.connect(target.path)) as file, file:
        _write_types(file, record)
        _write_items(file, record)
        _write_edges(file, record)
    with connected(target) as store:
        for items, put in (
            (record.artifacts, store.put_artifacts),
            (record.executions, store.put_executions),
            (record.contexts, store.put_contexts),
        ):
            if items:
                put(items)
    with closing(sqlite3.connect(target.path)) as file, file:
        _write_times(file, record)


def _write_types(file: sqlite3.Connection, record: _Record) -> None:
    found = [(kind, item) for kind, types in record.types.items() for item in types]
    # A new file has ML Metadata's own types already.
    file.executemany(
        "DELETE FROM Type WHERE type_kind = ? AND name = ?", [(kind, item.name) for kind, item in found]
    )
    file.executemany(
        "INSERT OR REPLACE INTO Type (id, name, version, type_kind) VALUES (?, ?, ?, ?)",
        [(item.id, item.name, item.version or None, kind) for kind, item in found],
    )
    file.executemany(
        "INSERT OR REPLACE INTO TypeProperty (type_id, name, data_type) VALUES (?, ?, ?)",
        [(item.id, name, value) for _, item in found for name, value in item.properties.items()],
    )


def _write_items(file: sqlite3.Connection, record: _Record) -> None:
    """Ids, types and names; the rest is put by ML Metadata, which changes only what is there."""
    file.executemany(
        "INSERT INTO Artifact (id, type_id, uri, name) VALUES (?, ?, ?, ?)",
        [(item.id, item.type_id, item.uri, item.name or None) for item in record.artifacts],
    )
    file.executemany(
        "INSERT INTO Execution (id, type_id, name) VALUES (?, ?, ?)",
        [(item.id, item.type_id, item.name or None) for item in record.executions],
    )
    file.executemany(
        "INSERT INTO Context (id, type_id, name) VALUES (?, ?, ?)",
        [(item.id, item.type_id, item.name) for item in record.contexts],
    )


def _write_edges(file: sqlite3.Connection, record: _Record) -> None:
    for number, event in enumerate(record.events, start=1):
        file.execute(
            "INSERT INTO Event (id, artifact_id, execution_id, type, milliseconds_since_epoch)"
            " VALUES (?, ?, ?, ?, ?)",
            (number, event.artifact_id, event.execution_id, event.type, event.milliseconds_since_epoch),
        )
        for step in event.path.steps:
            by_index = step.WhichOneof("value") == "index"
            file.execute(
                "INSERT INTO EventPath (event_id, is_index_step, step_index, step_key) VALUES (?, ?, ?, ?)",
                (number, by_index, step.index if by_index else None, None if by_index else step.key),
            )
    file.executemany(
        "INSERT INTO Association (context_id, execution_id) VALUES (?, ?)", sorted(record.associations)
    )
    file.executemany(
        "INSERT INTO Attribution (context_id, artifact_id) VALUES (?, ?)", sorted(record.attributions)
    )


def _write_times(file: sqlite3.Connection, record: _Record) -> None:
    for table, items in (
        ("Artifact", record.artifacts),
        ("Execution", record.executions),
        ("Context", record.contexts),
    ):
        file.executemany(
            f"UPDATE {table} SET create_time_since_epoch = ?, last_update_time_since_epoch = ? WHERE id = ?",
            [(item.create_time_since_epoch, item.last_update_time_since_epoch, item.id) for item in items],
        )
