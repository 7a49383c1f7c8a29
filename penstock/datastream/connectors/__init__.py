"""Sources and sinks: where streams come from and go to."""

from __future__ import annotations

from penstock.common.connectors.collection import CollectionSource
from penstock.common.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from penstock.common.connectors.function_sink import FunctionSink
from penstock.common.connectors.hybrid_source import HybridSource
from penstock.common.connectors.number_sequence import NumberSequenceSource
from penstock.common.connectors.staged_sinks import CollectSink, PrintSink
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
