"""A run from Python: what was recorded of it, and what it made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.native_start import with_tensorflow
from modules import contract
from pipelines import errors
from pipelines.api import frames
from pipelines.api.model import Model
from pipelines.lineage.view import RunView

if TYPE_CHECKING:
    import pandas as pd

_SPLITS = ("train", "validation", "test")


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
        """Raw examples of a split as they were read, a column per feature; a model takes them as they are.

        An image is the bytes of its file; single values are unpacked.

        Raises:
            NotFoundError: there is no such split.
        """
        with_tensorflow()
        from components.serving.examples import read_split

        if split not in _SPLITS:
            raise errors.NotFoundError(
                f"There is no split {split!r}", place=self.id, remedy=errors.nearest(split, _SPLITS)
            )
        records = read_split(str(self.artifact("ExampleGen", "examples")), split, limit)
        return frames.from_examples(records)

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
