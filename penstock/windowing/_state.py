"""Descriptors of the small states that built-in assigners and triggers keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class InternalDescriptor:
    """What the state backend needs to know of a state: its name, its kind, how it is reduced."""

    name: str
    kind: str
    reduce_function: Callable[[Any, Any], Any] | None = None
    ttl_config: Any = None


def add(first: int, second: int) -> int:
    """Return the sum."""
    return first + second
