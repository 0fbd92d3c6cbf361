"""Curated schemas: written from a run, compared with a run's data, and updated to accept it.

write(schema_of(run_nodes), Path("schema.pbtxt"))
accept(Path("schema.pbtxt"), run_nodes)        # what changed, as sentences
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError, NotFoundError
from pipelines.lineage.records import NodeRecord

_FILE = "schema.pbtxt"


def schema_text(nodes: Sequence[NodeRecord]) -> str:
    """The schema that a run used, as text.

    Raises:
        NotFoundError: the run has none.
    """
    return Path(_output(nodes, "SchemaGen", "schema"), _FILE).read_text()


def _output(nodes: Sequence[NodeRecord], node: str, key: str) -> str:
    for record in nodes:
        if record.node == node and record.outputs.get(key):
            return record.outputs[key][0].uri
    raise NotFoundError(
        f"The run has no {key}", place=node, remedy=f"Run the experiment at least --to {node}."
    )


def write(text: str, path: Path) -> None:
    """Writes a schema, whole or not at all.

    Raises:
        ConfigError: the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise ConfigError(f"A schema cannot be written: {error.strerror}", place=str(path)) from error


def read(path: Path) -> Any:
    """A schema from a file.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    try:
        return text_format.Parse(path.read_text(), schema_pb2.Schema())
    except OSError as error:
        raise ConfigError(
            f"A schema cannot be read: {error.strerror}",
            place=str(path),
            remedy="headrace schema init writes one.",
        ) from error
    except text_format.ParseError as error:
        raise ConfigError(f"A schema file is damaged: {error}", place=str(path)) from error


def differences(ours: str, theirs: str, our_name: str, their_name: str) -> list[str]:
    """The lines in which two schemas differ, with three lines around each."""
    return list(
        difflib.unified_diff(ours.splitlines(), theirs.splitlines(), our_name, their_name, lineterm="")
    )


def accept(path: Path, nodes: Sequence[NodeRecord]) -> list[str]:
    """Widens a schema file until the data of a run fits it; returns the changed lines.

    Features and values that the run's statistics show are added, and
    requirements that they break are relaxed, as TFDV's update_schema does.

    Raises:
        ConfigError, NotFoundError: the file or the run's statistics are not there.
    """
    schema = read(path)  # before what takes seconds to import
    import tfx.components  # noqa: F401  (TFDV can be imported only after TFX)
    import tensorflow_data_validation as tfdv  # isort: skip
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import statistics_pb2

    before = text_format.MessageToString(schema)
    root = Path(_output(nodes, "StatisticsGen", "statistics"))
    for file in sorted(root.glob("Split-*/FeatureStats.pb")):
        statistics = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read_bytes())
        schema = tfdv.update_schema(schema, statistics)
    after = text_format.MessageToString(schema)
    write(after, path)
    return differences(before, after, f"{path} before", f"{path} after")
