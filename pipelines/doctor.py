"""What this installation stands on, what it lacks, and what each lack costs.

    for finding in examine(Path("workspace")): print(finding.name, finding.state, finding.found)

Nothing heavy is imported: versions come from the installed packages' metadata,
devices from the system. What cannot be found out is said to be unknown.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from pipelines.lineage import reading

State = Literal["ok", "warning", "missing"]

STACK = (
    "tensorflow",
    "keras",
    "tfx",
    "apache-beam",
    "tensorflow-transform",
    "tensorflow-model-analysis",
    "tensorflow-data-validation",
    "ml-metadata",
    "tensorflow-serving-api",
)
"""Packages that everything here stands on."""

LOCK = Path(__file__).parents[1] / "requirements.lock"

_GIB = 1 << 30
_LEAST_FREE = 4 * _GIB
_LEAST_MEMORY = 4 * _GIB
_COMMAND_S = 20


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what.
        state: ok; warning, where something is slower or left out; missing, where runs fail.
        found: in words.
        cost: what the lack costs; empty where nothing lacks.
        remedy: how to mend it; may be empty.
    """

    name: str
    state: State
    found: str
    cost: str = ""
    remedy: str = ""


def examine(workspace: Path) -> list[Finding]:
    """Looks at everything; takes a second or two."""
    return [check(workspace) for check in _CHECKS]


def versions() -> dict[str, str]:
    """Package -> installed version, for the packages of `STACK`; those that are missing are left out."""
    found = {}
    for name in STACK:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _python(workspace: Path) -> Finding:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] == (3, 11):
        return Finding("Python", "ok", found)
    return Finding(
        "Python", "missing", found, "TFX 1.21 has wheels for 3.11 alone.", "Set up with Python 3.11."
    )


def _glibc(workspace: Path) -> Finding:
    name, version = platform.libc_ver()
    if name != "glibc":
        return Finding(
            "C library", "missing", name or "unknown", "The wheels need glibc.", "Use a glibc system."
        )
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers >= (2, 28):
        return Finding("C library", "ok", f"glibc {version}")
    return Finding(
        "C library", "missing", f"glibc {version}", "The wheels need glibc 2.28.", "Use Debian 12 or later."
    )


def _packages(workspace: Path) -> Finding:
    if not LOCK.exists():
        return Finding(
            "Packages",
            "warning",
            "no lock beside the code",
            "Versions cannot be compared.",
            "Work in a checkout.",
        )
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    installed = {_canonical(item.name): item.version for item in metadata.distributions() if item.name}
    other = [
        f"{name} {installed.get(_canonical(name), 'missing')} instead of {version}"
        for name, version in pinned.items()
        if installed.get(_canonical(name)) != version
    ]
    if not other:
        return Finding("Packages", "ok", f"{len(pinned)} as in the lock")
    shown = ", ".join(other[:5]) + (f" and {len(other) - 5} more" if len(other) > 5 else "")
    return Finding(
        "Packages", "warning", shown, "This set was never tested.", "make run, which installs the lock."
    )


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _cores(workspace: Path) -> Finding:
    count = len(os.sched_getaffinity(0))
    state: State = "ok" if count > 1 else "warning"
    return Finding(
        "Cores",
        state,
        str(count),
        "" if count > 1 else "Nodes that could run side by side wait for each other.",
    )


def _memory(workspace: Path) -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = f"{total / _GIB:.0f} GiB"
    if total >= _LEAST_MEMORY:
        return Finding("Memory", "ok", found)
    return Finding(
        "Memory", "warning", found, "Nodes take about 1.1 GiB each.", "Run one at a time: --runner beam."
    )


def _cpu(workspace: Path) -> Finding:
    flags = set(re.findall(r"^flags\s*:(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)[:1] or [""])
    known = set(" ".join(flags).split())
    wanted = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_vnni": "VNNI (int8)", "avx512_bf16": "bfloat16",
              "amx_tile": "AMX"}  # fmt: skip
    has = [text for flag, text in wanted.items() if flag in known]
    if "avx2" in known:
        return Finding("CPU", "ok", ", ".join(has))
    found = ", ".join(has) or f"{platform.machine()}, features unknown"
    return Finding("CPU", "warning", found, "Training and int8 models are slower without AVX2.")


def _gpu(workspace: Path) -> Finding:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding(
            "GPU", "warning", "none", "Training runs on the CPU; TensorRT candidates are left out.",
            "Needs an NVIDIA GPU with its driver.",
        )  # fmt: skip
    found = _said([tool, "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"])
    if found is None:
        return Finding(
            "GPU",
            "warning",
            "nvidia-smi fails",
            "Training runs on the CPU.",
            "See that the driver is loaded.",
        )
    return Finding("GPU", "ok", "; ".join(found.splitlines()))


def _disk(workspace: Path) -> Finding:
    place = next(path for path in (workspace, *workspace.parents) if path.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / _GIB:.0f} GiB free at {place}"
    if free >= _LEAST_FREE:
        return Finding("Disk", "ok", found)
    return Finding(
        "Disk", "warning", found, "Runs keep every artifact, and stop where it fills.", "Free some space."
    )


def _workspace(workspace: Path) -> Finding:
    if not workspace.exists():
        writable = os.access(next(path for path in workspace.parents if path.exists()), os.W_OK)
        state: State = "ok" if writable else "missing"
        remedy = "" if writable else "Name another with --workspace or HEADRACE_WORKSPACE."
        cost = "" if writable else "Its folder cannot be written."
        return Finding("Workspace", state, f"{workspace}, not made yet", cost, remedy)
    if os.access(workspace, os.W_OK | os.X_OK):
        return Finding("Workspace", "ok", str(workspace))
    return Finding(
        "Workspace", "missing", f"{workspace} cannot be written", "Nothing can be run.", "chmod it."
    )


def _metadata(workspace: Path) -> Finding:
    path = workspace / "metadata.db"
    if not path.exists():
        return Finding("Metadata", "ok", "no run yet")
    try:
        with closing(reading.connect(path)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check").fetchone()
            (count,) = connection.execute("SELECT COUNT(*) FROM Execution").fetchone()
    except sqlite3.Error as error:
        verdict, count = str(error), 0
    if verdict == "ok":
        return Finding("Metadata", "ok", f"{count:,} executions in {path}")
    return Finding(
        "Metadata", "missing", f"{path}: {verdict}", "Runs cannot be recorded.", "Put back a copy of it."
    )


def _model_server(workspace: Path) -> Finding:
    tool = shutil.which("tensorflow_model_server")
    if tool is None:
        return Finding(
            "Model server", "warning", "embedded only",
            "Models are validated in Headrace's own server, not in TensorFlow Serving.",
            "Put tensorflow_model_server on the PATH.",
        )  # fmt: skip
    said = (_said([tool, "--version"]) or "").splitlines()
    return Finding("Model server", "ok", f"{tool}{f', {said[0]}' if said else ''}")


def _containers(workspace: Path) -> Finding:
    tools = [name for name in ("docker", "buildah") if _said([name, "info"]) is not None]
    if tools:
        return Finding("Containers", "ok", ", ".join(tools))
    cost = "The image for Kubeflow cannot be built here."
    return Finding("Containers", "warning", "neither docker nor buildah", cost, "Build it elsewhere.")


_CHECKS: tuple[Callable[[Path], Finding], ...] = (
    _python,
    _glibc,
    _packages,
    _cores,
    _memory,
    _cpu,
    _gpu,
    _disk,
    _workspace,
    _metadata,
    _model_server,
    _containers,
)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or done.stderr.strip() if done.returncode == 0 else None
