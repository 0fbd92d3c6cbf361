"""A pushed version's manifest: what is said of every file, and what is found of damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ServableError
from components.serving import manifest


@pytest.fixture
def version(tmp_path) -> Path:
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"model")
    (tmp_path / "variables" / "variables.index").write_bytes(b"index")
    manifest.write(tmp_path, {"run": "digits-1"})
    return tmp_path


def test_every_file_has_its_digest(version) -> None:
    found = manifest.read(version)
    assert found["run"] == "digits-1"
    assert found["files"]["saved_model.pb"] == {
        "bytes": 5,
        "sha256": "9372c470eeadd5ecd9c3c74c2b3cb633f8e2f2fad799250a0f70d652b6b825e4",
    }
    assert set(found["files"]) == {"saved_model.pb", "variables/variables.index"}
    assert manifest.faults(version) == []


def test_damage_is_found(version) -> None:
    (version / "saved_model.pb").write_bytes(b"modem")
    assert manifest.faults(version, contents=False) == []
    assert manifest.faults(version) == ["the contents of saved_model.pb have changed"]
    (version / "saved_model.pb").write_bytes(b"mod")
    (version / "variables" / "variables.index").unlink()
    assert manifest.faults(version, contents=False) == [
        "saved_model.pb has 3 bytes; expected 5",
        "variables/variables.index is missing",
    ]


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', "[]"])
def test_a_manifest_that_is_none(version, text: str) -> None:
    (version / manifest.PATH).write_text(text)
    with pytest.raises(ServableError, match="manifest cannot be read"):
        manifest.servable_of(version)


def test_a_manifest_without_a_servable(version) -> None:
    with pytest.raises(ServableError, match="does not say how it is called"):
        manifest.servable_of(version)
