"""State hints of a query."""

from __future__ import annotations

from typing import Any

from penstock.options.config_values import OptionType, convert


def to_millis(value: object) -> int:
    """Return a duration, as a hint or an option writes it, in milliseconds.

    >>> to_millis("1 h"), to_millis("90 s"), to_millis(5)
    (3600000, 90000, 5)
    """
    if isinstance(value, int):
        return value
    return int(convert(value, OptionType.DURATION, ()).to_millis())


def state_ttl(hints: dict[str, Any], default: int) -> tuple[int, int]:
    """Return how long a join keeps the rows of its left and of its right side.

    The hint has a duration per side, by the keys `left` and `right`, as the making of the plan has found them from the names of tables.
    """
    given = hints.get("STATE_TTL") or {}
    if not isinstance(given, dict):
        given = dict(zip(("left", "right"), given, strict=False))
    return (
        to_millis(given["left"]) if given.get("left") is not None else default,
        to_millis(given["right"]) if given.get("right") is not None else default,
    )
