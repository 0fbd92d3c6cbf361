"""When a cron expression comes due, in a time zone, daylight saving included.

    last_tick("0 3 * * *", "Europe/Berlin", now)      # seconds since the epoch, at or before now
    next_tick("0 3 * * *", "Europe/Berlin", now)

A tick in the hour that daylight saving skips comes at its end, one in the hour
that comes twice once, as cron does (cronsim).
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from datetime import datetime

from cronsim import CronSim, CronSimError

from pipelines.errors import ConfigError


def next_tick(expression: str, zone: str, now: float) -> float:
    """The first tick after `now`, both in seconds since the epoch.

    Raises:
        ConfigError: the expression never comes due.
    """
    return _tick(CronSim, expression, zone, now)


def last_tick(expression: str, zone: str, now: float) -> float:
    """The last tick at or before `now`, both in seconds since the epoch.

    Raises:
        ConfigError: the expression never came due.
    """
    # Backwards it yields what is before the moment given.
    return _tick(lambda text, start: CronSim(text, start, reverse=True), expression, zone, now + 1.0)


def check(expression: str, place: str) -> None:
    """Refuses what is no cron expression.

    Raises:
        ConfigError: it is none.
    """
    try:
        CronSim(expression, datetime(2026, 1, 1))
    except CronSimError as error:
        raise ConfigError(
            f"{expression!r} is no cron expression: {error}", place=place, remedy='Such as "*/10 * * * *".'
        ) from error


def _tick(make: Callable[[str, datetime], CronSim], expression: str, zone: str, now: float) -> float:
    start = datetime.fromtimestamp(now, zoneinfo.ZoneInfo(zone))
    try:
        return float(next(make(expression, start)).timestamp())
    except StopIteration:
        raise ConfigError(
            f"The cron expression {expression!r} never comes due", place="retraining.every"
        ) from None
