"""Files: a source and a sink."""

from __future__ import annotations

from penstock.connectors.files.buckets import BucketAssigner, BucketContext
from penstock.connectors.files.rolling import (
    FileCompactor,
    FileCompactStrategy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.files.sink import FileSink, StreamingFileSink
from penstock.connectors.files.source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from penstock.connectors.formats.base import BulkFormat, LineFormat, StreamFormat

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
