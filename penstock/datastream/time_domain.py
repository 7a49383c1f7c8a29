"""The time domain of a timer."""

from __future__ import annotations

from penstock.time.time_domain import TimeDomain

__all__ = ["TimeDomain"]
