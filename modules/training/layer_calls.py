"""Other ways to call a layer, for a while.

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(layer, faster(layer, layer.call)))

Several may lie over each other; each puts back what it found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def replaced(layer: Any, call: Callable[..., Any]) -> Iterator[None]:
    """The layer is called by `call` inside, and as before afterwards."""
    before = layer.__dict__.get("call")
    layer.call = call
    try:
        yield
    finally:
        del layer.call
        if before is not None:
            layer.call = before
