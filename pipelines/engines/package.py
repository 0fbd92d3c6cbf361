"""What Beam workers get of us: our packages and the user's modules, as one wheel per fingerprint.

    wheel = package.build(["network"], folder)

A wheel is made once for the same code, modules and packages, whatever component
or run asks for it; workers put it before whatever version of ours they have.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from components.beam_boot import CONTENTS, PREFIX
from pipelines import fingerprint

VERSION = "0.1.0"
_DATE = (1980, 1, 1, 0, 0, 0)


def build(user_modules: Iterable[str], folder: Path) -> Path:
    """Makes the wheel, or finds it made.

    Args:
        user_modules: of the user's, by dotted name; what they import in their folder comes with them.
        folder: for wheels; made where it is not there.

    Raises:
        OSError: it cannot be written.
    """
    files = code(user_modules)
    contents = _contents(files)
    digest = hashlib.sha256(contents)
    for name, path in files.items():
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    wheel = folder / f"{PREFIX}{VERSION}+{digest.hexdigest()[:16]}-py3-none-any.whl"
    if not wheel.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(wheel, files, contents)
    return wheel


def code(user_modules: Iterable[str]) -> dict[str, Path]:
    """Name in the wheel -> file, of our packages and of the user's modules and what these import."""
    found: dict[str, Path] = {}
    for package in fingerprint.OWN_PACKAGES:
        for path in (fingerprint.PROJECT / package).rglob("*.py"):
            found[path.relative_to(fingerprint.PROJECT).as_posix()] = path
    for name, path in fingerprint.closure(user_modules).items():
        if name.partition(".")[0] not in fingerprint.OWN_PACKAGES:
            folder = name.replace(".", "/")
            found[f"{folder}/__init__.py" if path.name == "__init__.py" else f"{folder}.py"] = path
    return dict(sorted(found.items()))


def _contents(files: Iterable[str]) -> bytes:
    tops = sorted({name.partition("/")[0].removesuffix(".py") for name in files})
    return json.dumps({"packages": packages(), "tops": tops}, sort_keys=True).encode()


def packages() -> dict[str, str]:
    """Name -> version of what a worker must have: the locked packages, but for ourselves."""
    return {name: version for name, version in fingerprint.environment().items() if name != "headrace"}


def _write(wheel: Path, files: Mapping[str, Path], contents: bytes) -> None:
    from wheel.wheelfile import WheelFile

    # Its name must be the wheel's own, from which its folder's name is read.
    with tempfile.TemporaryDirectory(dir=wheel.parent, prefix=".") as apart:
        made = Path(apart, wheel.name)
        with WheelFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in files.items():
                archive.writestr(zipfile.ZipInfo(name, _DATE), path.read_bytes(), zipfile.ZIP_DEFLATED)
            archive.writestr(zipfile.ZipInfo(CONTENTS, _DATE), contents)
            about = archive.dist_info_path
            version = archive.parsed_filename["ver"]
            archive.writestr(zipfile.ZipInfo(f"{about}/METADATA", _DATE), _metadata(version))
            archive.writestr(zipfile.ZipInfo(f"{about}/WHEEL", _DATE), _WHEEL)
        made.chmod(0o644)
        made.replace(wheel)


def _metadata(version: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: headrace-worker\nVersion: {version}\n".encode()


_WHEEL = b"Wheel-Version: 1.0\nGenerator: headrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
