"""Time zones by name."""

from __future__ import annotations

import datetime as dt
import os
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.errors import ArgumentError, ArgumentTypeError


def checked_zone(zone: object) -> str:
    """Validate a time zone; return the name that ZoneInfo uses.

    >>> checked_zone("GMT+08:00"), checked_zone("Europe/Berlin")
    ('Etc/GMT-8', 'Europe/Berlin')
    """
    if not isinstance(zone, str):
        raise ArgumentTypeError(f"timezone_id must be a str, got {zone!r}")
    if zone == "default":
        return "default"
    if zone.startswith(("GMT+", "GMT-", "UTC+", "UTC-")):
        sign, digits = zone[3], zone[4:]
        hours, _, minutes = digits.partition(":")
        if hours.isdigit() and int(hours) <= 14 and minutes in {"", "00"}:
            # the IANA names Etc/GMT+N have the opposite sign
            turned = "-" if sign == "+" else "+"
            return f"Etc/GMT{turned}{int(hours)}" if int(hours) else "UTC"
    try:
        return ZoneInfo(zone).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ArgumentError(
            f"unknown time zone '{zone}'",
            hint="use a name such as Europe/Berlin, UTC or GMT+08:00",
        ) from None


def local_zone() -> str:
    """Return the time zone of this machine, as a name that ZoneInfo knows; UTC where it has none."""
    zone = dt.datetime.now().astimezone().tzinfo
    name = getattr(zone, "key", None) or _linked_zone()
    return name or "UTC"


def _linked_zone() -> str | None:
    target = os.environ.get("TZ") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    try:
        return ZoneInfo(target).key if target else None
    except (ZoneInfoNotFoundError, ValueError):
        return None
