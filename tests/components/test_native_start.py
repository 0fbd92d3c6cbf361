"""TensorFlow's start: silent where it goes well, told where it does not."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import ROOT


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", f"from components.native_start import with_tensorflow\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, env=given, check=False)


def test_its_libraries_say_nothing_and_stderr_is_there_again() -> None:
    done = run("with_tensorflow()\nimport os, sys, tensorflow\nos.write(2, b'seen')\nsys.exit(3)")
    assert (done.stderr, done.returncode) == ("seen", 3)


def test_what_they_said_is_shown_where_it_fails(tmp_path) -> None:
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'no such instruction')\nraise ImportError('x')\n"
    )
    path = f"{tmp_path}:{ROOT}"
    done = run("with_tensorflow()", PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr.startswith("no such instruction") and "ImportError: x" in done.stderr
