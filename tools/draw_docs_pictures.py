"""Draws the pictures of the documentation: `python tools/draw_docs_pictures.py [WORKSPACE]`.

docs/tutorials/signs.jpg     a sheet of the pictures that the tutorial practises on
docs/pictures/report.png     the page of a workspace's latest run, by headless Chromium

The second needs a workspace in which `headrace run digits` has been run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COLUMNS, SIDE = 10, 96


def sheet(target: Path) -> None:
    """A row of pictures for each sign."""
    with tempfile.TemporaryDirectory() as folder:
        script = DOCS / "tutorials" / "draw_photos.py"
        subprocess.run([sys.executable, str(script), folder, "--count", str(COLUMNS)], check=True)
        rows = [sorted(sign.glob("*.jpg")) for sign in sorted(Path(folder).iterdir())]
        whole = Image.new("RGB", (COLUMNS * SIDE, len(rows) * SIDE))
        for row, files in enumerate(rows):
            for column, file in enumerate(files):
                whole.paste(Image.open(file).resize((SIDE, SIDE)), (column * SIDE, row * SIDE))
        whole.save(target, quality=80)


def report(workspace: str, target: Path) -> None:
    """The beginning of a run's page, 1200 pixels wide."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is not installed; tools/install_test_programs.sh installs it")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        headrace = [sys.executable, "-m", "pipelines.cli.main"]
        made = ["report", "latest", "-o", str(page), "--workspace", workspace]
        subprocess.run([*headrace, *made], check=True, cwd=ROOT)
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/p",
        ]
        shot = [f"--screenshot={target}", "--window-size=1200,1000", page.as_uri()]
        subprocess.run([chromium, *flags, *shot], check=True, capture_output=True)
    Image.open(target).quantize(128).save(target, optimize=True)


def main() -> None:
    sheet(DOCS / "tutorials" / "signs.jpg")
    if len(sys.argv) > 1:
        report(str(Path(sys.argv[1]).absolute()), DOCS / "pictures" / "report.png")


if __name__ == "__main__":
    main()
