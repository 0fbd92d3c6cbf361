"""Executes the notebook of the documentation and keeps what it says: `python tools/run_notebook.py`.

It runs in an empty folder, as a reader's would.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorials" / "python.ipynb"


def main() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=3600, resources={"metadata": {"path": folder}}, record_timing=False
        )
        client.execute()
    nbformat.write(notebook, NOTEBOOK)
    print(f"executed {NOTEBOOK}")


if __name__ == "__main__":
    main()
