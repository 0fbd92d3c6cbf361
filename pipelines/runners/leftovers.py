"""Clears what an unfinished node left, so that it can run again under the same execution.

clear(ir, files, ["Trainer"])
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pipelines.lineage.records import NodeRecord
from pipelines.lineage.store import Store
from pipelines.runners.events import CACHED, COMPLETE
from pipelines.runners.files import RunFiles

FINISHED = (COMPLETE, CACHED)
_RESOLVER = "Resolver"


def clear(ir: Any, files: RunFiles, nodes: Collection[str]) -> None:
    """Removes partial outputs of unfinished nodes and marks their executions as running.

    TFX's launcher takes up an execution that its run has already, with the
    same output folders; what a killed executor left in them would be published
    beside what the next one writes.

    Args:
        ir: compiled pipeline with the run's id.
        files: of the run.
        nodes: those to clear; finished ones are passed over.
    """
    specs = {item.pipeline_node.node_info.id: item.pipeline_node for item in ir.nodes}
    root = Path(ir.runtime_spec.pipeline_root.field_value.string_value)
    with Store(files.database) as store:
        left = [
            record
            for record in store.nodes(files.folder.name)
            if record.node in nodes
            and record.state not in FINISHED
            # A resolver writes nothing, and its next try is an execution of its own.
            and not specs[record.node].node_info.type.name.endswith(_RESOLVER)
        ]
        for record in left:
            _remove_outputs(root, specs[record.node], record)
        store.reopen_executions([record.execution_id for record in left])


def _remove_outputs(root: Path, node: Any, record: NodeRecord) -> None:
    folder = root / record.node
    number = str(record.execution_id)
    for key in node.outputs.outputs:
        shutil.rmtree(folder / key / number, ignore_errors=True)
    shutil.rmtree(folder / ".system" / "executor_execution" / number, ignore_errors=True)
