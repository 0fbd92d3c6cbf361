"""A process that leaves by `os._exit` leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from components import child_process

_TRACES = """
import tensorflow as tf
from components import child_process

@tf.function
def doubled(x):
    if tf.reduce_sum(x) > 0:
        return 2 * x
    return x

assert doubled(tf.constant([1.0])).numpy() == [2.0]
import glob, os
assert glob.glob(os.environ["TMPDIR"] + "/__autograph_generated_file*"), "named otherwise"
print("traced")
child_process.leave(3)
"""


def test_the_modules_that_autograph_wrote_are_removed_and_what_was_printed_is_there(tmp_path: Path) -> None:
    script, temporary = tmp_path / "traces.py", tmp_path / "temporary"
    script.write_text(_TRACES)  # a file, since autograph reads a function's source
    temporary.mkdir()
    ended = subprocess.run(
        [sys.executable, str(script)],
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(Path(child_process.__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout == "traced\n"
    assert not list(temporary.iterdir())
