"""Lists image files: what folders and lists say of split and class.

    sources, ignored = list_images(Path("photos"))

Layouts: `<class>/*.jpg`, `<split>/<class>/*.jpg`, or a CSV with the columns
`file` and `label` (paths relative to the CSV's folder), and perhaps `split`.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from components.errors import DataError
from components.example_gen import origins
from components.example_gen.request import Source

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")

SPLIT_FOLDERS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class FileRecord:
    """One input file as it was when it was read, so that rows can be traced to it.

    Attributes:
        path: absolute, or the address that it was fetched from.
        bytes: its size; -1 where it could not be read.
        sha256: of its content, hexadecimal; empty where it could not be read.
        group: its rows are in `Split-*/data_tfrecord-<group>-*`, in input order.
        records: good records it gave.
        bad: records in it that could not be used.
    """

    path: str
    bytes: int
    sha256: str
    group: int
    records: int
    bad: int


def record_file(path: str, group: int, records: int, bad: int, content: bytes | None = None) -> FileRecord:
    """Digests a file that was just read: the content itself, or where the reader has not kept it, the
    file once more, from the page cache.

    A table is read in several passes, a Parquet file from its end: no reader meets
    each byte once. That this second digest is the one that the run began with (see
    `executor.check_unchanged`) is what proves that all passes saw the same bytes.
    """
    origin = origins.name(path)
    if content is not None:
        return FileRecord(origin, len(content), hashlib.sha256(content).hexdigest(), group, records, bad)
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return FileRecord(origin, file.tell(), digest, group, records, bad)
    except OSError:  # the reader has already made it a bad record
        return FileRecord(origin, -1, "", group, records, bad)


def digest(files: Iterable[tuple[str, str]]) -> str:
    """SHA-256 over names and contents: what stands for the data in the cache's key.

    Names count from the innermost folder that holds all files, and at least with their own folder: a
    picture that is moved to another class or split is other data, and all of it elsewhere is not.

    Args:
        files: path, and SHA-256 of its content in hexadecimal, in the order of the sources.
    """
    pairs = list(files)
    names = [path for path, _ in pairs]
    # What the first and the last name in order begin with, all do.
    ends = (min(names, default=""), max(names, default=""))
    shared = os.path.commonpath([name.rpartition("/")[0] for name in ends])
    total = hashlib.sha256()
    for path, content in pairs:
        own = "/".join(f"/{path}".split("/")[-2:])
        total.update(f"{path[len(shared) :]}\0{own}\0{content}\n".encode())
    return total.hexdigest()


def list_images(root: Path) -> tuple[list[Source], list[str]]:
    """The image sources below a folder or in a list; and what was passed over.

    They come in an order that mixes the classes, the same wherever the folder
    lies. What trains on them can only shuffle what fits in memory: class after
    class, it would be shown one class for thousands of pictures, then another.

    Hidden files and folders are passed over without a word, as every file
    manager does; other files that are no images are returned by name.

    Raises:
        DataError: a link leads out of the root, a list is damaged, or there is no image.
    """
    found, ignored = (_from_list(root), list[str]()) if root.is_file() else _from_folders(root)
    if not found:
        raise DataError(
            "There are no images here",
            place=str(root),
            remedy=f"Expected <class>/*.jpg or <split>/<class>/*.jpg; endings: {', '.join(SUFFIXES)}.",
        )
    start = len(str(root if root.is_dir() else root.parent.resolve()))
    return sorted(found, key=lambda source: _mixed(source.path[start:])), ignored


def _mixed(name: str) -> bytes:
    return hashlib.sha256(name.encode(errors="surrogateescape")).digest()


def _from_folders(root: Path) -> tuple[list[Source], list[str]]:
    has_splits = _has_split_folders(root)
    sources: list[Source] = []
    ignored: list[str] = []
    start = len(str(root / "_")) - 1
    for path in _visible_files(str(root), root.resolve()):
        parts = path[start:].split("/")
        folders = parts[1:-1] if has_splits else parts[:-1]
        if not path.lower().endswith(SUFFIXES) or not folders:
            ignored.append(path[start:])
            continue
        split = SPLIT_FOLDERS[parts[0].lower()] if has_splits else ""
        sources.append(Source(path, split, folders[0]))
    return sources, ignored


def _has_split_folders(root: Path) -> bool:
    names = [path.name.lower() for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")]
    splits = {SPLIT_FOLDERS[name] for name in names if name in SPLIT_FOLDERS}
    others = sorted(name for name in names if name not in SPLIT_FOLDERS)
    if "train" in splits and len(splits) > 1 and others:
        # As classes they would be told apart, and no picture's class be learned.
        raise DataError(
            f"Beside folders of splits lies another: {others[0]}",
            place=str(root),
            remedy="Move it elsewhere; or, if all are classes, name them otherwise than splits.",
        )
    return "train" in splits and not others


def _visible_files(folder: str, root: Path) -> Iterator[str]:
    # Of a listing's entries the kind is known: a million images are not asked for it one by one.
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            _check_inside(Path(entry.path), root)
        if entry.is_dir():
            yield from _visible_files(entry.path, root)
        elif entry.is_file():
            yield entry.path


def _check_inside(path: Path, root: Path) -> None:
    """Links must stay below the data's root: data must not choose what else is read."""
    if not path.resolve().is_relative_to(root):
        raise DataError(
            f"A path leads out of the data's folder, to {path.resolve()}",
            place=str(path),
            remedy="Copy the file into the folder.",
        )


def names_in_list(path: Path) -> list[str]:
    """The files that a list of images names, as it names them.

    Raises:
        DataError: it has not the columns.
    """
    return [row["file"] for row in _rows(path) if row["file"]]


def _from_list(path: Path) -> list[Source]:
    root = path.parent.resolve()
    found = [_listed(row, number, path, root) for number, row in enumerate(_rows(path))]
    bare = next((number for number, source in enumerate(found) if not source.split), None)
    if bare is not None and any(source.split for source in found):
        raise DataError(
            "A row names no split, though others do",
            place=f"{path}, row {bare}",
            remedy="Name one in every row, or in none.",
        )
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        return _read_rows(path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"A list of images is no CSV in UTF-8: {error}", place=str(path), remedy="Write it anew."
        ) from error


def _read_rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        if "file" not in columns or "label" not in columns:
            raise DataError(
                f"A list of images should have the columns file and label; received {', '.join(columns)}",
                place=str(path),
            )
        return list(reader)


def _listed(row: dict[str, str], number: int, path: Path, root: Path) -> Source:
    name, label, split = row.get("file") or "", row.get("label") or "", row.get("split") or ""
    place = f"{path}, row {number}"
    if not name or not label:
        raise DataError("A row of a list of images lacks file or label", place=place)
    if split and split.lower() not in SPLIT_FOLDERS:
        raise DataError(f"A row names the split {split!r}; known: train, validation, test", place=place)
    target = root / name
    _check_inside(target, root)
    if not target.is_file():
        raise DataError(f"A listed image is not there: {name}", place=place, remedy="Mend the list.")
    return Source(str(target), SPLIT_FOLDERS.get(split.lower(), ""), label)
