"""Checks of connector arguments, made where the user passes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError


def check_int(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return an integer after checking its bounds.

    >>> check_int("port", 0, 1, 65535)
    Traceback (most recent call last):
    penstock.errors.ArgumentError: port must be from 1 to 65535
    detail: port=0
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} is not an integer", detail=f"{name}={value!r}")
    if value < least or (most is not None and value > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ArgumentError(f"{name} must be {allowed}", detail=f"{name}={value}")
    return value


def check_text(name: str, value: Any) -> str:
    """Return a non-empty str."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} is not a str", detail=f"{name}={value!r}")
    if not value:
        raise ArgumentError(f"{name} is empty")
    return value


def check_one_of(name: str, value: object, allowed: tuple[Any, ...]) -> Any:
    """Return a value after checking that it is one of those allowed."""
    if value not in allowed:
        names = ", ".join(str(each) for each in allowed)
        raise ArgumentError(f"{name} must be one of {names}", detail=f"{name}={value!r}")
    return value


def check_callable(name: str, value: object, takes: str) -> Any:
    """Return a value after checking that it is callable."""
    if not callable(value):
        raise ArgumentTypeError(
            f"{name} is not callable",
            detail=f"got {value!r}",
            hint=f"pass a function that takes {takes}",
        )
    return value


def check_texts(name: str, value: Any) -> dict[str, str]:
    """Return a copy of a dict of str to str."""
    if not isinstance(value, Mapping) or not all(
        isinstance(each, str) for pair in value.items() for each in pair
    ):
        raise ArgumentTypeError(
            f"{name} is not a dict of str to str", detail=f"got {type(value).__name__}"
        )
    return dict(value)
