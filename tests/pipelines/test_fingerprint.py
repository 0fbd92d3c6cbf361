"""Fingerprints: the import closure, and nothing but what can change a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import fingerprint


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
    assert {"modules.image.decode", "modules.export", "modules.hparams", "modules.training.loop"} <= set(
        found
    )
    assert not any(name.startswith(("pipelines", "components")) for name in found)
