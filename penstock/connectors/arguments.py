"""Checks of what users give to connectors, made when they give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError


def check_int(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a number that lies within its bounds.

    >>> check_int("port", 0, 1, 65535)
    Traceback (most recent call last):
    penstock.errors.ArgumentError: port must be from 1 to 65535
    detail: port=0
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} is not an integer", detail=f"it is {value!r}")
    if value < least or (most is not None and value > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ArgumentError(f"{name} must be {allowed}", detail=f"{name}={value}")
    return value


def check_text(name: str, value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} is not a str", detail=f"it is {value!r}")
    if not value:
        raise ArgumentError(f"{name} is empty")
    return value


def check_one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return a value that is among those allowed."""
    if value not in allowed:
        names = ", ".join(str(each) for each in allowed)
        raise ArgumentError(f"{name} is not one of {names}", detail=f"it is {value!r}")
    return value


def check_callable(name: str, value: Any, takes: str) -> Any:
    """Return a function."""
    if not callable(value):
        raise ArgumentTypeError(
            f"{name} cannot be called",
            detail=f"it is {value!r}",
            hint=f"give a function of {takes}",
        )
    return value


def check_texts(name: str, value: Any) -> dict[str, str]:
    """Return a copy of a mapping of texts to texts."""
    if not isinstance(value, Mapping) or not all(
        isinstance(each, str) for pair in value.items() for each in pair
    ):
        raise ArgumentTypeError(
            f"{name} is not a dict of str to str", detail=f"its type is {type(value).__name__}"
        )
    return dict(value)
