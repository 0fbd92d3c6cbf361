"""Which database a workspace's record is in; passwords stay out of everything that is kept."""

from __future__ import annotations

import json

import pytest

from pipelines import config, errors
from pipelines.lineage.database import PASSWORD_VARIABLE, VARIABLE, Database, Server, settle
from pipelines.stages import Metadata
from pipelines.workspace import Workspace

URL = "mysql://ada@db.example:3307/runs"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch) -> None:
    for name in (VARIABLE, PASSWORD_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (URL, Server("mysql", "ada", "db.example", 3307, "runs")),
        ("mariadb://ada@db/runs", Server("mysql", "ada", "db", 3306, "runs")),
        ("postgres://ada:a%40b@db/runs", Server("postgresql", "ada", "db", 5432, "runs", "", "a@b")),
        ("mysql://ada@/runs?socket=/run/s", Server("mysql", "ada", "", 3306, "runs", "/run/s")),
    ],
)
def test_urls(url, expected) -> None:
    server = Server.of(url)
    assert server == expected
    assert Server.of(server.url) == Server.of(url.replace(":a%40b", ""))


@pytest.mark.parametrize("url", ["sqlite:///x", "mysql://db/runs", "mysql://ada@db", "mysql://a@d:x/r", "x"])
def test_what_is_no_url_of_a_server(url) -> None:
    with pytest.raises(ValueError, match="mysql://USER@HOST"):
        Server.of(url)


def test_the_file_is_the_default(tmp_path) -> None:
    database = Workspace(tmp_path).database
    assert database == Database(tmp_path / "metadata.db")
    assert database.config().sqlite.filename_uri == str(tmp_path / "metadata.db")
    assert settle(tmp_path, None) == database
    assert not database.is_there()


def test_a_run_notes_its_server_for_later_commands(tmp_path) -> None:
    settled = settle(tmp_path, Metadata(url=URL, password_env="DB_PASSWORD"))
    assert Workspace.open(tmp_path).database == settled
    assert settle(tmp_path, None) == settled
    with pytest.raises(errors.WorkspaceError, match="not in mysql://ada@other:3306/runs"):
        settle(tmp_path, Metadata(url="mysql://ada@other/runs"))


def test_a_history_in_a_file_is_not_left_behind(tmp_path) -> None:
    (tmp_path / "metadata.db").write_bytes(b"")
    with pytest.raises(errors.WorkspaceError, match=r"metadata\.db"):
        settle(tmp_path, Metadata(url=URL))


def test_passwords_come_from_the_environment_or_a_file(tmp_path, monkeypatch) -> None:
    database = Database(tmp_path / "metadata.db", URL)
    assert database.password() == ""
    monkeypatch.setenv(PASSWORD_VARIABLE, "from the variable")
    assert database.config().mysql.password == "from the variable"
    monkeypatch.setenv(VARIABLE, "mysql://ada:from%20the%20url@db.example:3307/runs")
    assert database.password() == "from the url"
    (tmp_path / "secret").write_text("from the file\n")
    from_file = Database(tmp_path / "metadata.db", URL, password_file=str(tmp_path / "secret"))
    assert from_file.config().mysql.password == "from the file"
    assert from_file.config(password=False).mysql.password == ""
    with pytest.raises(errors.WorkspaceError, match="cannot be read"):
        Database(tmp_path, URL, password_file=str(tmp_path / "none")).password()


def test_the_environment_comes_first_and_its_password_is_not_noted(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "postgresql://ada:s3cret@db/runs")
    database = settle(tmp_path, Metadata(url=URL))
    assert database.url == "postgresql://ada@db:5432/runs"
    assert database.password() == "s3cret"
    assert "s3cret" not in repr(database) + (tmp_path / "metadata.json").read_text()
    assert json.loads((tmp_path / "metadata.json").read_text())["url"] == database.url


def test_a_variable_that_is_not_understood_is_not_repeated(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "mysql://ada:s3cret@db")
    with pytest.raises(errors.ConfigError, match="HEADRACE_METADATA is not understood") as caught:
        Workspace.open(tmp_path)
    assert "s3cret" not in str(caught.value)


def test_a_configured_url_may_hold_no_password() -> None:
    with pytest.raises(errors.ConfigError, match="holds a password") as caught:
        config.load("digits", ["metadata.url=mysql://ada:s3cret@db/runs"])
    assert "s3cret" not in caught.value.headline + caught.value.place + caught.value.remedy


def test_a_server_s_address_is_an_experiment_s_setting() -> None:
    experiment = config.load("digits", [f"metadata.url={URL}", "metadata.password_env=DB"])
    assert experiment.metadata == Metadata(url=URL, password_env="DB")
