"""InputDependencyConstraint: kept for programs that name it."""

from __future__ import annotations

import enum


class InputDependencyConstraint(enum.Enum):
    """When a task could start in older versions of Flink: with any input ready, or with all. It has no effect."""

    ANY = 0
    ALL = 1


__all__ = ["InputDependencyConstraint"]
