"""Amounts of time and points in time, by PyFlink's path."""

from __future__ import annotations

from penstock.time.durations import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]
