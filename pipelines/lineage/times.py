"""Times that people type, and how long something lasted, in words.

parse("2026-11-30 14:00"), parse("3 hours ago")
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from pipelines.errors import ConfigError

_AGO = re.compile(r"(\d+)\s*(minute|hour|day|week)s?(?:\s+ago)?")


def parse(text: str, now: datetime) -> float:
    """Seconds since the epoch of an ISO date or time (local unless it names a zone), `now`, or `3 days ago`.

    Raises:
        ConfigError: it is neither.
    """
    said = text.strip().lower()
    if said == "now":
        return now.timestamp()
    ago = _AGO.fullmatch(said)
    if ago:
        return (now - timedelta(**{f"{ago[2]}s": int(ago[1])})).timestamp()
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError as error:
        raise ConfigError(
            f"Expected a time. Received: {text!r}",
            place="--at",
            remedy="Write 2026-11-30, 2026-11-30 14:05, 2026-11-30T14:05+01:00, now, or 3 hours ago.",
        ) from error
