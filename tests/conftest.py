"""Fixtures that several tests share. Data is made, small and seeded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

MakeExample = Callable[..., bytes]


@pytest.fixture(scope="session")
def make_example() -> MakeExample:
    """Makes a serialized tf.train.Example: bytes, str, int or float values, or lists of them."""
    import tensorflow as tf

    def feature(value: object) -> object:
        values = list(value) if isinstance(value, list) else [value]
        if isinstance(values[0], str):
            values = [item.encode() for item in values]
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    def make(**features: object) -> bytes:
        message = tf.train.Example(
            features=tf.train.Features(feature={name: feature(value) for name, value in features.items()})
        )
        return message.SerializeToString(deterministic=True)

    return make


@pytest.fixture(scope="session")
def png() -> Callable[..., bytes]:
    """Makes a PNG of one grey level, or of an (H, W) or (H, W, 3) array."""
    import io

    import numpy as np
    from PIL import Image

    def make(pixels: object = 128, size: int = 8) -> bytes:
        array = np.asarray(pixels, np.uint8)
        if array.ndim == 0:
            array = np.full((size, size), array, np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(array).save(buffer, format="PNG")
        return buffer.getvalue()

    return make


@pytest.fixture(scope="session")
def write_tfrecord() -> Callable[..., Path]:
    """Writes records to a TFRecord file, gzipped on demand."""
    import tensorflow as tf

    def write(path: Path, records: Sequence[bytes], compression: str = "") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(path), compression) as writer:
            for record in records:
                writer.write(record)
        return path

    return write


SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "planted-4bQ9xW",
    "HEADRACE_DATABASE_PASSWORD_FOR_TESTS": "planted-7yZ2kR",
    "KFP_TOKEN": "planted-1mN8vT",
}
"""In the environment of every command that a test runs; must be found nowhere that it writes."""


@dataclass(frozen=True)
class Done:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class WarmCommands:
    """Runs `headrace` commands without importing TFX for each; see `warm.py`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "warm.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
            env={**os.environ, **SECRETS, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        assert self._answer() == {"ready": True}

    def __call__(
        self, *args: str, cwd: Path | None = None, meanwhile: Callable[[int], None] | None = None
    ) -> Done:
        """Runs a command; `meanwhile` is called with its process id while it runs."""
        out, err = self._folder / "out", self._folder / "err"
        task = {"args": list(args), "cwd": str(cwd or self._folder), "out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        pid = self._answer()["pid"]
        try:
            if meanwhile is not None:
                meanwhile(pid)
        except BaseException:
            os.kill(pid, signal.SIGKILL)  # else its answer would be taken for the next command's
            raise
        finally:
            code = self._answer()["code"]
        return Done(code, out.read_text(), err.read_text())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self._folder / "warm.log").read_text()[-3000:]
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._log.close()


@pytest.fixture(scope="session")
def headrace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmCommands]:
    """Runs the command line: `headrace("run", "digits", "--workspace", ...)`."""
    commands = WarmCommands(tmp_path_factory.mktemp("warm"))
    yield commands
    commands.close()
