"""The page: every section, nothing unescaped, nothing from outside; and what is missing leaves no hole."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pipelines.lineage.query import Lineage, Target
from pipelines.lineage.records import RunRecord
from pipelines.lineage.view import RunView
from pipelines.report.page import Gathered, page

NOTHING = Lineage(Target("run", "run m", ()), "up", {}, {}, [], cut=False)
SECTIONS = ["chain", "data", "training", "candidates", "evaluation", "mistakes", "lineage", "environment"]


class Parsed(HTMLParser):
    """Collects ids, links, tags and text, and checks that elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids.extend([given["id"] or ""] if "id" in given else [])
        self.links.extend(value or "" for key, value in attrs if key in ("href", "src"))
        if tag not in ("meta", "link", "img", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def html(gathered) -> str:
    return page(gathered, made_at=0.0)


def test_every_section_is_there_and_linked(html) -> None:
    parsed = Parsed(html)
    assert [name for name in parsed.ids if name in SECTIONS] == SECTIONS
    inner = [link[1:] for link in parsed.links if link.startswith("#")]
    assert set(inner) <= set(parsed.ids)
    assert set(SECTIONS) <= set(inner)
    assert len(parsed.ids) == len(set(parsed.ids))


def test_nothing_is_loaded_from_anywhere(html) -> None:
    links = Parsed(html).links
    assert links and all(link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"https?://|@import|url\((?!#)", html)


def test_other_people_s_text_is_text(html) -> None:
    """Labels, file names and reasons hold markup; none of it becomes an element."""
    parsed = Parsed(html)
    assert parsed.tags.count("script") == 1
    assert "i" not in parsed.tags and "x" not in parsed.tags
    whole = "".join(parsed.texts)
    for text in ("<b>x</b>", "<i>broke</i>", "<script>alert(1)</script>.csv", "<x>.csv"):
        assert text in whole


def test_what_it_says(html) -> None:
    text = re.sub(r"\s+", " ", " ".join(Parsed(html).texts))
    for part in (
        "m-1-aaaa",
        "Because.",
        "identity ✓ 4 2.00 0.80 -",  # kB, ms, and the ms beside the trained model's
        "6 train, 4 validation",
        "Examples contain values missing from the schema: 7.",
        "1 to 3; mean 2",
        "10.0%",  # missing
        "1,234",
        "restless drift Jensen-Shannon 0.290 0.3 calm",
        "Not blessed:",
        "expected at least 0.95",
        "Confusion on the test split",
        "+0.0500",  # change against the baseline
        "Of 4 examples of the validation split, on which candidates were judged, 1 were wrong.",
        "<b>x</b> taken for 0 (70%)",
        "part-0.csv",
        "ada",
        "mill",
    ):
        assert part in text, part


def test_slices_and_classes_are_in_natural_order(html) -> None:
    assert html.index("label=9") < html.index("label=10")
    assert html.index('scope="row" class="number">9<') < html.index('scope="row" class="number">10<')


def test_a_run_that_only_began() -> None:
    view = RunView(RunRecord("m-1-aaaa", "m", "running", 0.0, None), {}, [])
    parsed = Parsed(page(Gathered(view, "", NOTHING), made_at=0.0))
    assert [name for name in parsed.ids if name in SECTIONS] == ["environment"]


def test_a_failed_run_says_why(full_view) -> None:
    error = {"headline": "Node Trainer failed: boom", "place": "Trainer.log", "remedy": "Look there."}
    failed = replace(full_view.run, state="failed", details={"error": error})
    html = page(Gathered(replace(full_view, run=failed), "", NOTHING), made_at=0.0)
    assert "Node Trainer failed: boom" in html and "Look there." in html


@pytest.mark.parametrize("gone", ["examples", "rewrite", "evaluation", "model_run", "statistics", "report"])
def test_artifacts_that_were_removed_leave_no_hole(gathered, tmp_path, gone: str) -> None:
    shutil.rmtree(tmp_path / gone)
    parsed = Parsed(page(gathered, made_at=0.0))
    missing = {
        "rewrite": "mistakes",
        "examples": "mistakes",
        "evaluation": "evaluation",
        "model_run": "training",
    }
    assert (missing.get(gone, "none") in parsed.ids) is False
    assert {"chain", "environment"} <= set(parsed.ids)
