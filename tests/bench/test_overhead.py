"""A command's cost is that of every process it started, those that nobody waited for among them."""

from __future__ import annotations

import sys

from bench.overhead import cost_of

LEAVES_BEHIND = """
import os, sys, time
if os.fork():
    os._exit(0)
while time.process_time() < 0.4:
    pass
"""


def test_processes_that_are_left_behind_count(tmp_path) -> None:
    cost = cost_of(sys.executable, "-c", LEAVES_BEHIND, log=tmp_path / "log")
    assert 0.4 <= cost.cpu_s < 5
