"""A page in headless Chromium: what its own script and layout make of it, and the browser's log.

found, log = look(tmp_path, html, width=390, go_to="#node-Trainer")
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed; tools/install_test_programs.sh installs it"
)

# Appended to the page: what a test wants to know, sent to the frame around it.
_PROBE = """<script>
addEventListener("load", () => {
  location.hash = "GO_TO";
  setTimeout(() => {
    const wide = [...document.querySelectorAll("main *")].filter((item) =>
      item.getBoundingClientRect().right > innerWidth + 1 && !item.closest(".scroll, pre, svg"));
    const folded = (item) => item.tagName !== "SUMMARY" && item.closest("details:not([open])");
    const all = [...document.querySelectorAll("a[href], summary, [tabindex], input, select, button")]
      .filter((item) => !folded(item));
    const reachable = all.filter((item) => (item.focus(), document.activeElement === item));
    const links = (chosen) =>
      [...document.querySelectorAll(chosen)].map((item) => item.getAttribute("href"));
    parent.postMessage(JSON.stringify({
      open: [...document.querySelectorAll("details[open]")].map((item) => item.id),
      chain: links("#chain svg.graph a"),
      lineage: links("#lineage svg.graph a"),
      width: document.documentElement.scrollWidth,
      inner: innerWidth,
      wide: wide.map((item) => item.outerHTML.slice(0, 80)),
      reachable: reachable.length,
      interactive: all.length,
    }), "*");
  }, 200);
});
</script></body>"""

# Chromium's own window is never narrower than 500 pixels; a frame is as narrow as it is told.
_FRAME = """<!doctype html><title>-</title><body style="margin:0">
<script>addEventListener("message", (event) => { document.title = event.data; });</script>
<iframe src="page.html" width="WIDTH" height="900" style="border:0"></iframe>"""


def look(tmp_path: Path, html: str, width: int, go_to: str = "") -> tuple[dict[str, Any], str]:
    """What the page says of itself after it has loaded and gone to a link in it, and the log."""
    probe = _PROBE.replace("GO_TO", go_to)
    (tmp_path / "page.html").write_text(html.replace("</body>", probe), encoding="utf-8")
    target = tmp_path / "frame.html"
    target.write_text(_FRAME.replace("WIDTH", str(width)))
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--enable-logging=stderr", "--virtual-time-budget=3000",
            f"--user-data-dir={tmp_path}/profile", "--window-size=1400,900", "--dump-dom", target.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout, re.DOTALL)
    assert title, done.stdout[:2000] + done.stderr[-2000:]
    return json.loads(unescape(title.group(1))), done.stderr
