"""A source of consecutive numbers."""

from __future__ import annotations

from penstock.connectors.base.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
