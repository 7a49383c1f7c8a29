"""The error for intervals that cannot be replayed."""

from __future__ import annotations

from penstock.errors import PenstockError


class ReplayError(PenstockError, RuntimeError):
    """An interval cannot be replayed: something that it needs was deleted or never recorded."""
