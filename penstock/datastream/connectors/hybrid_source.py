"""Several sources one after another."""

from __future__ import annotations

from penstock.connectors.hybrid.source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]
