"""Files: sources that read them, sinks that write them."""

from __future__ import annotations

from penstock.common.connectors.buckets import BucketAssigner, BucketContext
from penstock.common.connectors.file_sink import FileSink, StreamingFileSink
from penstock.common.connectors.file_source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from penstock.common.connectors.formats import BulkFormat, LineFormat, StreamFormat
from penstock.common.connectors.rolling import (
    FileCompactor,
    FileCompactStrategy,
    OutputFileConfig,
    RollingPolicy,
)

__all__ = [
    "BucketAssigner",
    "BucketContext",
    "BulkFormat",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "LineFormat",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
