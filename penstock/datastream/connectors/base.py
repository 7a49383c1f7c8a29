"""The connector API. Subclass `Source` and `Sink` to write your own, in Python.

A parallel, replayable source of number ranges:

>>> class Countdown(Source):
...     def get_boundedness(self):
...         return Boundedness.BOUNDED
...     def create_enumerator(self, parallelism, restored=None):
...         return CountdownEnumerator(restored)
...     def create_reader(self):
...         return CountdownReader()
>>> class CountdownEnumerator(SplitEnumerator):
...     def __init__(self, restored):
...         self.splits = [] if restored else [SourceSplit("from-3", start=3)]
...     def discover(self):
...         found, self.splits = self.splits, []
...         return found
...     def no_more_splits(self):
...         return not self.splits
...     def snapshot(self):
...         return "planned" if not self.splits else None
>>> class CountdownReader(SourceReader):
...     def read(self, split, position, limits):
...         while position > 0:
...             position -= 1
...             yield SourceBatch([position + 1], position)

The position of every split is part of each checkpoint; after a failure `read` is called with it again.

A sink with a two-phase commit. The writer, in a task, is opened once and can keep a connection; it makes the records of each
checkpoint durable but not visible. The committer, on the driver, makes them visible after the checkpoint is complete:

>>> class Ledger(Sink):
...     def create_writer(self, context, restored=None):
...         return LedgerWriter(context)  # here: connect
...     def create_committer(self):
...         return LedgerCommitter()
>>> class LedgerWriter(SinkWriter):
...     def __init__(self, context):
...         self.job_id = context.job_id
...     def begin(self, epoch):  # here: BEGIN
...         self.transaction, self.rows = f"{self.job_id}-{epoch.attempt}", []
...     def write(self, values, timestamps, watermark):
...         self.rows += values
...     def prepare_commit(self):  # here: PREPARE TRANSACTION
...         return [(self.transaction, self.rows)]
>>> class LedgerCommitter(Committer):
...     def commit(self, request):  # here: COMMIT PREPARED, which may have happened before
...         for transaction, rows in request.committables:
...             ledger.setdefault(transaction, rows)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.connectors.base.delivery import DeliveryGuarantee
from penstock.connectors.base.sink import (
    CheckpointContext,
    CommitRequest,
    Committer,
    CommitterContext,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.connectors.function.sink import FunctionSink, SinkContext
from penstock.datastream.basic_functions import SinkFunction, SourceFunction


class StreamTransformer(ABC):
    """Transforms a stream before it reaches a sink."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the stream that the sink receives."""


class SupportsPreprocessing(ABC):
    """A sink that transforms its input."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return the transformer, or None."""


__all__ = [
    "Boundedness",
    "CheckpointContext",
    "CommitRequest",
    "Committer",
    "CommitterContext",
    "DeliveryGuarantee",
    "FunctionSink",
    "ReadLimits",
    "Sink",
    "SinkContext",
    "SinkFunction",
    "SinkWriter",
    "Source",
    "SourceBatch",
    "SourceFunction",
    "SourceReader",
    "SourceSplit",
    "SplitEnumerator",
    "StreamTransformer",
    "SupportsPreprocessing",
    "WriterContext",
]
