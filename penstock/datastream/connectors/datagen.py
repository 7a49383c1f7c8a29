"""Generated records, for tests, demos and benchmarks."""

from __future__ import annotations

from penstock.connectors.datagen.source import DataGeneratorSource, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
