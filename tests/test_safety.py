"""What must not be in the code: ways from data to code, to a shell, or out of a folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("pipelines", "components", "modules")

UNSAFE_CALLS = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "os.system": "takes a shell's text",
    "os.popen": "takes a shell's text",
    "yaml.load": "makes objects; yaml.safe_load does not",
    "yaml.unsafe_load": "makes objects",
    "yaml.full_load": "makes objects",
    "pickle.load": "runs what is pickled",
    "pickle.loads": "runs what is pickled",
    "torch.load": "unpickles",
    "joblib.load": "unpickles",
    "tempfile.mktemp": "somebody else may take the name",
}
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "shelve", "marshal", "telnetlib"}

BETWEEN_OWN_PROCESSES = Path("components/fork_server.py")
"""Pickles what goes to a child, in a file without a name over a socket pair that nobody else has."""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text())


def name_of(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return ""


def faults(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wrong = {alias.name.split(".")[0] for alias in node.names} & UNSAFE_MODULES
            yield from (f"{path}:{node.lineno}: imports {name}" for name in wrong)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNSAFE_MODULES:
            yield f"{path}:{node.lineno}: imports {node.module}"
        elif isinstance(node, ast.Call):
            yield from _call_faults(f"{path}:{node.lineno}", node)


def _call_faults(place: str, node: ast.Call) -> Iterator[str]:
    name = name_of(node.func)
    if name in UNSAFE_CALLS:
        yield f"{place}: {name} {UNSAFE_CALLS[name]}"
    told = {keyword.arg: keyword.value for keyword in node.keywords}
    if isinstance(told.get("shell"), ast.Constant) and told["shell"].value:
        yield f"{place}: a command goes through a shell"
    safe_mode = told.get("safe_mode")
    if isinstance(safe_mode, ast.Constant) and safe_mode.value is False:
        yield f"{place}: a .keras file may hold code"
    if name in ("np.load", "numpy.load"):
        allowed = told.get("allow_pickle")
        if not (isinstance(allowed, ast.Constant) and allowed.value is False):
            yield f"{place}: np.load without allow_pickle=False"


def test_no_way_from_data_to_code() -> None:
    found = [fault for path, tree in trees() if path != BETWEEN_OWN_PROCESSES for fault in faults(path, tree)]
    assert found == []


def test_what_goes_between_own_processes_is_pickled_and_no_more() -> None:
    tree = ast.parse((ROOT / BETWEEN_OWN_PROCESSES).read_text())
    assert all("pickle" in fault for fault in faults(BETWEEN_OWN_PROCESSES, tree))


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from dill import loads",
        "eval('1')",
        "import yaml\nyaml.load(text)",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "keras.models.load_model(path, safe_mode=False)",
    ],
)
def test_each_way_would_be_seen(code: str) -> None:
    assert list(faults(Path("a.py"), ast.parse(code)))


def test_servers_listen_on_loopback_unless_told_otherwise() -> None:
    from components.serving.server.options import Options

    assert Options.__dataclass_fields__["host"].default == "127.0.0.1"


def test_a_list_of_images_cannot_lead_out_of_its_folder(tmp_path) -> None:
    from components.errors import DataError
    from components.example_gen.sources import list_images

    (tmp_path / "secret.png").write_bytes(b"x")
    inside = tmp_path / "data"
    inside.mkdir()
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    for name in ("../secret.png", str(tmp_path / "secret.png"), "link.png"):
        (inside / "list.csv").write_text(f"file,label\n{name},a\n")
        with pytest.raises(DataError):
            list_images(inside / "list.csv")


def test_yaml_makes_no_objects(tmp_path) -> None:
    from pipelines.config import load
    from pipelines.errors import ConfigError

    target = tmp_path / "made"
    path = tmp_path / "e.yaml"
    path.write_text(f"data: !!python/object/apply:pathlib.Path.touch [{str(target)!r}]\n")
    with pytest.raises(ConfigError):
        load(str(path))
    with pytest.raises(ConfigError):
        load("digits", ["train.epochs=!!python/object/apply:os.getpid []"])
    assert not target.exists()
