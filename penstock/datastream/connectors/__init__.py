"""Sources and sinks of the DataStream API."""

from __future__ import annotations

from penstock.connectors.collection import CollectionSource
from penstock.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from penstock.connectors.function_sink import FunctionSink
from penstock.connectors.hybrid_source import HybridSource
from penstock.connectors.number_sequence import NumberSequenceSource
from penstock.connectors.staged_sinks import CollectSink, PrintSink
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
