"""A source of consecutive numbers."""

from __future__ import annotations

from penstock.connectors.number_sequence.source import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
