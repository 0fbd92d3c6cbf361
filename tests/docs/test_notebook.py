"""The notebook: executed from its first cell to its last, it says what it says in the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import DOCS

NOTEBOOK = DOCS / "tutorials" / "python.ipynb"


def outputs(notebook: Any) -> list[str]:
    """What each cell of code left: its kinds, and the columns of its tables."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [" ".join(_kinds(cell)) for cell in cells]


def _kinds(cell: Any) -> list[str]:
    found = []
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data:
            found.append(
                "table " + ",".join(re.findall(r"<th>(.*?)</th>", data["text/html"].split("</thead>")[0]))
            )
        elif "image/png" in data:
            found.append("picture")
        else:
            found.append(output.output_type)
    return found


def test_it_was_executed_before_it_was_committed() -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    assert sum("picture" in output for output in outputs(kept)) >= 3
    assert not any("error" in output for output in outputs(kept))
    assert Path(NOTEBOOK).stat().st_size < 400_000


@pytest.mark.slow
def test_it_runs_as_it_stands(tmp_path) -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    again = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(again, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert outputs(again) == outputs(kept)
