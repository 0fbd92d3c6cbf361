"""What is left of the machine's memory and of the control groups'."""

from __future__ import annotations

from pathlib import Path

import pytest

from components import memory

MIB = 2**20


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {8000 * 1024} kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _version_2(folder: str, limit: int, used: int, cached: int = 0) -> dict[str, str]:
    return {
        f"{folder}/memory.max": f"{limit * MIB}\n",
        f"{folder}/memory.current": f"{used * MIB}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {cached * MIB}\n",
    }


TOP, OWN = "sys/fs/cgroup", "sys/fs/cgroup/user/own"
V1 = "sys/fs/cgroup/memory/box"


@pytest.mark.parametrize(
    ("files", "mebibytes"),
    [
        ({}, 8000),
        ({"proc/self/cgroup": "0::/\n", f"{TOP}/memory.max": "max\n"}, 8000),
        ({"proc/self/cgroup": "0::/\n", **_version_2(TOP, 4000, 1000)}, 3000),
        ({"proc/self/cgroup": "0::/user/own\n", **_version_2(OWN, 2000, 1500, cached=1000)}, 1500),
        # The group above has less left.
        (
            {
                "proc/self/cgroup": "0::/user/own\n",
                **_version_2(OWN, 2000, 500),
                **_version_2("sys/fs/cgroup/user", 3000, 2900),
            },
            100,
        ),
        # The host's path, which a container does not see.
        ({"proc/self/cgroup": "0::/docker/1f\n", **_version_2(TOP, 1000, 200)}, 800),
        (
            {
                "proc/self/cgroup": "5:cpu:/box\n4:memory:/box\n0::/\n",
                f"{V1}/memory.limit_in_bytes": f"{1000 * MIB}\n",
                f"{V1}/memory.usage_in_bytes": f"{600 * MIB}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
            },
            400,
        ),
    ],
)
def test_the_least_that_is_left_counts(tmp_path, files: dict[str, str], mebibytes: float) -> None:
    assert memory.available_mb(_write(tmp_path, files)) == mebibytes


def test_a_share_is_no_less_than_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_mb", lambda: 1000.0)
    assert memory.share_mb(0.4, least=100.0) == 400.0
    assert memory.share_mb(0.4, least=2048.0) == 2048.0
