"""Keeps Python's collector of cycles off what was imported and stays.

    with heap.importing("tfx.components"):      # around imports that take long
        import tfx.components
    heap.settle()                               # in a forked process, before its work

TFX and what it stands on are two million objects. The collector walks all of
them a dozen times while they are imported, and again whenever a quarter as many
have come since: four of thirteen seconds of the imports, and one in seven of a
training's that mostly traces.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

_YOUNG = 20_000
"""New objects between two collections, where Python has 700: tracing a model makes 100,000 that stay."""


@contextlib.contextmanager
def importing(name: str) -> Iterator[None]:
    """No collection inside, and none of what was made inside; does nothing where `name` is imported already.

    Args:
        name: the module that is the last to come.
    """
    if name in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def settle() -> None:
    """What there is will not be collected, and new objects are walked less often."""
    gc.freeze()
    gc.set_threshold(_YOUNG, 10, 10)
