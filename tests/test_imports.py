"""Who may import whom, and what a quick command may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
HEAVY = (
    "tensorflow",
    "tfx",
    "apache_beam",
    "kfp",
    "keras",
    "numpy",
    "pandas",
    "pyarrow",
    "ml_metadata",
    "pydantic",
    "yaml",
)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield f"{node.module}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [("components", ("pipelines", "modules")), ("modules", ("pipelines", "components"))],
)
def test_lower_packages_import_nothing_from_above(package: str, forbidden: tuple[str, ...]) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(package)
        for name in imported(path)
        if name.split(".")[0] in forbidden
    ]
    assert wrong == []


def test_pipelines_imports_only_the_light_part_of_modules() -> None:
    light = ("modules.contract", "modules.hparams")
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources("pipelines")
        for name in imported(path)
        if name.startswith("modules.") and not name.startswith(light)
    ]
    assert wrong == []


@pytest.mark.parametrize("path", [ROOT / "modules/contract.py", *sources("modules/hparams")], ids=str)
def test_light_modules_use_the_standard_library_only(path: Path) -> None:
    names = set(imported(path))
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"modules"}
    ours = {name for name in names if name.startswith("modules.")}
    assert {name for name in ours if not name.startswith("modules.hparams.")} == set()


def test_only_the_command_line_and_its_peer_in_python_import_the_command_line() -> None:
    wrong = [
        str(path)
        for package in ("pipelines", "components", "modules")
        for path in sources(package)
        if "cli" not in path.parts
        and "api" not in path.parts
        and any(name.startswith("pipelines.cli") for name in imported(path))
    ]
    assert wrong == []


def test_kubeflow_holds_no_python() -> None:
    assert list((ROOT / "kubeflow").rglob("*.py")) == []


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from pipelines.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_commands_imports_no_tensorflow(command: str) -> None:
    code = (
        "import sys\n"
        "from pipelines.cli.main import cli\n"
        f"cli.main([{command!r}, '--help'], standalone_mode=False)\n"
        "heavy = [n for n in ('tensorflow', 'tfx', 'apache_beam', 'keras') if n in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
