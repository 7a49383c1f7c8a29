"""The numbers from a start to an end."""

from __future__ import annotations

from penstock.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
