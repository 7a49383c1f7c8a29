"""Sink and source of `DataStream.cache()`: the elements of a stream as pickled blocks in a directory."""

from __future__ import annotations

import pickle
import posixpath
from collections.abc import Iterator
from typing import IO, Any

from penstock.common.user_types import Position, StateValue
from penstock.connectors.base.sink import (
    CheckpointContext,
    CommitRequest,
    Committer,
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
    SplitProgress,
)
from penstock.connectors.base.static_splits import StaticSplitEnumerator
from penstock.files.file_system import resolve
from penstock.pickling.portable_pickles import dumps


class StreamCacheSink(Sink):
    """Writes elements with their timestamps; one file per subtask and checkpoint, visible after its commit."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return _CacheWriter(self.directory, context.subtask)

    def create_committer(self) -> Committer:
        """Create the committer, which makes files visible."""
        return _CacheCommitter()


class _CacheWriter(SinkWriter):
    def __init__(self, directory: str, subtask: int) -> None:
        self._directory = directory
        self._subtask = subtask
        self._files = resolve(directory)[0]
        self._stream: IO[bytes] | None = None

    def begin(self, checkpoint: CheckpointContext) -> None:
        name = f"{checkpoint.checkpoint_id:08d}-{self._subtask}"
        hidden = posixpath.join(self._directory, f".{name}.{checkpoint.attempt}")
        self._names = (hidden, posixpath.join(self._directory, name))
        self._stream = self._files.open_output(resolve(hidden)[1])

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        assert self._stream is not None
        self._stream.write(dumps((values, timestamps)))

    def prepare_commit(self) -> list[Any]:
        assert self._stream is not None
        stream, self._stream = self._stream, None
        self._files.finish(stream)
        return [self._names]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._files.delete(resolve(self._names[0])[1])


class _CacheCommitter(Committer):
    def commit(self, request: CommitRequest) -> Any:
        for hidden, final in request.committables:
            files, source = resolve(hidden)
            target = resolve(final)[1]
            if not files.has_file(target):  # else an earlier attempt has renamed it
                files.rename(source, target)


class StreamCacheSource(Source):
    """Reads the files of a StreamCacheSink."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def get_boundedness(self) -> Boundedness:
        """Return that the source is bounded."""
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create an enumerator with one split per file."""
        files, base = resolve(self.directory)
        found = files.walk(base) if restored is None else []
        sizes = {
            info.path: info.size
            for info in found
            if not posixpath.basename(info.path).startswith(".")
        }
        splits = [SourceSplit(path, (path, sizes[path]), 0) for path in sorted(sizes)]
        return StaticSplitEnumerator(splits, restored, left=_bytes_left, unit="bytes")

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _CacheReader(self.directory)


def _bytes_left(progress: SplitProgress) -> int:
    _, size = progress.split.payload
    return max(0, int(size) - int(progress.position))


class _CacheReader(SourceReader):
    def __init__(self, directory: str) -> None:
        self._files = resolve(directory)[0]

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        path, _ = split.payload
        with self._files.open_input(path) as stream:
            stream.seek(position)
            while True:
                try:
                    values, timestamps = pickle.load(stream)
                except EOFError:
                    return
                yield SourceBatch(values, stream.tell(), timestamps)
