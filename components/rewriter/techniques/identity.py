"""identity: the trained SavedModel as it is; what the others are compared with."""

from __future__ import annotations

import shutil
from pathlib import Path

from components.rewriter.base import TrainedModel


def build(trained: TrainedModel, folder: Path) -> None:
    """Copies the trained SavedModel, byte for byte."""
    shutil.copytree(trained.saved_model, folder)
