"""Signatures over the files of a version, in OpenSSF's format (`model.sig`), with a key of one's own.

    sign(Path("serving/digits/3"), Path("key.pem"))
    verify(Path("serving/digits/3"), Path("key.pub"))

A signature covers the name and the contents of every file in the folder: one
that is changed, added or missing is refused. It says who made the files what
they are, not that they are the newest: an older signed version verifies too.
Needs the extra `signing`.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

from components.errors import ServableError

FILE = "model.sig"
"""In the version's folder, where other tools of the format look for it."""

PASSWORD_VARIABLE = "HEADRACE_SIGNING_PASSWORD"


class UnverifiedError(ServableError):
    """A version that is not signed, not by that key, or not as it was signed."""


def sign(folder: Path, private_key: Path) -> Path:
    """Signs all files in a folder; returns where the signature is. One that is there is replaced.

    Args:
        folder: a version.
        private_key: PEM, of an elliptic curve (P-256, P-384 or P-521); its password, where it has
            one, is in the environment variable `HEADRACE_SIGNING_PASSWORD`.

    Raises:
        ServableError: the extra is missing, the key cannot be used, or the folder cannot be written.
    """
    from_library = _library()
    _check_key(private_key)
    target, scratch = folder / FILE, folder.parent / f".{folder.name}.{FILE}.part"
    # The library says that it takes text, and passes it on to what takes bytes.
    password = os.environ.get(PASSWORD_VARIABLE, "").encode() or None
    config = from_library.signing.Config()
    try:
        config.use_elliptic_key_signer(private_key=private_key, password=password)
    except (ValueError, TypeError, AttributeError, OSError) as error:  # of an RSA key: no curve
        raise _unusable_key(private_key, error) from error
    try:
        config.set_hashing_config(_hashing(from_library)).sign(folder, scratch)
        scratch.replace(target)
    except (ValueError, OSError) as error:
        scratch.unlink(missing_ok=True)
        raise ServableError(
            f"The version cannot be signed: {_one_line(error)}",
            place=str(folder),
            remedy="Links are not signed; else make the folder writable.",
        ) from error
    return target


def verify(folder: Path, public_key: Path) -> None:
    """Checks that all files in a folder are as they were signed.

    Args:
        folder: a version, with its `model.sig`.
        public_key: PEM, of the key that should have signed it.

    Raises:
        UnverifiedError: there is no signature, it is of another key, or a file is not as it was signed.
        ServableError: the key cannot be used, or the extra is missing.
    """
    from_library, config = _library(), _verifier(public_key)
    if not (folder / FILE).is_file():
        raise UnverifiedError(
            "The version is not signed", place=str(folder / FILE), remedy="headrace models sign signs it."
        )
    try:
        config.set_hashing_config(_hashing(from_library)).verify(folder, folder / FILE)
    except Exception as error:  # a damaged signature raises whatever its parser raises
        raise UnverifiedError(
            f"The version is not as it was signed: {_what_differs(error)}",
            place=str(folder),
            remedy="Do not serve it: push or copy the model again, or sign it anew if the change was meant.",
        ) from error


def check_public_key(path: Path) -> None:
    """Does nothing where signatures can be verified with that key.

    Raises:
        ServableError: there is no such key, it cannot be used, or the extra is missing.
    """
    _verifier(path)


def _verifier(public_key: Path) -> Any:
    from_library = _library()
    _check_key(public_key)
    try:
        return from_library.verifying.Config().use_elliptic_key_verifier(public_key=public_key)
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise _unusable_key(public_key, error) from error


def _library() -> Any:
    """The package that signs; it takes seconds to import.

    Raises:
        ServableError: it is not installed.
    """
    try:
        import model_signing
    except ImportError as error:
        raise ServableError(
            f"Signatures need a package that is not installed: {error.name or error}",
            place="extra signing",
            remedy="pip install headrace[signing]",
        ) from error
    return model_signing


def _hashing(from_library: Any) -> Any:
    """Every file but the signature itself; Git's too, which the library would pass over."""
    return from_library.hashing.Config().set_ignored_paths(paths=[FILE], ignore_git_paths=False)


def _check_key(path: Path) -> None:
    if not path.is_file():
        raise ServableError(
            "There is no such key",
            place=str(path),
            remedy="openssl ecparam -name prime256v1 -genkey -noout -out key.pem makes one, "
            "openssl ec -in key.pem -pubout -out key.pub its public part.",
        )


def _unusable_key(path: Path, error: Exception) -> ServableError:
    why = "it is of no elliptic curve" if isinstance(error, AttributeError) else _one_line(error)
    return ServableError(
        f"The key cannot be used: {why}",
        place=str(path),
        remedy="Expected PEM of an elliptic curve: the private key to sign, the public one to verify. "
        f"A password is taken from {PASSWORD_VARIABLE}.",
    )


def _what_differs(error: Exception) -> str:
    """The files that a mismatch is about; else what was raised."""
    text = _one_line(error)
    if "Key mismatch" in text:
        return "another key signed it"
    if isinstance(error, json.JSONDecodeError | KeyError | TypeError | AttributeError):
        return f"{FILE} is damaged"
    told = [
        expression.sub(words, message)
        for message in _mismatches(text)
        for expression, words in _DIFFERENCES
        if expression.match(message)
    ]
    return "; ".join(told) or text


_DIFFERENCES = (
    (re.compile(r"Hash mismatch for '(.+?)': .*"), r"\1 has changed"),
    (re.compile(r"Extra files found in model '.*?': (.+)"), r"\1 was added"),
    (re.compile(r"Missing files in model '.*?': (.+)"), r"\1 is missing"),
)
"""The library's sentences on what differs, and ours."""


def _mismatches(text: str) -> list[str]:
    """The sentences of a mismatch, which the library raises as the text of a list."""
    with contextlib.suppress(ValueError, SyntaxError):
        found = ast.literal_eval(text.partition("Signature mismatch: ")[2])
        return list(map(str, found))
    return []


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
