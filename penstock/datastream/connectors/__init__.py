"""Sources and sinks of the DataStream API."""

from __future__ import annotations

from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.staged_sinks import CollectSink, PrintSink
from penstock.connectors.datagen.source import DataGeneratorSource, RateLimiterStrategy
from penstock.connectors.function.sink import FunctionSink
from penstock.connectors.hybrid.source import HybridSource
from penstock.connectors.number_sequence.source import NumberSequenceSource
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = [
    "CollectSink",
    "CollectionSource",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "FunctionSink",
    "HybridSource",
    "NumberSequenceSource",
    "PrintSink",
    "RateLimiterStrategy",
    "Sink",
    "Source",
]
