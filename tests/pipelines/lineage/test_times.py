"""Times that people type."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipelines.errors import ConfigError
from pipelines.lineage.times import parse

NOW = datetime(2026, 11, 30, 12, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("2026-11-29", datetime(2026, 11, 29)),
        (" 2026-11-29 14:05 ", datetime(2026, 11, 29, 14, 5)),
        ("3 hours ago", datetime(2026, 11, 30, 9, 0)),
        ("1 day", datetime(2026, 11, 29, 12, 0)),
        ("2 weeks ago", datetime(2026, 11, 16, 12, 0)),
        ("2026-11-29T14:05Z", datetime(2026, 11, 29, 14, 5, tzinfo=UTC)),
    ],
)
def test_times(text: str, expected: datetime) -> None:
    assert parse(text, NOW) == expected.timestamp()


@pytest.mark.parametrize("text", ["", "yesterday-ish", "2026-13-01", "12:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="Expected a time"):
        parse(text, NOW)
