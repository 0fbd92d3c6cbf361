"""The lock: pinned with hashes, made from what setup.py asks for, free of this machine's places."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", LOCK, re.MULTILINE)
}


def test_every_package_is_pinned_with_hashes() -> None:
    blocks = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)
    pinned = [block for block in blocks if "==" in block.splitlines()[0]]
    assert len(pinned) == len(PINS) > 200
    assert all("--hash=sha256:" in block for block in pinned)


def test_it_names_no_place_to_look_for_packages() -> None:
    options = [line for line in LOCK.splitlines() if line.startswith("-") or "://" in line]
    assert options == []


def test_it_satisfies_what_is_asked_for() -> None:
    """All of setup.py's requirements but those of `tensorrt`, which needs a GPU."""
    asked = importlib.metadata.requires("headrace") or []
    for line in asked:
        requirement = Requirement(line)
        if 'extra == "tensorrt"' in line:
            continue
        version = PINS.get(canonicalize_name(requirement.name))
        assert version is not None, line
        assert requirement.specifier.contains(version, prereleases=True), line


def test_overrides_are_what_is_locked() -> None:
    for line in (ROOT / "overrides.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)]), line
