"""Argument checks shared by assigners and triggers."""

from __future__ import annotations

from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError


def positive(value: Any, what: str) -> int:
    """Return an integer > 0; reject other values."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(
            f"the {what} must be an integer, got {type(value).__name__}",
        )
    if value <= 0:
        raise ArgumentError(f"the {what} must be positive, got {value}")
    return value


def offset_below(offset: Any, bound: int, what: str) -> int:
    """Return an offset with |offset| < bound; reject other values."""
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise ArgumentTypeError(
            f"the window offset must be an integer, got {type(offset).__name__}"
        )
    if abs(offset) >= bound:
        raise ArgumentError(
            f"the window offset must be smaller than the {what}",
            detail=f"offset {offset} ms, {what} {bound} ms",
            hint=f"an offset shifts window starts by less than one {what}, in either direction",
        )
    return offset
