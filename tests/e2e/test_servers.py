"""A run whose record is on a PostgreSQL server, from the command line, and then from the cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.postgresql(("whole",)) as running:
        yield running


def test_the_record_is_there_and_the_password_nowhere(server, headrace, tmp_path) -> None:
    (tmp_path / "password").write_text(servers.PASSWORD)
    workspace = tmp_path / "w"
    sets = (f"metadata.url={server.url('whole')}", f"metadata.password_file={tmp_path / 'password'}")
    command = ("run", "digits", "--to", "ExampleGen", "--workspace", str(workspace))
    options = [word for item in sets for word in ("--set", item)]
    for expected in ("1 executed, 0 cached", "0 executed, 1 cached"):
        done = headrace(*command, *options)
        assert done.code == 0 and expected in done.out, done.out + done.err
    assert not (workspace / "metadata.db").exists()
    listed = headrace("runs", "--workspace", str(workspace))
    assert listed.out.count("digits-") >= 2
    up = headrace("lineage", "latest", "--workspace", str(workspace))
    assert up.code == 0 and "tfrecord" in up.out
    written = [path for path in workspace.rglob("*") if path.is_file()]
    assert not any(servers.PASSWORD.encode() in path.read_bytes() for path in written)
    elsewhere = headrace(
        "run", "digits", "--workspace", str(workspace), "--set", "metadata.url=mysql://a@b/c"
    )
    assert elsewhere.code == 2 and "The history of this workspace is in" in elsewhere.err
    assert Path(workspace, "metadata.json").exists()
