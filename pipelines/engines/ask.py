"""Calls a gRPC method once, and prints the name of the status that came of it.

    python -m pipelines.engines.ask localhost:50000 /package.Service/Method 0a03 10.0

A process of its own, since gRPC keeps threads and locks of a process that has
used it: a node that is forked from such a process may wait for ever as it
begins to use gRPC itself.
"""

from __future__ import annotations

import subprocess
import sys


def status(address: str, method: str, request: bytes, timeout_s: float) -> str:
    """The name of a call's status, such as `OK`, `UNAVAILABLE` or `UNIMPLEMENTED`.

    Args:
        address: host and port.
        method: its full name.
        request: the serialized message.
        timeout_s: how long to wait for a connection and an answer.
    """
    told = [address, method, request.hex(), str(timeout_s)]
    asked = subprocess.run(
        [sys.executable, "-m", "pipelines.engines.ask", *told], stdout=subprocess.PIPE, text=True, check=True
    )
    return asked.stdout.strip()


def _main(address: str, method: str, request: str, timeout_s: str) -> None:
    import grpc

    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(method)
        try:
            call(bytes.fromhex(request), timeout=float(timeout_s), wait_for_ready=True)
        except grpc.RpcError as error:
            print(error.code().name)
        else:
            print(grpc.StatusCode.OK.name)


if __name__ == "__main__":
    _main(*sys.argv[1:])
