"""make audit passes only where every package was looked up."""

from __future__ import annotations

from typing import Any

from tools.audit import verdict

CLEAN = {"name": "click", "version": "8.4.0", "vulns": []}
SKIPPED = {"name": "tfx", "skip_reason": "Dependency not found on PyPI and could not be audited"}
FOUND = {
    "name": "pillow",
    "version": "10.0.0",
    "vulns": [{"id": "PYSEC-2023-175", "fix_versions": ["10.0.1"]}, {"id": "PYSEC-1", "fix_versions": []}],
}


def report(*dependencies: dict[str, Any]) -> tuple[list[str], int]:
    return verdict({"dependencies": list(dependencies), "fixes": []})


def test_nothing_known_of_packages_that_were_looked_up() -> None:
    assert report(CLEAN) == (["1 of 1 packages were looked up; 0 findings"], 0)


def test_findings_are_named_with_what_mends_them() -> None:
    assert report(CLEAN, FOUND) == (
        [
            "pillow 10.0.0: PYSEC-2023-175 (mended in 10.0.1)",
            "pillow 10.0.0: PYSEC-1 (mended in no version)",
            "2 of 2 packages were looked up; 2 findings",
        ],
        1,
    )


def test_packages_that_nobody_looked_up_are_no_pass() -> None:
    lines, code = report(CLEAN, SKIPPED)
    assert code == 2
    assert lines[:2] == [
        "1 of 2 packages were looked up; 0 findings",
        "Error: the database knows nothing of tfx",
    ]
    assert report(FOUND, SKIPPED)[1] == 1
    assert report()[1] == 2
