"""Sources and sinks: the interface, and one folder per system.

Quick to import: third-party libraries are imported when a connector is first used.
"""

from __future__ import annotations

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
    MalformedRecord,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)

__all__ = [
    "Boundedness",
    "CheckpointContext",
    "CommitRequest",
    "Committer",
    "CommitterContext",
    "MalformedRecord",
    "ReadLimits",
    "Sink",
    "SinkWriter",
    "Source",
    "SourceBatch",
    "SourceReader",
    "SourceSplit",
    "SplitEnumerator",
    "SplitProgress",
    "WriterContext",
]
