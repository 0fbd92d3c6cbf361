"""Puts a version folder into a serving root, whole or not at all.

    version = push(Path("artifacts/.../Format-Serving"), Path("serving/digits"), stamp={...})

The copy is made in a hidden folder beside the versions, flushed to disk, and
renamed to its number: a server that watches the root sees nothing or all.
Numbers are given under a lock, and rise from push to push.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from components.errors import PushError
from components.serving_pusher import root as serving_root
from components.serving_pusher.root import versions as versions

STAMP_FILE = Path("assets.extra", "mlmd_uuid")
"""Where TensorFlow Serving looks for the origin of a model."""


def push(
    source: Path,
    root: Path,
    stamp: Mapping[str, str],
    complete: Callable[[Path], None] = lambda staged: None,
) -> int:
    """Copies `source` to the next version of `root`.

    Args:
        source: a version folder.
        root: `serving/<model>`; made when missing.
        stamp: what `assets.extra/mlmd_uuid` says, as JSON.
        complete: called with the copy before anybody else sees it, to add files.

    Returns:
        The version's number, higher than any that this root ever had.

    Raises:
        PushError: the root cannot be written; it is as it was.
    """
    try:
        with serving_root.staging_folder(root) as scratch:
            staged = scratch / "version"
            shutil.copytree(source, staged)
            _write_stamp(staged, stamp)
            complete(staged)
            serving_root.flush_tree(staged)
            return serving_root.take_number(staged, root)
    except OSError as error:
        raise PushError(
            f"The model could not be pushed: {error.strerror or error}",
            place=str(error.filename or root),
            remedy="Make the serving root writable, with room for the model, and run again.",
        ) from error


def _write_stamp(staged: Path, stamp: Mapping[str, str]) -> None:
    path = staged / STAMP_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stamp, sort_keys=True))
