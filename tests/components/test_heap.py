"""The collector of cycles is off while much is imported, and on again afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys

CODE = """
import gc
from components import heap
with heap.importing("asyncio"):
    assert not gc.isenabled()
    import asyncio
assert gc.isenabled() and gc.get_freeze_count() > 1000
with heap.importing("asyncio"):
    assert gc.isenabled()
try:
    with heap.importing("no_such_module"):
        import no_such_module
except ImportError:
    assert gc.isenabled()
"""


def test_the_collector_is_off_only_while_something_is_imported() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
    assert gc.isenabled()
