"""Flink's streaming model, in Python, on Spark."""

from __future__ import annotations

__version__ = "0.1.0"
