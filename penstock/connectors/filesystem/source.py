"""The file source: a fixed set of files, or directories that are monitored for new files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from penstock.common.user_types import Position, StateValue
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
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem, resolve
from penstock.files.paths import has_glob, is_hidden, normalize
from penstock.formats.base.file_formats import (
    DeserializedLinesFormat,
    Faults,
    FileFormat,
    FilePart,
    PartFaults,
)
from penstock.records.dropped_records import SKIPPED

DEFAULT_PART_SIZE = 64 << 20


class FileSource(Source):
    r"""Reads files: text lines, CSV, JSON lines, Parquet.

    A path is a file, a directory (all files below it), a pattern with *, ?, [...] or **, or a URI that pyarrow.fs opens.
    Files and directories whose names begin with a dot or an underscore are ignored. Large uncompressed files are split into
    parts of 64 MB (`FileSourceBuilder.set_split_size`), read by several subtasks.

    With `monitor_continuously` the paths are listed periodically. Each file is read once; one that changes later is not read
    again. A new file is read when it has not changed since the previous listing, or was last changed at least one interval ago
    (one second, if the interval is shorter). So a file that grows in place may be read too early if its writer pauses longer
    than that: write elsewhere and rename into the directory.

    >>> import tempfile, pathlib
    >>> from penstock.formats.base.file_formats import StreamFormat
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "lines.txt"
    >>> _ = path.write_text("to be\nor not\n")
    >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
    >>> split, = source.create_enumerator(2).discover()
    >>> [batch.records for batch in source.create_reader().read(split, None, ReadLimits())]
    [['to be', 'or not']]
    """

    carries_timestamps = False

    def __init__(
        self,
        file_format: FileFormat,
        paths: Sequence[str],
        *,
        interval: float | None = None,
        split_size: int = DEFAULT_PART_SIZE,
        splittable: bool = True,
    ) -> None:
        self.format = file_format
        self.paths = list(paths)
        self.interval = interval
        self.split_size = split_size
        self.splittable = splittable

    @staticmethod
    def for_record_stream_format(stream_format: object, *paths: object) -> FileSourceBuilder:
        """Build a source that reads records from streams; the format may be a DeserializationSchema for lines."""
        if not isinstance(stream_format, FileFormat) and hasattr(stream_format, "deserialize"):
            stream_format = DeserializedLinesFormat(stream_format)
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: object, *paths: object) -> FileSourceBuilder:
        """Build a source that reads batches of columns."""
        return FileSourceBuilder(bulk_format, paths)

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: unless it monitors directories."""
        return Boundedness.BOUNDED if self.interval is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> object:
        """Return the type of the records, if the format knows it."""
        return self.format.get_produced_type()

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create the enumerator."""
        return FileEnumerator(self, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return FileReader(self.format)


class FileSourceBuilder:
    """Builds a FileSource."""

    def __init__(self, file_format: Any, paths: Iterable[Any]) -> None:
        if not isinstance(file_format, FileFormat):
            raise ArgumentTypeError(
                "invalid format of a file source",
                detail=f"got {file_format!r}",
                hint="use StreamFormat.text_line_format(), CsvReaderFormat, JsonLinesFormat or a Parquet format",
            )
        self._format = file_format
        self._paths = [normalize(path) for path in paths]
        if not self._paths:
            raise ArgumentError(
                "a file source needs a path", hint="pass at least one file or directory"
            )
        self._interval: float | None = None
        self._split_size = DEFAULT_PART_SIZE
        self._splittable = True

    def monitor_continuously(self, discovery_interval: object) -> FileSourceBuilder:
        """Monitor the paths for new files; the interval is a Duration, a timedelta or seconds."""
        seconds = _seconds(discovery_interval)
        if seconds <= 0:
            raise ArgumentError(
                "the discovery interval must be positive", detail=f"got {discovery_interval!r}"
            )
        self._interval = seconds
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist at the start, then finish. This is the default."""
        self._interval = None
        return self

    def set_split_size(self, size: int) -> FileSourceBuilder:
        """Set the size in bytes of the splits of large files."""
        if not isinstance(size, int) or size < 1:
            raise ArgumentError("the split size must be positive", detail=f"got {size!r}")
        self._split_size = size
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Set whether files may be split."""
        if not isinstance(file_enumerator, FileEnumeratorProvider):
            raise ArgumentTypeError(
                "the file enumerator is not a FileEnumeratorProvider",
                hint="use FileEnumeratorProvider.default_splittable_file_enumerator()",
            )
        self._splittable = file_enumerator.splittable
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepted as in Flink, without effect: Spark places tasks."""
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise ArgumentTypeError(
                "the split assigner is not a FileSplitAssignerProvider",
                hint="use FileSplitAssignerProvider.locality_aware_split_assigner()",
            )
        return self

    def build(self) -> FileSource:
        """Create the source. Paths of a fixed set must exist."""
        if self._interval is None:
            for path in self._paths:
                _check_exists(path)
        return FileSource(
            self._format,
            self._paths,
            interval=self._interval,
            split_size=self._split_size,
            splittable=self._splittable,
        )


