"""A lineage as data frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pipelines.lineage import query

if TYPE_CHECKING:
    import pandas as pd


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
