"""Descriptors of the small states of built-in assigners and triggers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class InternalDescriptor:
    """A state descriptor for the backend: its name, its kind, its reduce function."""

    name: str
    kind: str
    reduce_function: Callable[[Any, Any], Any] | None = None
    ttl_config: Any = None


def add(first: int, second: int) -> int:
    """Return the sum."""
    return first + second
