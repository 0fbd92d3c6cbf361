"""Measurements run rarely: what they take from the rest of the code must be there all the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("bench", "components", "modules", "pipelines", "tests")


def file_of(module: str) -> Path | None:
    """The file of a module of ours; None where there is none."""
    place = ROOT.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


@cache
def defined(path: Path) -> frozenset[str]:
    """Names that a file gives a value at its top level."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
    return frozenset(names)


def missing(source: str, place: str) -> Iterator[str]:
    """What a file imports from our packages, or reads of a module of theirs, and is not there."""
    tree = ast.parse(source)
    modules: dict[str, Path] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            for alias in node.names:
                whole = file_of(f"{node.module}.{alias.name}")
                parent = file_of(str(node.module))
                if whole is not None:
                    modules[alias.asname or alias.name] = whole
                elif parent is None or alias.name not in defined(parent):
                    yield f"{place}:{node.lineno}: {node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            path = modules.get(node.value.id)
            if path is not None and node.attr not in defined(path):
                yield f"{place}:{node.lineno}: {node.value.id}.{node.attr}"


def test_measurements_find_what_they_import() -> None:
    paths = sorted((ROOT / "bench").glob("*.py"))
    assert [name for path in paths for name in missing(path.read_text(), path.name)] == []


def test_what_is_missing_would_be_seen() -> None:
    source = (
        "from bench.taxi_like import write_csv, write_tsv\n"
        "from pipelines import create\n"
        "from components.nowhere import thing\n"
        "create.create_pipeline()\ncreate.undone()\n"
    )
    assert list(missing(source, "a")) == [
        "a:1: bench.taxi_like.write_tsv",
        "a:3: components.nowhere.thing",
        "a:5: create.undone",
    ]
