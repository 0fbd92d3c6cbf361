"""What a bulk run reads: files by their endings.

found = find(Path("scans/"))
found.kind, found.files, found.ignored
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from components.errors import DataError

Kind = Literal["images", "texts", "examples"]

SUFFIXES: dict[str, Kind] = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"), "images"),
    **dict.fromkeys((".csv", ".tsv"), "texts"),
    **dict.fromkeys((".tfrecord", ".tfrecords", ".tfrec"), "examples"),
}


@dataclass(frozen=True)
class Inputs:
    """Files of one kind.

    Attributes:
        kind: what they hold.
        files: sorted.
        ignored: files of no known kind, relative to the folder.
    """

    kind: Kind
    files: tuple[Path, ...]
    ignored: tuple[str, ...] = ()


def find(path: Path) -> Inputs:
    """The files at `path`: one file, or all below a folder but hidden ones.

    Raises:
        DataError: there are none, or they are of several kinds.
    """
    files = list(_visible(path)) if path.is_dir() else [path] if path.exists() else []
    kinds = {file: kind_of(file) for file in files}
    known = sorted({kind for kind in kinds.values() if kind})
    if len(known) != 1:
        raise DataError(
            f"The input should hold files of one kind; found {', '.join(known) or 'none'}",
            place=str(path),
            remedy=f"Known endings: {', '.join(SUFFIXES)}, each also with .gz for examples.",
        )
    base = path if path.is_dir() else path.parent
    chosen = tuple(file for file, kind in kinds.items() if kind)
    ignored = tuple(str(file.relative_to(base)) for file, kind in kinds.items() if not kind)
    return Inputs(known[0], chosen, ignored)


def kind_of(path: Path) -> Kind | None:
    """The kind of a file by its ending; None where unknown."""
    zipped = path.suffix.lower() == ".gz"
    kind = SUFFIXES.get(Path(path.stem).suffix.lower() if zipped else path.suffix.lower())
    # TFX's own shards are called data_tfrecord-00000-of-00001.gz.
    return "examples" if zipped and (kind is None or kind == "examples") else None if zipped else kind


def _visible(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _visible(path)
        elif path.is_file():
            yield path
