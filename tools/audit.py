"""Looks every package of requirements.lock up in a database of known vulnerabilities.

    python -m tools.audit

Exits with 0 where all were looked up and nothing is known, 1 where something
is, 2 where the database could not be asked about some: a mirror of a package
registry often has the packages and not what is known of them, and pip-audit
then passes over them without failing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_SHOWN = 5


def verdict(report: Mapping[str, Any]) -> tuple[list[str], int]:
    """What to print of a report of pip-audit's, and the exit code."""
    found = report["dependencies"]
    lines = [
        f"{item['name']} {item['version']}: {vulnerability['id']}"
        f" (mended in {', '.join(vulnerability['fix_versions']) or 'no version'})"
        for item in found
        for vulnerability in item.get("vulns", ())
    ]
    skipped = [item["name"] for item in found if "skip_reason" in item]
    code = 1 if lines else 2 if skipped or not found else 0
    lines.append(
        f"{len(found) - len(skipped)} of {len(found)} packages were looked up; {len(lines)} findings"
    )
    if skipped:
        more = f" and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
        lines.append(f"Error: the database knows nothing of {', '.join(skipped[:_SHOWN])}{more}")
        lines.append("  do: run make audit where a network lets it ask the advisory database")
    return lines, code


def main() -> int:
    """Runs pip-audit in an environment of its own: it is no part of what is locked."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "report.json")
        # Versions are pinned with hashes, so nothing has to be resolved or installed.
        command = [str(ROOT / ".venv/bin/uv"), "tool", "run", "pip-audit", "--requirement"]
        command += [str(ROOT / "requirements.lock"), "--require-hashes", "--disable-pip"]
        command += ["--progress-spinner", "off", "--format", "json", "--output", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not target.exists():
            said = done.stderr.strip().splitlines() or ["no message"]
            print(f"Error: the database of vulnerabilities could not be asked: {said[-1]}", file=sys.stderr)
            print("  do: run make audit where a network allows it", file=sys.stderr)
            return 2
        lines, code = verdict(json.loads(target.read_text()))
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
