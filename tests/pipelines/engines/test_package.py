"""The wheel that workers get."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from components import beam_boot
from pipelines.engines import package


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "network.py").write_text("from parts.layers import WIDTH\n")
    (tmp_path / "unrelated.py").write_text("1\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "layers.py").write_text("WIDTH = 7\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_ours_and_what_the_users_module_imports(project, tmp_path) -> None:
    with zipfile.ZipFile(package.build(["network"], tmp_path / "wheels")) as wheel:
        names = set(wheel.namelist())
    assert {"components/beam_worker.py", "modules/contract.py", "pipelines/__init__.py"} <= names
    assert {"network.py", "parts/__init__.py", "parts/layers.py"} <= names
    assert "unrelated.py" not in names
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_one_wheel_per_fingerprint(project, tmp_path) -> None:
    first = package.build(["network"], tmp_path / "wheels")
    made = first.stat().st_mtime_ns
    assert package.build(["network"], tmp_path / "wheels") == first
    assert first.stat().st_mtime_ns == made
    other = package.build(["network"], tmp_path / "others")
    assert other.name == first.name
    assert contents(other) == contents(first)
    (project / "parts" / "layers.py").write_text("WIDTH = 8\n")
    assert package.build(["network"], tmp_path / "wheels") != first
    assert package.build([], tmp_path / "wheels") != first


def test_it_is_a_wheel_that_pip_installs(project, tmp_path) -> None:
    wheel = package.build(["network"], tmp_path / "wheels")
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target"]
    done = subprocess.run([*command, str(tmp_path / "there"), str(wheel)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "network.py").is_file()
    assert (tmp_path / "there" / "components" / "beam_worker.py").is_file()


def test_it_comes_before_what_the_host_has(project, tmp_path) -> None:
    wheel = package.build(["network"], tmp_path / "wheels")
    code = (
        "import sys, json\n"
        "from pathlib import Path\n"
        "import modules.contract\n"
        "from components import beam_boot\n"
        f"contents = beam_boot.take_up(Path({str(wheel)!r}), Path({str(tmp_path / 'code')!r}))\n"
        "import network, modules.contract\n"
        "print(network.__file__, modules.contract.__file__, contents['packages']['apache-beam'])\n"
    )
    root = Path(package.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    network, contract, beam = done.stdout.split()
    assert network == str(tmp_path / "code" / "network.py")
    assert contract == str(tmp_path / "code" / "modules" / "contract.py")
    assert beam == "2.77.0"


def test_a_host_with_other_packages_is_told_apart() -> None:
    beam_boot.check_packages({"packages": package.packages()})
    with pytest.raises(beam_boot.WorkerError) as caught:
        beam_boot.check_packages({"packages": {"apache-beam": "2.60.0", "no-such-package": "1"}})
    told = beam_boot.told(f'rpc failed: "{caught.value}" \\n in stage 7')
    assert told is not None
    assert told["headline"].endswith("apache-beam 2.77.0 instead of 2.60.0 (1 more)")
    with pytest.raises(beam_boot.WorkerError, match="no-such-package missing instead of 1"):
        beam_boot.check_packages({"packages": {"no-such-package": "1"}})


def test_a_folder_that_a_host_does_not_see(tmp_path) -> None:
    (tmp_path / "seen").touch()
    beam_boot.check_sight([str(tmp_path / "seen")])
    with pytest.raises(beam_boot.WorkerError) as caught:
        beam_boot.check_sight([str(tmp_path / "seen"), str(tmp_path / "elsewhere" / "seen")])
    assert beam_boot.told(str(caught.value))["place"].endswith(str(tmp_path / "elsewhere"))


def test_other_failures_of_a_job_are_not_taken_for_a_workers() -> None:
    assert beam_boot.told("Traceback: ValueError: bad") is None
