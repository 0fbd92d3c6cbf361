"""What the tutorials practise on: the same every time, and as they say it is."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

from PIL import Image

from tests.docs.pages import DOCS


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, str(DOCS / "tutorials" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.jpg"))}


def test_pictures_of_four_signs(tmp_path) -> None:
    said = run("draw_photos.py", str(tmp_path / "one"), "--count", "3")
    run("draw_photos.py", str(tmp_path / "two"), "--count", "3")
    drawn = contents(tmp_path / "one")
    assert said.startswith("drew 3 pictures each of give-way, no-entry, priority, stop")
    assert len(set(drawn.values())) == len(drawn) == 12
    assert drawn == contents(tmp_path / "two")
    assert Image.open(tmp_path / "one" / "stop" / "002.jpg").size == (128, 128)


def test_messages_on_four_matters(tmp_path) -> None:
    for name in ("one.csv", "two.csv"):
        run("write_texts.py", str(tmp_path / name), "--count", "200")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    with (tmp_path / "one.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    counts = Counter(row["label"] for row in rows)
    assert set(counts) == {"delivery", "payment", "praise", "return"}
    assert sum(counts.values()) == 200 and min(counts.values()) > 30
    assert all("{" not in row["text"] and len(row["text"]) > 20 for row in rows)
