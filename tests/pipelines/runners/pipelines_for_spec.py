"""Small pipelines, compiled by Kubeflow's own SDK, whose containers are a few lines of Python.

The SDK reads annotations as types, so they are not put off here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kfp import compiler, dsl

WRITE = "import sys, pathlib; p = pathlib.Path(sys.argv[2]); p.write_text(sys.argv[1])"
COUNT = """
import pathlib, sys
counter = pathlib.Path(sys.argv[1])
count = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(count))
sys.exit(0 if count >= int(sys.argv[2]) else 3)
"""
MEET = """
import pathlib, sys, time
mine, other = map(pathlib.Path, sys.argv[1:3])
mine.write_text("here")
deadline = time.monotonic() + 30
while not other.exists():
    if time.monotonic() > deadline:
        sys.exit("nobody came")
    time.sleep(0.01)
"""


def python(code: str, *arguments: Any) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="example/none:1", command=["python", "-c", code], args=list(arguments))


@dsl.container_component
def say(text: str, said: dsl.OutputPath(str)):
    """Hands on a text as an output parameter."""
    return python(WRITE, text, said)


@dsl.container_component
def fill(text: str, data: dsl.Output[dsl.Dataset]):
    """Writes a text into an artifact that is one file."""
    return python(WRITE, text, data.path)


@dsl.container_component
def double(data: dsl.Input[dsl.Dataset], doubled: dsl.Output[dsl.Dataset]):
    """Reads an artifact and writes another."""
    code = "import sys, pathlib; a, b = map(pathlib.Path, sys.argv[1:]); b.write_text(a.read_text() * 2)"
    return python(code, data.path, doubled.path)


@dsl.container_component
def count(counter: str, enough: int):
    """Fails until it has been started often enough."""
    return python(COUNT, counter, enough)


@dsl.container_component
def meet(mine: str, other: str):
    """Ends once the other one has begun."""
    return python(MEET, mine, other)


@dsl.container_component
def fail():
    return python("raise SystemExit('on purpose')")


@dsl.container_component
def note(where: str, status: str):
    return python("import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])", where, status)


def compiled(pipeline: Callable[..., Any], folder: Path) -> str:
    """The YAML that `kfp` writes for a pipeline function."""
    path = folder / "pipeline.yaml"
    compiler.Compiler().compile(pipeline, str(path))
    return path.read_text()
