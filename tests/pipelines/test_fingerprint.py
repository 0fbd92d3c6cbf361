"""Fingerprints: the import closure, and nothing but what can change a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import config, fingerprint, plans
from pipelines.errors import InputError
from pipelines.workspace import Workspace


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with a trainer that imports a helper, which imports another."""
    files = {
        "own/__init__.py": "",
        "own/trainer.py": "import os\nfrom own.helper import work\ndef run_fn():\n    from own import late\n",
        "own/helper.py": "from . import deep\n\ndef work():\n    return deep.VALUE\n",
        "own/deep.py": "VALUE = 1\n",
        "own/late.py": "",
        "own/unrelated.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_closure_follows_imports_relative_late_and_packages(project) -> None:
    assert set(fingerprint.closure(["own.trainer"])) == {
        "own",
        "own.trainer",
        "own.helper",
        "own.deep",
        "own.late",
    }


@pytest.mark.parametrize("name", ["trainer", "helper", "deep", "late", "__init__"])
def test_an_edit_anywhere_in_the_closure_counts(project, name: str) -> None:
    before = fingerprint.of_modules(["own.trainer"])
    path = project / "own" / f"{name}.py"
    path.write_text(path.read_text() + "\nADDED = 2\n")
    assert fingerprint.of_modules(["own.trainer"]) != before


def test_comments_layout_time_stamps_and_other_files_do_not(project) -> None:
    before = fingerprint.of_modules(["own.trainer"])
    path = project / "own" / "deep.py"
    path.write_text("# a comment\n\n\nVALUE    =   1   # another\n")
    (project / "own" / "unrelated.py").write_text("X = 1\n")
    assert fingerprint.of_modules(["own.trainer"]) == before


def test_versions_of_packages_count(project, monkeypatch) -> None:
    before = fingerprint.of_modules(["own.trainer"])
    newer = {**fingerprint.environment(), "numpy": "99.0"}
    monkeypatch.setattr(fingerprint, "environment", lambda: newer)
    assert fingerprint.of_modules(["own.trainer"]) != before


def test_the_environment_is_what_headrace_depends_on() -> None:
    found = fingerprint.environment()
    assert {"tensorflow", "tfx", "numpy", "headrace", "apache-beam"} <= set(found)
    assert "ruff" not in found


def test_our_own_trainer_covers_preprocessing_shared_with_serving() -> None:
    found = fingerprint.closure(["modules.image.trainer"])
    expected = {"modules.image.decode", "modules.export", "modules.hparams.image", "modules.training.loop"}
    assert expected <= set(found)
    assert "modules.hparams.text" not in found
    assert not any(name.startswith(("pipelines", "components")) for name in found)


def test_hardware_is_what_precision_is_chosen_by(tmp_path) -> None:
    from modules.training import devices

    assert fingerprint.hardware(tmp_path) == []
    for number, model in enumerate(("NVIDIA L4", "NVIDIA H100")):
        folder = tmp_path / "driver/nvidia/gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ: 1\n")
    info = "processor: 0\nflags\t\t: fpu avx2 avx512_bf16 amx_bf16 amx_tile\n"
    (tmp_path / "cpuinfo").write_text(info)
    units = devices.cpu_bfloat16_units(info)
    assert fingerprint.hardware(tmp_path) == ["NVIDIA L4", "NVIDIA H100", *units]
    assert units == ["amx_bf16", "avx512_bf16"]


def test_another_model_of_the_same_name_is_another_key(tmp_path) -> None:
    """One that training begins with, and one that it learns from."""
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,y\n")
    weights, teacher = tmp_path / "mine.keras", tmp_path / "teacher.keras"
    raw = {
        "name": "rows",
        "data": {"path": str(tmp_path / "rows.csv")},
        "model": {"family": "image", "weights": str(weights)},
        "train": {"distill": {"teacher": str(teacher)}},
    }
    workspace = Workspace.open(tmp_path / "w", create=True)
    keys = []
    for one, other in (("a", "a"), ("b", "a"), ("b", "b"), ("a", "a")):
        weights.write_text(one)
        teacher.write_text(other)
        keys.append(plans.key_of(config.from_mapping(raw), workspace, cache=True))
    assert len(set(keys)) == 3 and keys[0] == keys[3]


@pytest.mark.parametrize("source", [b"def f(:\n", b"x = 1\0\n", b"# coding: latin-1x\n"])
def test_a_module_that_is_no_python_is_named(project, source: bytes) -> None:
    (project / "broken.py").write_bytes(source)
    with pytest.raises(InputError, match="A module cannot be read") as raised:
        fingerprint.of_modules(["broken"])
    assert str(project / "broken.py") in raised.value.place


def test_other_hardware_is_another_key(tmp_path, monkeypatch) -> None:
    """Of the compiled pipeline, and of the Trainer in it."""
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,y\n")
    experiment = config.from_mapping(
        {"name": "rows", "data": {"path": str(tmp_path / "rows.csv")}, "model": {"family": "tabular"}}
    )
    workspace = Workspace.open(tmp_path / "w", create=True)
    keys = []
    for found in ([], ["amx_bf16"], ["NVIDIA L4"], []):
        monkeypatch.setattr(fingerprint, "hardware", lambda found=found: found)
        keys.append(plans.key_of(experiment, workspace, cache=True))
    assert len(set(keys)) == 3 and keys[0] == keys[3]
