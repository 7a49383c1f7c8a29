"""State tables as Parquet files.

One row is one entry: its key group, its key, for window state the window (`namespace`), for timers their window and time, and
the value. The columns are described in the metadata of the file's schema, so a file is self-contained. Rows are sorted by key
group, in row groups of some thousand: readers of some key groups skip the others.

A column has one type over a whole file. When a later entry does not fit, the file ends and another one continues with a wider
type; so a table has one or more files.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.checkpoint.handles import DamagedStateError, StateHandle, check_digest, check_state
from penstock.checkpoint.signing import digest
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError, RestoreRefusedError
from penstock.files.paths import is_absolute
from penstock.graph.key_groups import key_group_of
from penstock.processes import temporary
from penstock.runtime.state.class_shapes import ClassShape
from penstock.runtime.state.schema import StateSchema
from penstock.runtime.state.table import TableDelta
from penstock.savepoint.codec import Codec, infer, merge
from penstock.savepoint.codec import from_json as codec_from_json

VERSION: Final = 1
METADATA_KEY: Final = b"penstock"
TIMERS: Final = (
    "timers/"  # tables of timers: entries are (key, (namespace, timestamp)), values True
)

ROWS_PER_GROUP: Final = 10_000
_GROUPS_SORTED_AT_ONCE: Final = 10
_BYTES_PER_GROUP: Final = 64 * 1024 * 1024
_BLOCK: Final = 1024 * 1024

Entry = tuple[
    Any, Any
]  # the entry's key, or (key, namespace) or (key, (namespace, timestamp)); and its value


@dataclass(frozen=True, slots=True)
class TableHeader:
    """Describes a table: its name, whether its entries have a namespace besides the key, its schema and its operator.

    `operator` is the uid of the operator, or its name if it has none.
    """

    name: str
    namespaced: bool
    schema: StateSchema | None = None
    operator: str | None = None

    @property
    def is_timers(self) -> bool:
        """Whether its entries are timers."""
        return self.name.startswith(TIMERS)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its files after the first one, `key_group`."""
        if self.is_timers:
            return ("key", "namespace", "timestamp")
        return ("key", "namespace", "value") if self.namespaced else ("key", "value")

    def to_json(self) -> dict[str, Any]:
        """Return the header as JSON data."""
        schema = self.schema
        described = schema and {
            "kind": schema.kind,
            "type": schema.text,
            "shape": _listed(schema.shape),
            "ttl": schema.ttl,
            "version": schema.version,
            "classes": [list(shape) for shape in schema.classes],
        }
        found = {"name": self.name, "namespaced": self.namespaced, "state": described}
        return found if self.operator is None else {**found, "operator": self.operator}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableHeader:
        """Read what `to_json` returned."""
        state = value["state"]
        schema = state and StateSchema(
            kind=state["kind"],
            shape=_tupled(state["shape"]),
            text=state["type"],
            ttl=state["ttl"],
            version=state["version"],
            classes=tuple(
                ClassShape(name, kind, tuple(parts))
                for name, kind, parts in state.get("classes", ())
            ),
        )
        return cls(value["name"], value["namespaced"], schema, value.get("operator"))


# Writing.


def write_table(
    storage: CheckpointFileSystem,
    stem: str,
    header: TableHeader,
    entries: Iterable[Entry],
    max_parallelism: int,
    *,
    signed: bool = False,
) -> list[StateHandle]:
    """Write a table to the files `<stem>-0.parquet`, `<stem>-1.parquet`...; return their handles, none if it is empty.

    Entries have the form of a TableDelta's `written`. About a hundred thousand of them are in memory at a time. The first
    handle is a full snapshot, the others are deltas; `metadata.chain_of` combines several tables in one chain.
    """
    handles: list[StateHandle] = []
    writer: _FileWriter | None = None
    with temporary.directory("savepoint") as directory:

        def finish() -> None:
            if writer is not None:
                name = f"{stem}-{len(handles)}.parquet"
                kind = "delta" if handles else "full"
                handles.append(writer.upload(storage, name, kind, signed=signed))

        try:
            for rows in _row_groups(header, entries, max_parallelism):
                columns = [list(map(itemgetter(i + 1), rows)) for i in range(len(header.columns))]
                wanted = [infer(column) for column in columns]
                if writer is not None:
                    wanted = [merge(*each) for each in zip(writer.codecs, wanted, strict=True)]
                if writer is None or wanted != writer.codecs:
                    finish()
                    path = Path(directory) / f"{len(handles)}.parquet"
                    writer = _FileWriter(path, header, wanted, max_parallelism)
                writer.write([row[0] for row in rows], columns)
            finish()
        finally:
            if writer is not None:
                writer.close()
    return handles


