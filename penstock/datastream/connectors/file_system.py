"""Files: a source and a sink."""

from __future__ import annotations

from penstock.connectors.filesystem.buckets import BucketAssigner, BucketContext
from penstock.connectors.filesystem.rolling import (
    FileCompactor,
    FileCompactStrategy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.filesystem.sink import FileSink, StreamingFileSink
from penstock.connectors.filesystem.source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from penstock.formats.base.file_formats import BulkFormat, LineFormat, StreamFormat

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
