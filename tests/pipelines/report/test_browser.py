"""The page in headless Chromium: it opens without an error, and is as wide as a phone."""

from __future__ import annotations

import pytest

from pipelines.report import statistics
from pipelines.report.features import features
from pipelines.report.page import page
from tests.browser import look, needs_chromium
from tests.pipelines.report.conftest import ORDER

pytestmark = needs_chromium


@pytest.fixture
def html(gathered) -> str:
    return page(gathered, made_at=0.0)


def test_it_opens_without_an_error_and_can_be_reached_by_keyboard(tmp_path, html) -> None:
    found, log = look(tmp_path, html, 1200, "#node-Trainer")
    assert "CONSOLE" not in log, log
    assert found["open"] == ["node-Trainer"]  # a link to a node opens its details
    assert sorted(found["chain"]) == sorted(f"#node-{name}" for name in ORDER)
    assert sorted(found["lineage"]) == [f"#lineage-{key}" for key in ("a1", "a3", "a4", "e7", "e8", "e9")]
    assert found["reachable"] == found["interactive"] >= 30
    assert found["wide"] == []


def test_an_error_would_be_seen(tmp_path, html) -> None:
    _, log = look(tmp_path, html.replace("addEventListener", "addEventLstener", 1), 1200)
    assert "CONSOLE" in log


def test_it_fits_a_phone(tmp_path, html) -> None:
    found, log = look(tmp_path, html, 390, "#lineage-e7")
    assert "CONSOLE" not in log, log
    assert (found["inner"], found["wide"], found["open"]) == (390, [], ["lineage-e7"])
    assert found["width"] <= 390


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_of_statistics_fits_too(tmp_path, full_view, width: int) -> None:
    text = statistics.page("taxi-1", features(full_view), made_at=0.0)
    found, log = look(tmp_path, text, width, "#feature-0")
    assert "CONSOLE" not in log, log
    assert (found["inner"], found["wide"]) == (width, [])
    assert found["width"] <= width