class FileEnumeratorProvider:
    """How files are divided into splits."""

    def __init__(self, *, splittable: bool) -> None:
        self.splittable = splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Split large files, where the format allows it."""
        return FileEnumeratorProvider(splittable=True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Read each file as one split."""
        return FileEnumeratorProvider(splittable=False)


class FileSplitAssignerProvider:
    """How splits are assigned to subtasks: in order, to the subtask with the least work."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Return the assigner; there is only one."""
        return FileSplitAssignerProvider()


class FileEnumerator(SplitEnumerator):
    """Lists files and divides them into splits. Remembers each assigned file with its modification time."""

    backlog_unit = "bytes"

    def __init__(self, source: FileSource, restored: StateValue = None) -> None:
        self._source = source
        self._seen: dict[str, int] = dict(restored) if restored is not None else {}
        self._done = restored is not None and source.interval is None
        self._candidates: dict[str, tuple[int, int]] = {}  # files that may still be written
        self._last_look = float("-inf")
        self.clock: Callable[[], float] = time.time

    def discover(self) -> list[SourceSplit]:
        """Return splits of new, complete files."""
        interval = self._source.interval
        if interval is None:
            if self._done:
                return []
            self._done = True
            return self._cut(self._list_all())
        now = self.clock()
        if 0 <= now - self._last_look < interval:  # below 0: the clock was set back
            return []
        self._last_look = now
        return self._cut(self._complete(self._list_all(), now, max(interval, 1.0)))

    def no_more_splits(self) -> bool:
        """Whether all files were assigned; a monitored directory may always get another."""
        return self._done and self._source.interval is None

    def snapshot(self) -> StateValue:
        """Return the assigned files: path to modification time."""
        if self._source.interval is None:
            return {} if self._done else None
        return dict(self._seen)

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return how many bytes of the files found so far are left to read."""
        total = 0
        for each in splits:
            position = each.split.start if each.position is None else each.position
            left = self._source.format.bytes_left(each.split.payload, position)
            if left is None:
                return None
            total += left
        return total

    def _list_all(self) -> list[tuple[str, FileSystem, FileInfo]]:
        found: dict[str, tuple[str, FileSystem, FileInfo]] = {}
        for root in self._source.paths:
            files, path = resolve(root)
            if self._source.interval is None:
                _check_exists(root)
            for file in list_files(files, path):
                found.setdefault(file.path, (root, files, file))
        if self._source.interval is None:
            return [found[path] for path in sorted(found)]
        return sorted(found.values(), key=lambda entry: (entry[2].mtime_ns, entry[2].path))

    def _complete(
        self, listed: list[tuple[str, FileSystem, FileInfo]], now: float, settled: float
    ) -> list[tuple[str, FileSystem, FileInfo]]:
        ready = []
        candidates = {}
        for entry in listed:
            file = entry[2]
            if file.path in self._seen:
                continue
            mark = (file.size, file.mtime_ns)
            if now - file.mtime_ns / 1e9 >= settled or self._candidates.get(file.path) == mark:
                ready.append(entry)
            else:
                candidates[file.path] = mark
        self._candidates = candidates
        # A file that was deleted may be created again with the same name: it is a new file then.
        present = {entry[2].path for entry in listed}
        self._seen = {path: mtime for path, mtime in self._seen.items() if path in present}
        for entry in ready:
            self._seen[entry[2].path] = entry[2].mtime_ns
        return ready

    def _cut(self, entries: list[tuple[str, FileSystem, FileInfo]]) -> list[SourceSplit]:
        source = self._source
        size = source.split_size if source.splittable else 1 << 62
        splits = []
        for root, files, file in entries:
            parts = source.format.plan(file, files, size)
            whole = (
                parts[-1][1] if parts else None
            )  # the file's length in the unit of start and end
            for start, end in parts:
                name = (
                    f"{file.path}:{start}-{'' if end is None else end}@{file.mtime_ns // 1_000_000}"
                )
                share = (
                    file.size * (end - start) // whole if end is not None and whole else file.size
                )
                part = FilePart(root, file.path, start, end, share)
                first = source.format.first_position(start)
                splits.append(SourceSplit(name, part, first, bounded=True))
        return splits


class FileReader(SourceReader):
    """Reads parts of files. `skipped` counts the records skipped by `on_error="skip"`."""

    def __init__(self, file_format: FileFormat) -> None:
        self._format = file_format
        self._faults = Faults(file_format.on_error)
        self._systems: dict[str, FileSystem] = {}

    @property
    def skipped(self) -> int:
        """How many records could not be read and were skipped."""
        return self._faults.skipped

    def open(self, context: Any) -> None:
        """Register the counter of skipped records, where there are metrics."""
        get_group = getattr(context, "get_metrics_group", None)
        group = get_group() if callable(get_group) else None
        if group is not None and hasattr(group, "counter"):
            self._faults.count = group.counter(SKIPPED).inc
            self._format.use_metrics(group)

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield the records of a part."""
        part: FilePart = split.payload
        at = split.start if position is None else position
        files = self._systems.get(part.root)
        if files is None:
            files = self._systems[part.root] = resolve(part.root)[0]
        faults = PartFaults(self._faults, part.path)
        for records, following in self._format.read(part, files, at, limits.batch_size, faults):
            at = following
            yield SourceBatch(records, following, malformed=faults.take() if faults else ())
        if faults:
            yield SourceBatch([], at, malformed=faults.take())


