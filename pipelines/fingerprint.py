"""What code a node runs, as a hash: TFX hashes no code that is named by dotted path.

    fingerprint = of_modules(["modules.image.trainer"])     # hex digest

A node's fingerprint covers the import closure of the functions it runs,
inside our packages and the folder the command was started in, and the
versions of all packages that Headrace depends on. Comments and layout do not
count: what is hashed is each file's syntax tree.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from pipelines.errors import InputError

PROJECT = Path(__file__).resolve().parents[1]
OWN_PACKAGES = ("pipelines", "components", "modules")

PROPERTY = "code_fingerprint"
"""Execution property of every node, so that changed code is a cache miss."""


def of_modules(roots: Iterable[str]) -> str:
    """Digest of the import closure of some modules, and of the package versions."""
    total = hashlib.sha256(environment_digest().encode())
    for name, path in sorted(closure(roots).items()):
        total.update(f"{name}\0{source_digest(path)}\n".encode())
    return total.hexdigest()


def closure(roots: Iterable[str]) -> dict[str, Path]:
    """Module name -> file, of all our own modules that `roots` import, transitively.

    Imports inside functions count. Packages' `__init__` files do too, since
    importing a module runs them.
    """
    found: dict[str, Path] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        path = _find(name)
        if name in found or path is None:
            continue
        found[name] = path
        waiting.extend(_imports(name, path))
        parent = name.rpartition(".")[0]
        if parent:
            waiting.append(parent)
    return found


_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def named_modules(value: Any) -> list[str]:
    """Modules of ours and the user's that a setting names by dotted path, at any depth.

    Args:
        value: of JSON's types; a text that is JSON itself is looked into.
    """
    if isinstance(value, str):
        return _named_in_text(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return sorted({name for item in value for name in named_modules(item)})
    return []


def _named_in_text(text: str) -> list[str]:
    if text[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return named_modules(json.loads(text))
    if not _DOTTED.fullmatch(text):
        return []
    # A module, or something in one: the longest that there is a file for.
    for name in (text, text.rpartition(".")[0]):
        if _find(name) is not None:
            return [name]
    return []


CPU_BFLOAT16_FLAGS = ("amx_bf16", "avx512_bf16")
"""As `modules.training.devices` looks for them, by which it chooses a precision."""


def hardware(proc: Path = Path("/proc")) -> list[str]:
    """What of this machine changes results: the names of its GPUs and the bfloat16 units of its
    processor, by which precision, strategy and kernels are chosen. Asks no driver.

    Args:
        proc: where Linux tells of both; elsewhere there is nothing to tell.
    """
    paths = sorted(proc.glob("driver/nvidia/gpus/*/information"))
    lines = [line for path in paths for line in path.read_text(errors="replace").splitlines()]
    gpus = [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    info = proc / "cpuinfo"
    flags = info.read_text(errors="replace").splitlines() if info.exists() else []
    known = next((line.split() for line in flags if line.startswith("flags")), [])
    return [*gpus, *(flag for flag in CPU_BFLOAT16_FLAGS if flag in known)]


def _find(name: str) -> Path | None:
    """The source file of a module of ours; None for anything else.

    Ours are our three packages, and modules in the folder the command was
    started in. Nothing is imported: finding a module through importlib would
    run its packages.
    """
    parts = name.split(".")
    for base in (PROJECT, Path.cwd()):
        if base == PROJECT and parts[0] not in OWN_PACKAGES:
            continue
        path = base.joinpath(*parts)
        for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def _imports(name: str, path: Path) -> tuple[str, ...]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return _imported(_tree(path), package)


@functools.lru_cache(maxsize=2048)
def _imported(tree: ast.Module, package: str) -> tuple[str, ...]:
    """What a file names in imports; nodes share most of their files."""
    return tuple(_names(tree, package))


def _names(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            yield base
            for alias in node.names:
                yield f"{base}.{alias.name}"


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    base = ".".join(parents[: len(parents) - node.level + 1])
    return f"{base}.{node.module}" if node.module else base


def _tree(path: Path) -> ast.Module:
    found = path.stat()
    return _parsed(path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@functools.lru_cache(maxsize=2048)
def _parsed(path: Path, *stat: int) -> ast.Module:
    """A file's syntax tree; nodes share most of their files.

    Raises:
        InputError: it is no Python.
    """
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise InputError(
            f"A module cannot be read: {getattr(error, 'msg', None) or error}",
            place=f"{path}, line {line}" if line else str(path),
            remedy="Mend it; every node that imports it would fail.",
        ) from error


def source_digest(path: Path) -> str:
    """Digest of a file's syntax tree: comments and layout do not count."""
    return _tree_digest(_tree(path))


@functools.lru_cache(maxsize=2048)
def _tree_digest(tree: ast.Module) -> str:
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@functools.cache
def environment() -> dict[str, str]:
    """Name -> version of every installed package that Headrace depends on, transitively."""
    found: dict[str, str] = {}
    waiting = ["headrace"]
    while waiting:
        name = _canonical(waiting.pop())
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an optional or platform package that is not installed
        found[name] = distribution.version
        for line in distribution.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return dict(sorted(found.items()))


def environment_digest() -> str:
    """Digest of the names and versions of those packages."""
    lines = "\n".join(f"{name}=={version}" for name, version in environment().items())
    return hashlib.sha256(lines.encode()).hexdigest()


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
