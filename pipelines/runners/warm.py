"""Loads what nodes need into the process that they are forked from.

warm.load()
"""

from __future__ import annotations

import importlib
import sys

from components import heap, subprocesses

WORKERS = (
    "components.rewriter.worker",
    "components.infra_validator.worker",
    "components.serving.server.server",
    "components.serving.server.raw_input",
)
"""What nodes run in processes of their own."""


def load() -> None:
    """Imports TFX, as quickly as can be; does nothing where that was done.

    Processes of nodes' workers are forked before TFX comes, so that they hold
    no more than a model server holds.
    """
    with heap.importing("pipelines.runners.local"):
        if "tfx.components" not in sys.modules:
            for name in WORKERS:
                importlib.import_module(name)
            subprocesses.serve_from_here()
        import pipelines.create
        import pipelines.runners.local  # noqa: F401
