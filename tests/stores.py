"""Object stores on loopback: S3's by moto, Google's by its emulator, and a web server.

with s3() as endpoint: fsspec.filesystem("s3").mkdir("bucket")
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest


@contextlib.contextmanager
def s3() -> Iterator[str]:
    """S3, with credentials in the environment; gives its endpoint."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "someone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").clear_instance_cache()
        yield endpoint
    fsspec.filesystem("memory").clear_instance_cache()
    server.stop()


@contextlib.contextmanager
def google() -> Iterator[str]:
    """Google Cloud Storage, found by what its clients call STORAGE_EMULATOR_HOST; gives its endpoint."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    endpoint = f"http://127.0.0.1:{server._api._httpd.server_port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", endpoint)
        yield endpoint
    server.stop()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def web(folder: Path) -> Iterator[str]:
    """A web server over a folder; it vouches for nothing but times of change."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
