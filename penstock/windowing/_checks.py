"""Argument checks shared by assigners and triggers."""

from __future__ import annotations

from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError


def positive(value: Any, what: str) -> int:
    """Return a whole number > 0, or refuse it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(
            f"the {what} must be a whole number, got {type(value).__name__}",
        )
    if value <= 0:
        raise ArgumentError(f"the {what} must be positive, got {value}")
    return value


def offset_below(offset: Any, bound: int, what: str) -> int:
    """Return an offset with |offset| < bound, or refuse it."""
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise ArgumentTypeError(
            f"the window offset must be a whole number, got {type(offset).__name__}"
        )
    if abs(offset) >= bound:
        raise ArgumentError(
            f"the window offset must be smaller than the {what}",
            detail=f"offset {offset} ms, {what} {bound} ms",
            hint=f"an offset moves window starts by less than one {what}, in either direction",
        )
    return offset
