"""A user's own project: what is written, and how its code counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import config, fingerprint, project, user_code
from pipelines.errors import ConfigError, InputError, NotFoundError


@pytest.mark.parametrize(
    "source", ["digits", "taxi", "photos-transfer", "intents", "intents-lora", "fashion-distilled"]
)
def test_what_is_written_loads_and_names_its_own_network(tmp_path: Path, monkeypatch, source: str) -> None:
    folder = tmp_path / "My Cats"
    written = project.create(folder, source)
    assert [path.name for path in written] == [
        "my-cats.yaml", "network.py", "test_network.py", "README.md", ".gitignore",
    ]  # fmt: skip
    experiment = config.load(str(written[0]))
    assert (experiment.name, experiment.model.name) == ("my-cats", "network.build")
    assert experiment.data == config.load(source).data
    # A teacher would have to be in the new folder's workspace.
    assert experiment.train.distill is None
    monkeypatch.chdir(folder)
    assert user_code.modules_of(experiment) == ["network"]


def test_the_tests_that_are_written_pass(tmp_path: Path) -> None:
    for source in ("digits", "taxi", "languages"):
        folder = tmp_path / source
        project.create(folder, source)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:]


def test_code_in_the_folder_counts_comments_do_not(tmp_path: Path, monkeypatch) -> None:
    project.create(tmp_path / "own", "digits")
    monkeypatch.chdir(tmp_path / "own")
    file = Path("network.py")
    before = fingerprint.of_modules(["network"])
    file.write_text(file.read_text() + "\n# a remark\n")
    assert fingerprint.of_modules(["network"]) == before
    file.write_text(file.read_text().replace("strides = 2 if index else 1", "strides = 1"))
    assert fingerprint.of_modules(["network"]) != before


def test_mistakes_are_named(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(NotFoundError):
        project.create(tmp_path / "a", "nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"not empty: it holds notes\.txt"):
        project.create(tmp_path / "full", "digits")
    assert (tmp_path / "full" / "notes.txt").read_text() == "mine"
    with pytest.raises(ConfigError, match="gives no experiment name"):
        project.create(tmp_path / "123", "digits")
    project.create(tmp_path / "own", "digits")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no module 'network'") as caught:
        user_code.modules_of(config.load(str(tmp_path / "own" / "own.yaml")))
    assert str(tmp_path) in caught.value.remedy


def test_an_experiment_of_ones_own_can_be_the_beginning(tmp_path: Path, monkeypatch) -> None:
    """Its files are found from the new folder, and what only its network takes is left out."""
    (tmp_path / "texts.csv").write_text("text,label\na,b\n")
    (tmp_path / "mine.yaml").write_text(
        "data: {path: texts.csv, format: csv, label: label}\nmodel: {family: text, name: ngrams, width: 0}\n"
    )
    monkeypatch.chdir(tmp_path)
    project.create(tmp_path / "own", "mine.yaml")
    experiment = config.load(str(tmp_path / "own" / "own.yaml"))
    assert experiment.data.path == str(tmp_path / "texts.csv")
