"""The pages over a recorded workspace: what they say, what they refuse, and that they change nothing."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from pipelines.cli.ui import command
from pipelines.errors import ConfigError
from pipelines.lineage.sqlite import SqliteSource
from pipelines.ui.app import make_app
from pipelines.workspace import Workspace
from tests.browser import look, needs_chromium


@pytest.fixture
def client(workspace) -> Iterator[httpx.Client]:
    """A client of a server in a thread."""
    # Its indexes are made by whoever asks first; what follows changes nothing.
    with SqliteSource(workspace / "metadata.db"):
        pass
    server = uvicorn.Server(uvicorn.Config(make_app(Workspace(workspace)), log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60
            ) as opened:
                yield opened
        finally:
            server.should_exit = True
            thread.join()


def links(html: str, begin: str) -> list[str]:
    return [link for link in re.findall(r'href="([^"]*)"', html) if link.startswith(begin)]


def test_runs_newest_first_with_a_filter(client, recorded) -> None:
    html = client.get("/").text
    assert links(html, "/runs/") == [f"/runs/{run}" for run in reversed(recorded.runs)]
    photos = client.get("/", params={"text": "photos", "state": "complete"}).text
    assert links(photos, "/runs/") == [f"/runs/{run}" for run in reversed(recorded.runs) if "photos" in run]
    assert "No run is like that." in client.get("/", params={"state": "failed"}).text


def test_many_runs_are_turned_over(client, recorded, monkeypatch) -> None:
    monkeypatch.setattr("pipelines.ui.app.PER_PAGE", 15)
    pages = [client.get("/", params={"page": number}).text for number in (1, 2, 3)]
    assert [len(links(page, "/runs/")) for page in pages] == [15, 15, 10]
    assert ["Older" in page for page in pages] == [True, True, False]


def test_every_link_leads_somewhere(client) -> None:
    seen, waiting = set[str](), ["/", "/models", "/models/digits"]
    while waiting and len(seen) < 40:
        address = waiting.pop(0)
        if address in seen:
            continue
        seen.add(address)
        answer = client.get(address)
        assert answer.status_code == 200, address
        html = answer.text.replace("&amp;", "&")
        waiting.extend(links(html, "/")[:12])
    assert {"/", "/models", "/lineage", "/models/digits"} <= seen
    assert any(address.startswith("/lineage?target=digits%40") for address in seen)


def test_a_run_s_page_shows_chain_and_lineage(client, recorded) -> None:
    html = client.get(f"/runs/{recorded.runs[0]}").text
    assert len(links(html, "#node-")) == 10
    assert links(html, "#lineage-e")


def test_two_runs_side_by_side(client, recorded) -> None:
    html = client.get("/compare", params={"run": recorded.runs[:2]}).text
    assert "What differs" in html and "/data/digits/" in html
    same = client.get("/compare", params={"run": [recorded.runs[0]] * 2}).text
    assert "Nothing differs but times and costs." in same
    one = client.get("/compare", params={"run": recorded.runs[0]})
    assert one.status_code == 400 and "Choose two" in one.text


def test_a_model_s_history(client) -> None:
    html = client.get("/models/digits").text
    assert "In service" in html and links(html, "/lineage?target=digits%40")


def test_a_lineage_in_both_directions(client) -> None:
    up = client.get("/lineage", params={"target": "digits@1"}).text
    assert "what made it" in up and len(links(up, "#lineage-e")) >= 8
    down = client.get("/lineage", params={"target": "/data/digits/1", "direction": "down"}).text
    assert "what came of it" in down
    near = client.get("/lineage", params={"target": "digits@1", "depth": "1"}).text
    assert len(links(near, "#lineage-e")) == 1 and "There is more" in near


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/runs/nothing", 404, "There is no run"),
        ("/models/digist", 404, "Did you mean &#x27;digits&#x27;"),
        ("/lineage?target=<script>x</script>", 404, "&lt;script&gt;"),
        ("/lineage?target=digits@1&depth=0", 400, "depth should be a number"),
        ("/?page=x", 400, "page should be a number"),
        ("/elsewhere", 404, "There is no such page"),
    ],
)
def test_what_is_not_there_is_said(client, address, status, said) -> None:
    answer = client.get(address)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text[-800:]
    assert "<script>x" not in answer.text


def test_nothing_is_changed(client, workspace, recorded) -> None:
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in files(workspace)}
    for address in ("/", "/models", f"/runs/{recorded.runs[0]}", "/lineage?target=digits@1"):
        assert client.get(address).status_code == 200
        for method in ("post", "put", "delete"):
            assert getattr(client, method)(address).status_code == 405
    assert {path: hashlib.sha256(path.read_bytes()).digest() for path in files(workspace)} == before


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_names_that_were_made_to_lead_here_are_refused(client) -> None:
    assert client.get("/", headers={"host": "evil.example:8600"}).status_code == 400
    assert client.get("/", headers={"host": "localhost:8600"}).status_code == 200


def test_a_port_that_is_taken(workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ConfigError, match="cannot listen"):
            command.main(["--workspace", str(workspace), "--port", port], standalone_mode=False)


@needs_chromium
@pytest.mark.parametrize("width", [1200, 390])
def test_pages_open_without_an_error_and_fit(client, recorded, tmp_path, width) -> None:
    pages = {
        "runs": client.get("/").text,
        "run": client.get(f"/runs/{recorded.runs[0]}").text,
        "lineage": client.get("/lineage", params={"target": "digits@1"}).text,
        "model": client.get("/models/digits").text,
        "compare": client.get("/compare", params={"run": recorded.runs[:2]}).text,
    }
    for name, html in pages.items():
        found, log = look(tmp_path, html, width)
        assert "CONSOLE" not in log, (name, log)
        assert (found["inner"], found["wide"]) == (width, []), name
        assert found["width"] <= width, name
        assert found["reachable"] == found["interactive"] > 3, name
