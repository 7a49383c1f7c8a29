"""All stream classes, under PyFlink's module path."""

from __future__ import annotations

from penstock.connectors.base.collect_buffer import CloseableIterator
from penstock.datastream.co_group import CoGroupedStreams
from penstock.datastream.connected_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
)
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.interval_join import IntervalJoin, IntervalJoined
from penstock.datastream.joined_streams import JoinedStreams
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.partition_windowed_stream import Order, PartitionWindowedStream
from penstock.datastream.stream import DataStream
from penstock.datastream.windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedStream",
    "Order",
    "PartitionWindowedStream",
    "WindowedStream",
]
