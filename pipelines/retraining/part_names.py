"""Names of the runs that retraining makes beside an experiment's own.

part_name("trips", "golden")        # trips-golden
"""

from __future__ import annotations

import hashlib

_LONGEST = 40
"""As experiments' names may be."""

_DIGEST = 6


def part_name(experiment: str, part: str) -> str:
    """A name for a part of an experiment; two experiments have two, however long their names."""
    name = f"{experiment}-{part}"
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(experiment.encode()).hexdigest()[:_DIGEST]
    return f"{experiment[: _LONGEST - len(part) - _DIGEST - 2]}-{digest}-{part}"
