"""Sentences of a wheel's translation catalogues."""

from __future__ import annotations

import csv
import subprocess
import zipfile
from pathlib import Path

import pytest

from pipelines.datasets import languages
from pipelines.errors import InputError

GERMAN = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"

#, python-format
msgid "Please correct %(count)d errors."
msgstr ""
"Bitte korrigieren Sie "
"%(count)d Fehler."

msgctxt "a noun that is long"
msgid "Save"
msgstr "Sichern"

msgid "One long sentence"
msgid_plural "Many long sentences"
msgstr[0] "Ein langer Satz"
msgstr[1] "Viele lange Sätze"

#~ msgid "Commented out, long ago"
#~ msgstr "Auskommentiert, vor langem"

msgid "International"
msgstr "International"
"""


@pytest.fixture
def wheel(tmp_path) -> Path:
    path = tmp_path / "django.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("django/conf/locale/de/LC_MESSAGES/django.po", GERMAN)
        archive.writestr("django/contrib/auth/locale/de/LC_MESSAGES/django.po", GERMAN)
        archive.writestr(
            "django/conf/locale/en/LC_MESSAGES/django.po",
            'msgid "International"\nmsgstr ""\n\nmsgid "The date and the time"\nmsgstr ""\n',
        )
        archive.writestr(
            "django/conf/locale/de/LC_MESSAGES/djangojs.po", 'msgid "a"\nmsgstr "nicht gelesen"\n'
        )
        archive.writestr("django/conf/locale/xx/LC_MESSAGES/django.po", 'msgid "a"\nmsgstr "nicht gelesen"\n')
    return path


def test_sentences_come_once_and_in_one_language(wheel) -> None:
    assert sorted(languages.sentences(wheel)) == [
        ("Bitte korrigieren Sie Fehler.", "de"),
        ("Ein langer Satz", "de"),
        ("The date and the time", "en"),
        ("Viele lange S\u00e4tze", "de"),
    ]


def test_the_wheel_is_fetched_once(wheel, tmp_path, monkeypatch) -> None:
    calls = []

    def download(command, **_):
        calls.append(command)
        wheel.rename(Path(command[command.index("--dest") + 1], "django.whl"))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", download)
    path = languages.write(tmp_path / "data")
    assert languages.write(tmp_path / "data") == path
    assert len(calls) == 1
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert set(rows[0]) == {"text", "language"}
    assert [item.name for item in path.parent.iterdir()] == [languages.FILE]


def test_without_a_registry_it_is_said_what_to_do(tmp_path, monkeypatch) -> None:
    def fail(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no\nERROR: No matching distribution")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(InputError, match="No matching distribution"):
        languages.write(tmp_path / "data")
    assert not (tmp_path / "data" / languages.FILE).exists()
