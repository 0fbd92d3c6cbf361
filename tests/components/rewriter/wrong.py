"""Workers that go wrong; importable, for processes of their own."""

from __future__ import annotations

import os
import signal
import time


def hang(_: None) -> None:
    time.sleep(600)


def crash(_: None) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def swallow(_: None) -> None:
    """Takes memory until it is stopped: 64 MiB at a time, touched, for at most 4 GiB."""
    held = []
    for _round in range(64):
        held.append(bytearray(os.urandom(1 << 20) * 64))
        time.sleep(0.05)


GOES = {"hang": hang, "crash": crash, "swallow": swallow}
