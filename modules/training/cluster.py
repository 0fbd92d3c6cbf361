"""TF_CONFIG: who the workers are, and which of them this process is.

cluster = read(os.environ)      # None where TF_CONFIG is not set
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modules.errors import TrainingError

VARIABLE = "TF_CONFIG"
_EXAMPLE = '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'

_RETRY_S = 0.2


@dataclass(frozen=True)
class Cluster:
    """The workers' addresses, and this process's index among them."""

    workers: tuple[str, ...]
    index: int

    @property
    def is_chief(self) -> bool:
        """The first worker writes checkpoints and the model."""
        return self.index == 0


def read(environment: Mapping[str, str]) -> Cluster | None:
    """Reads TF_CONFIG; None where it is empty or names no workers.

    Raises:
        TrainingError: it is no JSON, has another form, or an index without a worker.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise _error(f"TF_CONFIG is no JSON: {error.msg} at character {error.pos}") from error
    if not isinstance(config, dict) or not config.get("cluster"):
        return None
    workers, index = _members(config)
    if index >= len(workers):
        raise _error(f"TF_CONFIG's task index {index} has no worker; there are {len(workers)}")
    return Cluster(workers, index)


def _members(config: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """All workers in their order, the chief first where it has a list of its own."""
    try:
        cluster, task = config["cluster"], config["task"]
        chiefs, workers = tuple(cluster.get("chief", ())), tuple(cluster.get("worker", ()))
        kind, index = task["type"], int(task["index"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _error(f"TF_CONFIG lacks or misspells a part: {error}") from error
    if kind not in ("chief", "worker"):
        raise _error(f"TF_CONFIG's task type should be chief or worker. Received: {kind!r}")
    return chiefs + workers, index + (len(chiefs) if kind == "worker" else 0)


def _error(headline: str) -> TrainingError:
    return TrainingError(headline, place="environment, TF_CONFIG", remedy=f"For example {_EXAMPLE}")


def wait_for_all(
    members: Cluster, timeout_s: float, clock: Callable[[], float] = time.monotonic
) -> list[str]:
    """Waits until every other worker accepts connections; returns those that never did.

    This worker's own port accepts meanwhile, so that all can find each other
    before TensorFlow takes the ports over, which itself would wait for an hour.
    """
    deadline = clock() + timeout_s
    missing = [address for index, address in enumerate(members.workers) if index != members.index]
    with _listening(members.workers[members.index]):
        while missing and clock() < deadline:
            missing = unreachable(missing, timeout_s=1.0)
            if missing:
                time.sleep(_RETRY_S)
    return missing


@contextlib.contextmanager
def _listening(address: str) -> Iterator[None]:
    """A port of this machine that accepts connections, as far as it can be had."""
    host, _, port = address.rpartition(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A name that is another machine's face of this one cannot be bound;
        # the others then find this worker when TensorFlow has its port.
        with contextlib.suppress(OSError, ValueError):
            listener.bind((host, int(port)))
            listener.listen(64)
        yield


def unreachable(addresses: Sequence[str], timeout_s: float = 2.0) -> list[str]:
    """The addresses that accept no connection."""
    return [address for address in addresses if not _accepts(address, timeout_s)]


def _accepts(address: str, timeout_s: float) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout_s):
            return True
    except (OSError, ValueError):
        return False


def config_json(workers: Sequence[str], index: int) -> str:
    """TF_CONFIG's text for one of the workers."""
    return json.dumps({"cluster": {"worker": list(workers)}, "task": {"type": "worker", "index": index}})