def list_files(files: FileSystem, path: str) -> Iterator[FileInfo]:
    """Yield the visible files that match a path, a directory or a pattern."""
    if has_glob(path) and not files.has_file(path):
        fixed = path[: path.rfind("/", 0, min(path.find(c) % (len(path) + 1) for c in "*?[")) + 1]
        for match in files.glob(path):
            if not is_hidden(match, fixed):
                yield from list_files(files, match)
        return
    single = files.info(path)
    if single is not None:
        yield single
        return
    for file in files.walk(path):
        if not is_hidden(file.path, path):
            yield file


def _check_exists(root: str) -> None:
    files, path = resolve(root)
    if files.exists(path) or (has_glob(path) and files.glob(path)):
        return
    what = "no file matches the pattern" if has_glob(path) else "the path does not exist"
    raise ArgumentError(
        f"{what}: {root}",
        hint="check the spelling; relative paths start at the working directory of the program",
    )


def _seconds(interval: object) -> float:
    if isinstance(interval, (int, float)) and not isinstance(interval, bool):
        return float(interval)
    for method, unit in (
        ("to_millis", 1000.0),
        ("to_milliseconds", 1000.0),
        ("total_seconds", 1.0),
    ):
        convert = getattr(interval, method, None)
        if callable(convert):
            return float(convert()) / unit
    raise ArgumentTypeError(
        "the discovery interval is not a duration",
        detail=f"got {interval!r}",
        hint="use Duration.of_seconds(10)",
    )
