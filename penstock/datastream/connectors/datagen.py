"""Generated records, for tests, demonstrations and measurements."""

from __future__ import annotations

from penstock.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
