"""The client of model servers, asked to talk to something else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from components.serving.client import ModelClient, ServerError

OTHER_JSON = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"status":"up"}'


@pytest.fixture(params=[OTHER_JSON, b"\x00\x00\x12\x04\x00 no HTTP\r\n\r\n"], ids=["other JSON", "no HTTP"])
def port(request) -> Iterator[int]:
    """Of something that answers every connection with the same bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(request.param)

        threading.Thread(target=answer, daemon=True).start()
        yield listening.getsockname()[1]


def test_what_is_no_model_server_is_told_as_such(port: int) -> None:
    with pytest.raises(ServerError) as raised:
        ModelClient("127.0.0.1", port, timeout_s=5.0).status("digits")
    assert "--rest-port" in raised.value.remedy
