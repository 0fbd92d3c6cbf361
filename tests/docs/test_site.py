"""The site: built strictly, whole, and readable without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.pages import DOCS, PAGES, name_of


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Built as `make docs` does: a warning, such as a dead link, fails it."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        f"{folder}/trees",
    ]
    done = subprocess.run(
        [*command, str(DOCS), f"{folder}/html"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


def test_every_page_is_in_it_and_in_its_navigation(site) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    pages = [page for page in PAGES if page.is_relative_to(DOCS)] + [DOCS / "tutorials" / "python.ipynb"]
    linked = [str(page.relative_to(DOCS).with_suffix(".html")) for page in pages if page.stem != "index"]
    assert [page for page in linked if f'href="{page}"' not in start] == []


def test_nothing_is_loaded_from_elsewhere(site) -> None:
    loaded = re.compile(
        r'<(?:script|img|iframe|link rel="(?:stylesheet|preload|icon)")[^>]*(?:src|href)="(//|https?:)'
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []
    styles = [path for path in site.rglob("*.css") if re.search(r"url\(['\"]?(//|https?:)", path.read_text())]
    assert styles == []


def test_the_reference_is_made_from_the_code(site) -> None:
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "headrace run digits --set train.epochs=5 --to Trainer" in re.sub("<.*?>", "", commands)
    assert 'id="cmdoption-headrace-models-prune-keep"' in commands
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert 'id="pipelines.api.Project.compare"' in python
    errors = (site / "reference" / "errors.html").read_text(encoding="utf-8")
    assert "There are no images here" in errors and "<em>experiment</em>" in errors


@pytest.mark.parametrize("page", [page for page in PAGES if not page.is_relative_to(DOCS)], ids=name_of)
def test_links_of_pages_outside_of_the_site(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith(("http:", "https:", "mailto:"))]
    assert [link for link in local if not (page.parent / link).exists()] == []
