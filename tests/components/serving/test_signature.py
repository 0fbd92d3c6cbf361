"""Signatures: what was signed verifies, and nothing else does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from components.errors import ServableError
from components.serving import signature
from tests import keys

CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed file": (
        lambda folder: (folder / "saved_model.pb").write_text("evil"),
        "saved_model.pb has changed",
    ),
    "a removed file": (lambda folder: (folder / "saved_model.pb").unlink(), "saved_model.pb is missing"),
    "an added file": (lambda folder: (folder / ".gitignore").write_text("x"), ".gitignore was added"),
    "a changed name": (
        lambda folder: (folder / "variables/data").rename(folder / "variables/other"),
        "variables/data is missing",
    ),
    "a link": (lambda folder: (folder / "link").symlink_to("saved_model.pb"), "symlink"),
    "no signature": (lambda folder: (folder / signature.FILE).unlink(), "not signed"),
    "half a signature": (
        lambda folder: (folder / signature.FILE).write_text((folder / signature.FILE).read_text()[:-40]),
        "model.sig is damaged",
    ),
    "an empty signature": (lambda folder: (folder / signature.FILE).write_text("{}"), "model.sig is damaged"),
}


@pytest.fixture
def version(tmp_path) -> Path:
    folder = tmp_path / "m" / "1"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text("graph")
    (folder / "variables" / "data").write_text("weights")
    return folder


def test_what_was_signed_verifies_wherever_it_lies(version, tmp_path) -> None:
    private, public = keys.make(tmp_path)
    assert signature.sign(version, private) == version / "model.sig"
    signature.verify(version, public)
    signature.verify(version.rename(tmp_path / "elsewhere"), public)
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == []


@pytest.mark.parametrize("kind", CHANGES)
def test_any_change_is_refused(kind: str, version, tmp_path) -> None:
    private, public = keys.make(tmp_path)
    signature.sign(version, private)
    change, message = CHANGES[kind]
    change(version)
    with pytest.raises(signature.UnverifiedError) as caught:
        signature.verify(version, public)
    assert message in caught.value.headline


def test_signing_anew_covers_the_change(version, tmp_path) -> None:
    private, public = keys.make(tmp_path)
    signature.sign(version, private)
    (version / "README.md").write_text("words")
    signature.sign(version, private)
    signature.verify(version, public)


def test_another_key_is_refused(version, tmp_path) -> None:
    signature.sign(version, keys.make(tmp_path)[0])
    with pytest.raises(signature.UnverifiedError, match="another key signed it"):
        signature.verify(version, keys.make(tmp_path, "other")[1])


def test_a_password_comes_from_the_environment(version, tmp_path, monkeypatch) -> None:
    private, public = keys.make(tmp_path, password="secret")
    with pytest.raises(ServableError, match="The key cannot be used: Password was not given"):
        signature.sign(version, private)
    monkeypatch.setenv(signature.PASSWORD_VARIABLE, "secret")
    signature.sign(version, private)
    signature.verify(version, public)


def test_keys_that_are_none(version, tmp_path) -> None:
    private, public = keys.make(tmp_path)
    key = rsa.generate_private_key(65537, 2048)
    other = tmp_path / "rsa.pem"
    other.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    for path, message in (
        (other, "no elliptic curve"),
        (public, "private key"),
        (tmp_path / "x", "no such key"),
    ):
        with pytest.raises(ServableError, match=message):
            signature.sign(version, path)
    signature.sign(version, private)
    with pytest.raises(ServableError, match="The key cannot be used"):
        signature.verify(version, private)


def test_the_missing_extra_is_named(version, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "model_signing", None)
    with pytest.raises(ServableError) as caught:
        signature.verify(version, keys.make(tmp_path)[1])
    assert caught.value.remedy == "pip install headrace[signing]"
