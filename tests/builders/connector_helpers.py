"""What the tests of connectors share: reading a source to its end, a file system that fails on command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from penstock.connectors.base.sink import CheckpointContext, WriterContext
from penstock.connectors.base.source import ReadLimits
from penstock.connectors.hybrid.source import HybridSource
from penstock.files.file_system import FileInfo, FileSystem
from penstock.files.local import LocalFiles
from penstock.runtime.operators.connectors.malformed import refusal


def read_all(source, parallelism=1, batch_size=4096, *, through_pickles=True):
    """The records of a bounded source, split by split."""
    import cloudpickle

    splits = list(source.create_enumerator(parallelism).discover())
    if through_pickles:
        source = cloudpickle.loads(cloudpickle.dumps(source))
    reader = source.create_reader()
    return [read_split(reader, split, batch_size=batch_size) for split in splits]


def read_split(reader, split, position=None, batch_size=4096):
    at = split.start if position is None else position
    records = []
    for batch in reader.read(split, at, ReadLimits(batch_size=batch_size)):
        records += batch.records
        if batch.malformed:
            raise refusal(batch.malformed[0], "the source")
    return records


def read_resuming(source, parallelism=1, batch_size=4096):
    """The records of a bounded source when every batch is read by a new reader at the batch before's position."""
    records = []
    for split in source.create_enumerator(parallelism).discover():
        position = split.start
        while True:
            reader = source.create_reader()
            batch = next(reader.read(split, position, ReadLimits(batch_size=batch_size)), None)
            if batch is None:
                break
            records += batch.records
            assert batch.position != position, "no progress"
            position = batch.position
    return records


def writer_context(staging, *, subtask=0, parallelism=1, job_id="job"):
    return WriterContext(
        job_id=job_id,
        operator_id="sink",
        subtask=subtask,
        parallelism=parallelism,
        staging=str(staging),
    )


def open_writer(sink, staging, *, checkpoint_id=1, attempt="a0", **context):
    """A writer in its first epoch."""
    writer = sink.create_writer(writer_context(staging, **context))
    writer.begin(CheckpointContext(checkpoint_id, attempt))
    return writer


class CrashError(Exception):
    pass


class FailingFileSystem(FileSystem):
    """Local files; operation number `fail_at` raises, before or after it took effect, and so does every later one."""

    def __init__(self, fail_at: int | None, *, after: bool = False) -> None:
        super().__init__(LocalFiles())
        self._local = FileSystem(LocalFiles())
        self._fail_at = fail_at
        self._after = after
        self.operations = 0

    def _run(self, action: Any) -> Any:
        number = self.operations
        self.operations += 1
        if self._fail_at is not None and number >= self._fail_at:
            if self._after and number == self._fail_at:
                action()
            raise CrashError(number)
        return action()

    def open_input(self, path: str) -> IO[bytes]:
        return self._run(lambda: self._local.open_input(path))

    def open_output(self, path: str) -> IO[bytes]:
        return _FailingStream(self._run(lambda: self._local.open_output(path)), self)

    def finish(self, stream: Any) -> None:
        self._run(lambda: self._local.finish(stream.stream))

    def info(self, path: str) -> FileInfo | None:
        return self._run(lambda: self._local.info(path))

    def has_file(self, path: str) -> bool:
        return self._run(lambda: self._local.has_file(path))

    def walk(self, path: str) -> list[FileInfo]:
        return self._run(lambda: self._local.walk(path))

    def rename(self, source: str, target: str) -> None:
        self._run(lambda: self._local.rename(source, target))

    def delete(self, path: str) -> None:
        self._run(lambda: self._local.delete(path))

    def sync_directories(self, paths: Iterable[str]) -> None:
        self._run(lambda: self._local.sync_directories(list(paths)))


class _FailingStream:
    def __init__(self, stream: IO[bytes], files: FailingFileSystem) -> None:
        self.stream = stream
        self._files = files

    def write(self, data: bytes) -> int:
        def write() -> int:
            written = self.stream.write(data)
            self.stream._pass_on()  # a part of the file is there when the next call crashes
            self.stream._stream.flush()
            return written

        return self._files._run(write)

    def close(self) -> None:
        self.stream.close()


class MovingFileSystem(FailingFileSystem):
    """As an object store: a rename is a copy and a deletion, and may fail between them."""

    def rename(self, source: str, target: str) -> None:
        def copy() -> None:
            with self._local.open_input(source) as stream:
                data = stream.read()
            self._local.write_atomic(target, data)

        self._run(copy)
        self._run(lambda: self._local.delete(source))


def hybrid(*sources):
    builder = HybridSource.builder(sources[0])
    for source in sources[1:]:
        builder = builder.add_source(source)
    return builder.build()
