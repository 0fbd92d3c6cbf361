"""Takes what it can from the cache in a forked child that imports little; see `look`.

finished = cached.take(ir, files, finished, tick)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import Any

from pipelines.runners import look, processes
from pipelines.runners.files import RunFiles

_POLL_S = 0.05


def take(ir: Any, files: RunFiles, finished: Collection[str], tick: Callable[[], None]) -> set[str]:
    """The nodes that were found in the cache, or looked something up and need not run again.

    A look that fails for whatever reason finds nothing: the whole run then
    meets the same reason and says so.
    """
    found = looked_up(ir, files, finished, tick)
    return set(look.finished(found))


def looked_up(
    ir: Any, files: RunFiles, finished: Collection[str], tick: Callable[[], None]
) -> dict[str, str]:
    """Node -> what the look found; empty where it did not come to its end."""
    answer = look.Answer(files.folder / "look.json")

    def work() -> bool:
        answer.write(look.look(ir, files, frozenset(finished)))
        return True

    pid = processes.fork(work, files.folder / "look.log")
    try:
        while not os.waitpid(pid, os.WNOHANG)[0]:
            tick()
            time.sleep(_POLL_S)
    except BaseException:
        processes.terminate([pid])
        raise
    return answer.read()
