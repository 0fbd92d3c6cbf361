"""The Dockerfile is what it should be, and its steps make an environment in which nodes run."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import image
from pipelines.cli.main import main
from pipelines.errors import ConfigError
from tests.conftest import ROOT

Step = tuple[str, str]


def steps() -> list[list[Step]]:
    """(instruction, arguments) of each stage, with continued lines joined."""
    text = (ROOT / "kubeflow" / "Dockerfile").read_text()
    stages: list[list[Step]] = [[]]
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            if word == "FROM":
                stages.append([])
            stages[-1].append((word, rest))
    return stages


def test_it_has_two_stages_on_one_pinned_slim_base() -> None:
    arguments, build, final = steps()
    (base,) = [rest for word, rest in arguments if word == "ARG"]
    assert re.fullmatch(r"BASE=python:3\.11\.\d+-slim-\w+", base)
    assert build[0] == ("FROM", "${BASE} AS build")
    assert final[0] == ("FROM", "${BASE}")


def test_it_does_not_run_as_root() -> None:
    final = steps()[2]
    user = next(rest for word, rest in final if word == "USER")
    assert int(user.split(":")[0]) >= 10000
    assert final.index(("USER", user)) < [word for word, _ in final].index("CMD")


def test_what_it_copies_is_there_and_reaches_the_build() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in ("#", "")]
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert lines[0] == "*"
    sources = [source for word, rest in steps()[1] if word == "COPY" for source in rest.split()[:-1]]
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in kept), source
    assert {"requirements.lock", "pipelines", "components", "modules"} <= set(sources)


def commands(folder: Path, python: str) -> list[str]:
    """The build stage's RUN steps, with its folders below another one."""
    found = []
    for word, rest in steps()[1]:
        if word == "RUN":
            moved = rest.replace("/opt/headrace", str(folder / "opt"))
            found.append(re.sub(r"^python ", f"{shlex.quote(python)} ", moved))
    return found


def test_its_steps_are_shell(tmp_path) -> None:
    found = commands(tmp_path, sys.executable)
    assert len(found) >= 5
    for command in found:
        done = subprocess.run(["sh", "-n", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_installer_is_pinned_by_hash(tmp_path) -> None:
    """The cheap part of the steps below: what they ask the registry for first."""
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    (command,) = [item for item in commands(tmp_path, sys.executable) if item.startswith("awk")]
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    lines = (tmp_path / "uv.txt").read_text().splitlines()
    assert re.match(r"uv==\d", lines[0])
    assert any("--hash=sha256:" in line for line in lines)
    assert not lines[-1].endswith("\\")


def test_the_entry_point_prints_its_help() -> None:
    """With no TensorFlow: the same module that the compiled pipeline names."""
    code = (
        "import sys; from pipelines.runners import kfp_entrypoint\n"
        "assert 'tensorflow' not in sys.modules and 'tfx' not in sys.modules\n"
        "kfp_entrypoint.parse(['--help'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--executor_input" in done.stdout


@pytest.mark.slow
def test_its_steps_make_an_environment_in_which_nodes_run(tmp_path) -> None:
    """Everything that the build stage runs, in an empty folder; minutes, and 4 GB."""
    build = tmp_path / "build"
    build.mkdir()
    environment = {**os.environ, "GPU": "0"}
    environment.pop("PYTHONPATH", None)
    queue = commands(tmp_path, sys.executable)
    for word, rest in steps()[1]:
        if word == "RUN":
            subprocess.run(["sh", "-c", queue.pop(0)], cwd=build, env=environment, check=True)
        elif word == "COPY":
            *sources, _ = rest.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, build / source)
    assert not queue
    python = tmp_path / "opt" / "bin" / "python"
    entry = [str(python), "-m", "pipelines.runners.kfp_entrypoint", "--help"]
    done = subprocess.run(entry, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--executor_input" in done.stdout
    where = "import pipelines, tfx.components; print(pipelines.__file__)"
    done = subprocess.run(
        [str(python), "-c", where], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert str(tmp_path / "opt") in done.stdout, done.stderr


@pytest.fixture
def tool(tmp_path, monkeypatch) -> Path:
    """A docker that writes down what it is asked; `info` works unless `down` is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "docker"
    script.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = info ]; then test ! -e {folder}/down; exit; fi\n'
        f'echo "$@" >> {folder}/asked\n'
        f"test ! -e {folder}/broken\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def headrace(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["image", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def _leaves_as_a_command_does(monkeypatch) -> None:
    """`main` ends at once where TensorFlow is loaded; in a test that would end the tests."""
    monkeypatch.setattr("pipelines.cli.main._exit", sys.exit)


def test_building_and_pushing(tool) -> None:
    assert headrace("build", "reg/headrace:1", "--gpu", "--base", "python@sha256:00") == 0
    assert headrace("push", "reg/headrace:1") == 0
    assert (tool / "asked").read_text().splitlines() == [
        "build -f kubeflow/Dockerfile --build-arg GPU=1 --build-arg BASE=python@sha256:00 "
        "-t reg/headrace:1 .",
        "push reg/headrace:1",
    ]


def test_a_build_that_fails(tool, capsys) -> None:
    (tool / "broken").touch()
    assert headrace("build", "reg/headrace:1") == 1
    assert "docker build ended with code 1" in capsys.readouterr().err


def test_without_a_tool_it_says_what_to_run(tool, capsys) -> None:
    (tool / "down").touch()
    assert headrace("build", "reg/headrace:1") == 2
    told = capsys.readouterr().err
    assert "docker build -f kubeflow/Dockerfile" in told
    assert not (tool / "asked").exists()


@pytest.mark.parametrize("name", ["headrace", "reg/headrace", "Reg/Headrace:1", "reg/headrace:", "-x:1"])
def test_names_that_no_registry_takes(name: str) -> None:
    with pytest.raises(ConfigError, match="registry/name:tag"):
        image.check_name(name)


@pytest.mark.parametrize(
    "name", ["headrace:1", "localhost:5000/team/headrace:1.2-gpu", "eu.gcr.io/a-b/c:latest"]
)
def test_names_that_registries_take(name: str) -> None:
    assert image.check_name(name) == name


def test_the_workers_image_starts_a_program_that_is_installed() -> None:
    import importlib.metadata

    lines = (ROOT / "kubeflow" / "worker" / "Dockerfile").read_text().splitlines()
    (entry,) = [line for line in lines if line.startswith("ENTRYPOINT ")]
    (program,) = json.loads(entry.removeprefix("ENTRYPOINT "))
    scripts = importlib.metadata.entry_points(group="console_scripts", name=program)
    (script,) = scripts
    assert script.value == "components.beam_boot:main"
