"""What keeps an epoch from being replayed."""

from __future__ import annotations

from penstock.errors import PenstockError


class ReplayError(PenstockError, RuntimeError):
    """An epoch cannot be replayed: something that it needs is gone, or was never recorded."""
