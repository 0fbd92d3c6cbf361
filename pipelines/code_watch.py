"""Notices code that is edited while a run goes on, which the keys of its nodes do not cover.

    code_watch.begin()                       # before keys are made from the code
    ...
    watch = code_watch.Watch(ir, "Trainer")  # in the process of a node, before its work
    watch.check_start()
    ...                                      # the work
    watch.check_end()

Python reads a module's file when it is first imported, which may be long after
the key was made from that file: a network that was edited while Transform was
running would be trained under the key of the one before. What a process had
loaded before the edit does no harm.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pipelines import fingerprint
from pipelines.errors import CodeChangedError

Stamp = tuple[int, int, int, int]

_AGAIN = "Run the same command again; what is done and has not changed is not done again."
_STARTED = "Start it again."


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _own_files() -> list[Path]:
    packages = [fingerprint.PROJECT / package for package in fingerprint.OWN_PACKAGES]
    return [path for package in packages for path in package.rglob("*.py")]


def _stamps(paths: Iterable[Path]) -> dict[Path, Stamp | None]:
    return {path: _stamp(path) for path in paths}


def _name(path: Path) -> str:
    """The module of a file of ours or the user's."""
    base = next((base for base in (fingerprint.PROJECT, Path.cwd()) if path.is_relative_to(base)), None)
    parts = path.relative_to(base).with_suffix("").parts if base else ()
    return ".".join(parts).removesuffix(".__init__")


# Of our own code when this process began: what it has loaded is as old as that.
_at_import = _stamps(_own_files())
# Of all code when the keys of the run were made, which forked processes inherit.
_at_keys: dict[Path, Stamp | None] = {}


def begin(modules: Iterable[str]) -> None:
    """Remembers the code that keys are about to be made from.

    Args:
        modules: of the user's that the experiment names.

    Raises:
        CodeChangedError: this process runs code of ours that is no longer what the files say.
    """
    for path in _changed(_at_import):
        if _name(path) in sys.modules:
            raise CodeChangedError(
                "Headrace's own code has changed since this process began", place=str(path), remedy=_STARTED
            )
    theirs = list(fingerprint.closure(modules).values())
    _forget_bytecode(theirs)
    _at_keys.clear()
    _at_keys.update(_stamps([*_own_files(), *theirs]))


def _forget_bytecode(paths: Iterable[Path]) -> None:
    """Python takes bytecode for a source's by its size and second, which an edit may leave as they were."""
    for path in paths:
        if not path.is_relative_to(fingerprint.PROJECT):
            with contextlib.suppress(OSError, NotImplementedError):
                Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def has_changed() -> bool:
    """Whether any file is another than at `begin`."""
    return bool(_changed(_at_keys))


def _changed(before: Mapping[Path, Stamp | None]) -> list[Path]:
    return [path for path, stamp in before.items() if _stamp(path) != stamp]


class Watch:
    """The code of one node of a compiled pipeline; does nothing where `begin` was never called."""

    def __init__(self, pipeline: Any, node_id: str) -> None:
        """Remembers what this process has loaded.

        Args:
            pipeline: the compiled IR.
            node_id: of the node.
        """
        self._pipeline, self._node_id = pipeline, node_id
        self._loaded = frozenset(sys.modules)

    def check_start(self) -> None:
        """Compares the node's code with what its key was made from.

        Raises:
            CodeChangedError: it is another.
        """
        self._check(frozenset())

    def check_end(self) -> None:
        """Looks for code that was edited, and loaded only then.

        Raises:
            CodeChangedError: there is such code.
        """
        # What was edited, but loaded before, is what the key was made from.
        self._check(self._loaded)

    def _check(self, loaded: Collection[str]) -> None:
        """Raises where the node's own code differs, by more than comments and beyond what was loaded."""
        changed = [path for path in _changed(_at_keys) if _name(path) not in loaded]
        if not changed:
            return
        key, roots = _code_of(self._pipeline, self._node_id)
        own = set(fingerprint.closure(roots).values())
        touched = [path for path in changed if path in own or not path.exists()]
        if key and touched and fingerprint.of_modules(roots) != key:
            raise CodeChangedError(
                f"The code of node {self._node_id} was changed after this run had begun",
                place=str(touched[0]),
                remedy=_AGAIN,
            )


def _code_of(pipeline: Any, node_id: str) -> tuple[str, list[str]]:
    """A node's fingerprint, and the modules that it was made from; an empty one where it has none."""
    from tfx.orchestration.local import runner_utils

    from pipelines.runners.node import find_node

    node = find_node(pipeline, node_id)
    values = {name: _text(value) for name, value in node.parameters.parameters.items()}
    key = values.pop(fingerprint.PROPERTY, "")
    deployment = runner_utils.extract_local_deployment_config(pipeline)
    spec = runner_utils.extract_executor_spec(deployment, node_id)
    python = getattr(spec, "python_executor_spec", spec)  # Beam's executors hold another
    executor = getattr(python, "class_path", "").rpartition(".")[0]
    return key, [executor, *fingerprint.named_modules(values)] if executor else []


def _text(parameter: Any) -> str:
    return str(parameter.field_value.string_value)
