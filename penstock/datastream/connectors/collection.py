"""Python collections as sources, and streams as Python collections."""

from __future__ import annotations

from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.staged_sinks import CollectConsumer, CollectSink

__all__ = ["CollectConsumer", "CollectSink", "CollectionSource"]