def _row_groups(
    header: TableHeader, entries: Iterable[Entry], max_parallelism: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Iterate over rows, some thousand at a time, sorted by key group as far as memory allows."""
    to_row = _row_maker(header, max_parallelism)
    iterator = iter(entries)
    while rows := [
        to_row(*entry) for entry in islice(iterator, ROWS_PER_GROUP * _GROUPS_SORTED_AT_ONCE)
    ]:
        rows.sort(key=itemgetter(0))
        for start in range(0, len(rows), ROWS_PER_GROUP):
            yield rows[start : start + ROWS_PER_GROUP]


def _row_maker(header: TableHeader, max_parallelism: int) -> Callable[[Any, Any], tuple[Any, ...]]:
    def timer(entry: Any, _: object) -> tuple[Any, ...]:
        key, (namespace, timestamp) = entry
        return key_group_of(key, max_parallelism), key, namespace, timestamp

    def namespaced(entry: Any, value: Any) -> tuple[Any, ...]:
        key, namespace = entry
        return key_group_of(key, max_parallelism), key, namespace, value

    def plain(key: object, value: object) -> tuple[Any, ...]:
        return key_group_of(key, max_parallelism), key, value

    if header.is_timers:
        return timer
    return namespaced if header.namespaced else plain


class _FileWriter:
    """A Parquet file that is being written to a local path."""

    def __init__(
        self, path: Path, header: TableHeader, codecs: list[Codec], max_parallelism: int
    ) -> None:
        self.codecs = codecs
        self._path = path
        self._first, self._last = max_parallelism, 0
        described = {
            "version": VERSION,
            "table": header.to_json(),
            "max_parallelism": max_parallelism,
            "columns": {
                name: codec.to_json() for name, codec in zip(header.columns, codecs, strict=True)
            },
        }
        fields = [pa.field("key_group", pa.int32(), nullable=False)] + [
            pa.field(name, codec.arrow_type)
            for name, codec in zip(header.columns, codecs, strict=True)
        ]
        self._schema = pa.schema(fields, {METADATA_KEY: json.dumps(described)})
        self._writer = pq.ParquetWriter(
            path, self._schema, compression="zstd", write_statistics=["key_group"]
        )

    def write(self, groups: list[int], columns: Sequence[list[Any]]) -> None:
        """Write rows, sorted by key group, as separate row groups."""
        try:
            arrays = [
                codec.encode(column) for codec, column in zip(self.codecs, columns, strict=True)
            ]
            if not all(isinstance(array, pa.Array) for array in arrays):
                raise pa.ArrowCapacityError("a column of one row group has more than 2 GB")
        except pa.ArrowCapacityError:
            if len(groups) == 1:
                raise
            half = len(groups) // 2
            self.write(groups[:half], [column[:half] for column in columns])
            self.write(groups[half:], [column[half:] for column in columns])
            return
        self._first, self._last = min(self._first, groups[0]), max(self._last, groups[-1])
        table = pa.Table.from_arrays([pa.array(groups, pa.int32()), *arrays], schema=self._schema)
        size = max(1, len(groups) * _BYTES_PER_GROUP // max(table.nbytes, _BYTES_PER_GROUP))
        self._writer.write_table(table, row_group_size=size)

    def upload(
        self, storage: CheckpointFileSystem, name: str, kind: Any, *, signed: bool
    ) -> StateHandle:
        """Finish the file and upload it."""
        self._writer.close()
        with (
            self._path.open("rb") as file,
            mmap.mmap(
                file.fileno(), 0, access=mmap.ACCESS_READ
            ) as data,  # avoids reading the whole file
        ):
            storage.write_new(name, data)
            handle = StateHandle(
                kind,
                len(data),
                zlib.crc32(data),
                (self._first, self._last + 1),
                name=name,
                format="parquet",
                sha256=digest(data, wanted=signed),
            )
        self._path.unlink()
        return handle

    def close(self) -> None:
        """Release the file."""
        self._writer.close()


# Reading.


class TableFile:
    """One file of a table, open for reading: the table's header, and its entries."""

    def __init__(self, file: Any, where: str) -> None:
        self._where = where
        with self._readable():
            self._file = pq.ParquetFile(file)
            described = json.loads((self._file.schema_arrow.metadata or {})[METADATA_KEY])
            if described["version"] != VERSION:
                raise CheckpointError(
                    f"state file '{where}' has format version {described['version']}, but this version of Penstock reads "
                    f"{VERSION}",
                    hint="read it with the version of Penstock that wrote it",
                )
            self.header = TableHeader.from_json(described["table"])
            self.max_parallelism: int = described["max_parallelism"]
            self.codecs: dict[str, Codec] = {
                name: codec_from_json(codec) for name, codec in described["columns"].items()
            }

    @property
    def rows(self) -> int:
        """The number of entries."""
        found: int = self._file.metadata.num_rows
        return found

    def deltas(self, owned: range | None = None) -> Iterator[TableDelta]:
        """Iterate over the entries, some thousand at a time; only those of the key groups `owned`, unless it is None."""
        metadata = self._file.metadata
        for index in range(metadata.num_row_groups):
            if owned is not None and not _overlaps(metadata.row_group(index).column(0), owned):
                continue
            with self._readable():
                table = self._file.read_row_group(index)
            delta = self._delta(table if owned is None else _only(table, owned))
            if delta.written:
                yield delta

    def _delta(self, table: pa.Table) -> TableDelta:
        header = self.header
        columns = []
        for name in header.columns:
            column = table.column(name)
            array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            with self._decodable():
                columns.append(self.codecs[name].decode(array))
        if header.is_timers:
            keys, namespaces, timestamps = columns
            timers = zip(keys, zip(namespaces, timestamps, strict=True), strict=True)
            written: dict[Any, Any] = dict.fromkeys(timers, True)
        elif header.namespaced:
            keys, namespaces, values = columns
            written = dict(zip(zip(keys, namespaces, strict=True), values, strict=True))
        else:
            written = dict(zip(*columns, strict=True))
        return TableDelta(header.namespaced, written, [], header.schema)

    @contextmanager
    def _decodable(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # unpickling runs the user's code
            header = self.header
            whose = "" if header.operator is None else f" of operator '{header.operator}'"
            raise RestoreRefusedError(
                f"could not unpickle objects in state '{header.name}'{whose}",
                detail=f"{type(error).__name__}: {error}, in '{self._where}'",
                hint="the class must be importable under its old name and compatible with the objects; to drop the state, write a "
                "savepoint without it: penstock.state.edit(path).drop_state(operator, state).write(directory)",
            ) from error

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise DamagedStateError(
                f"could not read state file '{self._where}' as a table",
                detail=f"{type(error).__name__}: {error}",
                hint="it was not written by Penstock, or is damaged: restore from another savepoint",
            ) from error


@contextmanager
def open_table(storage: CheckpointFileSystem, handle: StateHandle) -> Iterator[TableFile]:
    """Open a file of a table after verifying its size and checksum; it is copied to a temporary file for that."""
    if handle.name is None:
        assert handle.data is not None
        check_state(storage, None, handle.data, handle.size, handle.crc32)
        yield TableFile(pa.BufferReader(handle.data), "inside a manifest")
        return
    where = handle.name if is_absolute(handle.name) else storage.path(handle.name)
    with tempfile.NamedTemporaryFile(prefix="penstock-savepoint-", suffix=".parquet") as copy:
        try:
            storage.copy_into(handle.name, copy)
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise DamagedStateError(
                    error.message, detail=error.detail, hint=error.hint
                ) from error
            raise
        copy.flush()
        _check(copy, handle, where)
        with pa.memory_map(copy.name) as file:
            yield TableFile(file, where)


def read_named(
    storage: CheckpointFileSystem, handle: StateHandle, owned: range | None = None
) -> Iterator[tuple[str, TableDelta]]:
    """Read the entries of a table's file, some thousand at a time; only those of the key groups `owned`, unless None.

    Each delta comes with the name of the table. They contain no removals, and together all entries.
    Raises DamagedStateError.
    """
    if owned is not None and not _is_between(handle.key_groups, owned):
        return
    with open_table(storage, handle) as table:
        for delta in table.deltas(owned):
            yield table.header.name, delta


def _check(file: Any, handle: StateHandle, where: str) -> None:
    size = checksum = 0
    sha256 = hashlib.sha256()
    file.seek(0)
    while block := file.read(_BLOCK):
        size += len(block)
        checksum = zlib.crc32(block, checksum)
        if handle.sha256 is not None:
            sha256.update(block)
    if (size, checksum) != (handle.size, handle.crc32):
        raise DamagedStateError(
            f"state file '{where}' is damaged",
            detail=f"expected {handle.size} bytes with checksum {handle.crc32:08x}, "
            f"found {size} bytes with checksum {checksum:08x}",
            hint="restore from another checkpoint or savepoint",
        )
    if handle.sha256 is not None:
        check_digest(f"state file '{where}'", sha256.hexdigest(), handle.sha256)


def _is_between(groups: tuple[int, int], owned: range) -> bool:
    return groups[0] < owned.stop and owned.start < groups[1]


def _overlaps(column: pq.ColumnChunkMetaData, owned: range) -> bool:
    found = column.statistics
    if found is None or not found.has_min_max:
        return True
    return _is_between((found.min, found.max + 1), owned)


def _only(table: pa.Table, owned: range) -> pa.Table:
    """Return the rows of some key groups; rows are sorted by them, so they are contiguous."""
    import pyarrow.compute as pc

    groups = table.column("key_group")
    return table.filter(pc.and_(pc.greater_equal(groups, owned.start), pc.less(groups, owned.stop)))


def _listed(shape: object) -> object:
    return [_listed(part) for part in shape] if isinstance(shape, tuple) else shape


def _tupled(shape: object) -> Any:
    return tuple(_tupled(part) for part in shape) if isinstance(shape, list) else shape
