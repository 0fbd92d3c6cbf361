"""Versions that leave the workspace: signed, verified, packed for others.

folder = find(workspace, "digits@3")
sign(workspace, "digits@3", Path("key.pem"))
export_zip(workspace, "digits@3", Path("digits-3.zip"))
export_hugging_face(workspace, "digits@3", Path("hub/"))
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from components.errors import PushError, ServableError, UserError
from components.serving import manifest, signature
from components.serving_pusher import mirror
from components.serving_pusher import root as serving_root
from pipelines import operations
from pipelines.cards import card, hub
from pipelines.cards.blocks import html, markdown
from pipelines.cards.known import Known, known
from pipelines.errors import ConfigError, HeadraceError, InputError, NotFoundError, WorkspaceError
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.workspace import Workspace

_NAME = re.compile(r"(?P<model>[^@/]+)@(?P<version>\d+|latest)")


class UnverifiedError(HeadraceError):
    """A version that is not signed by whom it should, or not as it was signed."""

    exit_code = 1


@dataclass(frozen=True)
class Found:
    """A version in the workspace: its model, number, serving root and folder."""

    model: str
    number: int
    root: Path
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.model}@{self.number}"


def is_version(name: str) -> bool:
    """Whether a name looks like MODEL@VERSION, and not like a folder's."""
    return bool(_NAME.fullmatch(name))


def parts(name: str) -> tuple[str, str]:
    """Model and version of MODEL@VERSION; a version is digits or `latest`.

    Raises:
        ConfigError: it looks otherwise.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError(
            f"Expected MODEL@VERSION. Received: {name!r}", remedy=f"For example {name.split('@')[0]}@latest."
        )
    return match["model"], match["version"]


def find(workspace: Workspace, name: str) -> Found:
    """The folder of `digits@3`, or of `digits@latest`, the version in service.

    Raises:
        NotFoundError: there is no such model or version, or its folder is gone.
    """
    model, version = parts(name)
    root = operations.root_of(workspace, model)
    number = serving_root.in_service(root) if version == "latest" else int(version)
    folder = serving_root.folder_of(root, number) if number is not None else None
    if number is None or folder is None:
        there = ", ".join(map(str, serving_root.versions(root))) or "none"
        raise NotFoundError(f"The version {name} is not there", place=str(root), remedy=f"There: {there}.")
    return Found(model, number, root, folder)


def sign(workspace: Workspace, name: str, private_key: Path) -> list[str]:
    """Signs a version, and the copies of it elsewhere; returns what was done, in sentences.

    Raises:
        NotFoundError, WorkspaceError, HeadraceError: see `find`; the version is damaged; the key or
            a copy cannot be used.
    """
    found = find(workspace, name)
    _refuse_damaged(found.folder)
    with _as_command_errors():
        target = signature.sign(found.folder, private_key)
        return [f"{found.name} signed: {target}", *mirror.add(found.root, found.number, signature.FILE)]


def sign_folder(folder: Path, private_key: Path) -> list[str]:
    """Signs any folder, such as an exported one.

    Raises:
        HeadraceError: it is not there, or the key cannot be used.
    """
    _check_folder(folder)
    with _as_command_errors():
        return [f"Signed: {signature.sign(folder, private_key)}"]


def verify(folder: Path, public_key: Path) -> None:
    """Checks a folder against its signature.

    Raises:
        HeadraceError: it is not there, not signed, not by that key, or not as it was signed.
    """
    _check_folder(folder)
    with _as_command_errors():
        signature.verify(folder, public_key)


def export_zip(workspace: Workspace, name: str, target: Path) -> None:
    """Packs a version with its card: `MODEL/VERSION/...`, README.md and card.html.

    The same version gives the same bytes. The folder `MODEL` of the unpacked
    file is a serving root.

    Raises:
        NotFoundError, WorkspaceError: see `find`; the version is damaged, or the file cannot be written.
    """
    found, what = _whole(workspace, name)
    made = card.of(what)
    files = {path.relative_to(found.folder).as_posix(): path for path in _files(found.folder)}
    with _written_whole(target) as scratch, zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
        at = datetime.fromtimestamp(what.push.at, UTC).timetuple()[:6]
        for path, text in (("README.md", markdown(made)), ("card.html", html(made))):
            archive.writestr(_entry(path, at), text.encode())
        for path, source in sorted(files.items()):
            entry = _entry(f"{found.model}/{found.number}/{path}", at)
            with source.open("rb") as reader, archive.open(entry, "w") as writer:
                shutil.copyfileobj(reader, writer)


def _entry(path: str, at: tuple[int, ...]) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(path, (at[0], at[1], at[2], at[3], at[4], at[5]))
    made.compress_type = zipfile.ZIP_DEFLATED
    made.external_attr = 0o644 << 16
    return made


def export_hugging_face(workspace: Workspace, name: str, target: Path) -> None:
    """Writes a version as a repository of the Hugging Face Hub lies on a disk.

    The version's files, README.md (the card under a heading that the Hub
    reads), config.json and .gitattributes. `model.sig` is left out, since the
    folder holds more than was signed.

    Args:
        workspace: where the version is.
        name: MODEL@VERSION.
        target: a new or empty folder.

    Raises:
        NotFoundError, WorkspaceError, InputError: see `export_zip`; the folder holds something.
    """
    found, what = _whole(workspace, name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError("The folder is not empty", place=str(target), remedy="Name a new one.")
    texts = {
        "README.md": hub.readme(what, markdown(card.of(what, from_hub=True))),
        "config.json": json.dumps(hub.config(what), indent=2, ensure_ascii=False) + "\n",
        ".gitattributes": hub.ATTRIBUTES,
    }
    with _written_whole(target) as scratch:
        shutil.copytree(found.folder, scratch, ignore=lambda _, names: set(names) & {signature.FILE})
        for path, text in texts.items():
            (scratch / path).write_text(text, encoding="utf-8")


def _whole(workspace: Workspace, name: str) -> tuple[Found, Known]:
    """A version that is as it was pushed, with what is known of it."""
    found = find(workspace, name)
    _refuse_damaged(found.folder)
    with record_of(workspace) as source:
        return found, known(source, query.find_push(source, found.model, str(found.number)))


def _refuse_damaged(folder: Path) -> None:
    with _as_command_errors():
        faults = manifest.faults(folder)
    if faults:
        raise WorkspaceError(
            f"The version is not as it was pushed: {'; '.join(faults[:3])}",
            place=str(folder),
            remedy="Push it again (headrace run), or name another version.",
        )


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise NotFoundError(
            "There is no such folder", place=str(folder), remedy="Name one, or MODEL@VERSION."
        )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextlib.contextmanager
def _written_whole(target: Path) -> Iterator[Path]:
    """A place beside `target` that becomes it at the end, or is removed.

    Raises:
        WorkspaceError: it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
            made = Path(scratch, "made")
            yield made
            if target.is_dir():
                target.rmdir()  # an empty one, as was looked up before
            made.replace(target)
    except OSError as error:
        raise WorkspaceError(
            f"The export cannot be written: {error.strerror or error}",
            place=str(target),
            remedy="Name a place that you may write to.",
        ) from error


@contextlib.contextmanager
def _as_command_errors() -> Iterator[None]:
    try:
        yield
    except (ServableError, PushError) as error:
        raise _command_error(error) from error


def _command_error(error: UserError) -> HeadraceError:
    kind = UnverifiedError if isinstance(error, signature.UnverifiedError) else HeadraceError
    return kind(error.headline, place=error.place, remedy=error.remedy)
