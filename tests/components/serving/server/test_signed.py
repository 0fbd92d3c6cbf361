"""A server that is told whose signature versions need loads no others."""

from __future__ import annotations

import pytest

from components.errors import ServableError
from components.serving import signature
from tests import keys
from tests.components.serving.server import models
from tests.components.serving.server.running_server import in_thread, wait_for
from tests.components.serving.server.test_swap import number


def test_only_signed_versions_are_served(tmp_path) -> None:
    private, public = keys.make(tmp_path)
    root = tmp_path / "root" / "n"
    signature.sign(models.numbered(root / "1", 1), private)
    second, third = models.numbered(tmp_path / "two", 2), models.numbered(tmp_path / "three", 3)
    signature.sign(second, private)
    with (second / "saved_model.pb").open("ab") as file:
        file.write(b"\0")
    options = {"model_root": str(root.parent), "require_signature": str(public)}
    with in_thread(**options) as clients:
        assert number(clients) == 1
        models.publish(second, root, 2)
        wait_for(lambda: "saved_model.pb has changed" in clients.get("n/versions/2").text)
        models.publish(third, root, 3)
        wait_for(lambda: "is not signed" in clients.get("n/versions/3").text)
        assert number(clients) == 1
        signature.sign(root / "3", private)  # no wait for the next try: it has been mended
        wait_for(lambda: clients.states("n").get(3) == "AVAILABLE")
        assert number(clients) == 3


def test_after_a_restart_a_tampered_version_is_not_served(tmp_path) -> None:
    private, public = keys.make(tmp_path)
    folder = models.numbered(tmp_path / "n" / "1", 1)
    signature.sign(folder, private)
    (folder / "variables" / "more").write_text("")
    with in_thread(model_root=str(tmp_path), require_signature=str(public)) as clients:
        assert "more was added" in clients.get("n/versions/1").text
        response = clients.post("n:predict", {"instances": [0.0]})
        assert response.status_code == 404


def test_a_key_that_is_none_ends_the_start(tmp_path) -> None:
    models.numbered(tmp_path / "n" / "1", 1)
    with (
        pytest.raises(ServableError, match="There is no such key"),
        in_thread(model_root=str(tmp_path), require_signature=str(tmp_path / "none.pub")),
    ):
        pass
