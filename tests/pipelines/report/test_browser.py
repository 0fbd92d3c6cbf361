"""The page in headless Chromium: it opens without an error, and is as wide as a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from typing import Any

import pytest

from pipelines.report import statistics
from pipelines.report.features import features
from pipelines.report.page import page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

# Appended to the page: what a test wants to know, sent to the frame around it.
PROBE = """<script>
addEventListener("load", () => {
  location.hash = "#node-Trainer";
  setTimeout(() => {
    const wide = [...document.querySelectorAll("main *")].filter((item) =>
      item.getBoundingClientRect().right > innerWidth + 1 && !item.closest(".scroll, pre, svg"));
    const reachable = [...document.querySelectorAll("a[href], summary, [tabindex]")].filter((item) =>
      (item.focus(), document.activeElement === item)).length;
    parent.postMessage(JSON.stringify({
      open: document.getElementById("node-Trainer").open,
      boxes: document.querySelectorAll("svg.chain a").length,
      width: document.documentElement.scrollWidth,
      inner: innerWidth,
      wide: wide.map((item) => item.outerHTML.slice(0, 80)),
      reachable,
    }), "*");
  }, 200);
});
</script></body>"""


# Chromium's own window is never narrower than 500 pixels; a frame is as narrow as it is told.
FRAME = """<!doctype html><title>-</title><body style="margin:0">
<script>addEventListener("message", (event) => { document.title = event.data; });</script>
<iframe src="page.html" width="WIDTH" height="900" style="border:0"></iframe>"""


def run(tmp_path, html: str, width: int) -> tuple[str, str]:
    """The frame's document after the page has loaded in it, and the browser's log."""
    (tmp_path / "page.html").write_text(html.replace("</body>", PROBE), encoding="utf-8")
    target = tmp_path / "frame.html"
    target.write_text(FRAME.replace("WIDTH", str(width)))
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--enable-logging=stderr", "--virtual-time-budget=3000",
            f"--user-data-dir={tmp_path}/profile", "--window-size=1400,900", "--dump-dom", target.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout, done.stderr


@pytest.fixture
def html(full_view) -> str:
    return page(full_view, why="Because.", tree="m@3: what made it", made_at=0.0)


def probed(document: str) -> dict[str, Any]:
    title = re.search(r"<title>(\{.*?\})</title>", document, re.DOTALL)
    assert title, document[:2000]
    return json.loads(unescape(title.group(1)))


def test_it_opens_without_an_error_and_can_be_reached_by_keyboard(tmp_path, html) -> None:
    document, log = run(tmp_path, html, 1200)
    assert "CONSOLE" not in log, log
    found = probed(document)
    assert found["open"]  # a link to a node opens its details
    assert found["boxes"] == 8
    assert found["reachable"] >= found["boxes"] + 20
    assert found["wide"] == []


def test_an_error_would_be_seen(tmp_path, html) -> None:
    _, log = run(tmp_path, html.replace("addEventListener", "addEventLstener", 1), 1200)
    assert "CONSOLE" in log


def test_it_fits_a_phone(tmp_path, html) -> None:
    document, log = run(tmp_path, html, 390)
    assert "CONSOLE" not in log, log
    found = probed(document)
    assert (found["inner"], found["wide"]) == (390, [])
    assert found["width"] <= 390


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_of_statistics_fits_too(tmp_path, full_view, width: int) -> None:
    text = statistics.page("taxi-1", features(full_view), made_at=0.0)
    document, log = run(tmp_path, text.replace("feature-0", "node-Trainer"), width)
    assert "CONSOLE" not in log, log
    found = probed(document)
    assert (found["inner"], found["wide"]) == (width, [])
    assert found["width"] <= width
