"""Takes a savepoint: writes the state of a completed checkpoint to its own directory, in the open format."""

from __future__ import annotations

import contextlib
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.pickled import Pickled
from penstock.checkpoint.signing import Signer
from penstock.checkpoint.storage import SAVEPOINT_WORDS, CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.runtime.state.backends import read_chain
from penstock.runtime.state.table import TableDelta
from penstock.savepoint.draining import with_initial_watermarks
from penstock.savepoint.metadata import METADATA, STATE, Savepoint, WrittenTable, encode

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")

RunAll = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


def write_savepoint(
    manifest: Manifest,
    state_io: object,
    target: str,
    *,
    drained: bool = False,
    waiting: Mapping[str, Pickled] | None = None,
    run: RunAll = map,
    signer: Signer | None = None,
) -> str:
    """Write a savepoint into a new directory below `target`; return its path.

    `state_io` reads the chains of the manifest. `run(function, items)` maps a function over items, locally or in tasks;
    both pickle. `drained`
    is for a job that advanced event time to its end: a job that starts from the savepoint begins at the minimum
    watermark. Output of
    sinks is not part of a savepoint: it must have been committed. `waiting` is what their committers keep back
    (`Manifest.settled_commits`). If anything fails, the directory is deleted.
    """
    if manifest.has_in_flight_data:
        raise CheckpointError(
            f"checkpoint {manifest.checkpoint_id} is unaligned and cannot be turned into a savepoint",
            detail="it contains records in flight between subtasks, in their internal encoding",
            hint="this is a bug in Penstock, which aligns the checkpoints of savepoints: please report it",
        )
    name = f"savepoint-{manifest.job_id[:6]}-{uuid.uuid4().hex[:12]}"
    storage = CheckpointFileSystem(target, words=SAVEPOINT_WORDS).child(name)
    items = [
        _Item(operator_id, operator.uid or operator.name, subtask, chain, operator.max_parallelism)
        for operator_id, operator in manifest.operators.items()
        for subtask, chain in enumerate(operator.subtasks)
        if chain
    ]
    try:
        written = dict(run(ChainWriter(state_io, storage, signed=signer is not None), items))
        _check_complete(items, written)
        tables = {item.key: written[item.key] for item in items}
        _delete_others(storage, tables)
        manifest = with_initial_watermarks(manifest) if drained else manifest
        savepoint = Savepoint.of(manifest, tables, drained=drained, waiting=waiting)
        storage.write_atomic(METADATA, encode(savepoint, signer))
    except BaseException:
        with contextlib.suppress(CheckpointError):  # the original failure matters
            storage.delete_tree()
        raise
    return storage.base


@dataclass(frozen=True, slots=True)
class _Item:
    """The state of one operator in one subtask, to be written."""

    operator: str
    label: str
    subtask: int
    chain: StateChain
    max_parallelism: int

    @property
    def key(self) -> tuple[str, int]:
        return self.operator, self.subtask


@dataclass(frozen=True, slots=True)
class ChainWriter:
    """Writes the tables of one chain; pickles, so that it can run in a task. It is idempotent."""

    state_io: Any
    storage: CheckpointFileSystem
    signed: bool = False

    def __call__(self, item: _Item) -> tuple[tuple[str, int], dict[str, WrittenTable]]:
        """Write the tables of an item; return its key, and the files by name of the table."""
        from penstock.savepoint.table_files import TableHeader, write_table  # imports pyarrow

        found: dict[str, WrittenTable] = {}
        for name, first, entries in _tables(self.state_io, item):
            counted = _Counted(entries)
            # No two attempts of a task write to the same files.
            part = f"{item.subtask}-{uuid.uuid4().hex[:8]}"
            handles = write_table(
                self.storage,
                f"{STATE}/{safe_name(item.operator)}/{safe_name(name)}-{part}",
                TableHeader(name, first.namespaced, first.schema, item.label),
                counted,
                item.max_parallelism,
                signed=self.signed,
            )
            before = found.get(name, WrittenTable(0, ()))
            if handles:
                found[name] = WrittenTable(before.rows + counted.count, (*before.files, *handles))
        return item.key, found


def safe_name(text: str) -> str:
    """Return a text as part of a file name; a changed one gets a checksum.

    >>> safe_name("state/count"), safe_name("größe")
    ('state.count', 'gr__e-5bd3a989')
    """
    plain = text.replace("/", ".")
    safe = _UNSAFE.sub("_", plain)[:80]
    if safe == plain and not safe.startswith("."):
        return safe
    return f"{safe.lstrip('.')}-{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _tables(
    state_io: object, item: _Item
) -> Iterator[tuple[str, TableDelta, Iterable[tuple[Any, Any]]]]:
    """Iterate over the tables of a chain: their names, a delta with their header, and their entries."""
    deltas = (
        named
        for tables in read_chain(state_io, item.chain, item.max_parallelism)
        for named in tables.items()
    )
    if item.chain.database is not None or all(h.format == "parquet" for h in item.chain):
        # Every entry comes once, table after table: nothing has to be kept in memory.
        for name, group in groupby(deltas, key=itemgetter(0)):
            _, first = next(group)
            yield name, first, _entries(first, group)  # noqa: B031 - the rest of the group
        return
    merged: dict[str, TableDelta] = {}
    for name, delta in deltas:
        table = merged.setdefault(name, TableDelta(delta.namespaced, {}, [], None))
        table.schema = delta.schema or table.schema
        for entry in delta.removed:
            table.written.pop(entry, None)
        table.written.update(delta.written)
    for name in list(merged):
        table = merged.pop(name)
        yield name, table, table.written.items()


def _entries(
    first: TableDelta, rest: Iterable[tuple[str, TableDelta]]
) -> Iterator[tuple[Any, Any]]:
    yield from first.written.items()
    for _, delta in rest:
        yield from delta.written.items()


class _Counted:
    """Entries, with the number of those read."""

    def __init__(self, entries: Iterable[tuple[Any, Any]]) -> None:
        self._entries = entries
        self.count = 0

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for entry in self._entries:
            self.count += 1
            yield entry


def _check_complete(items: Sequence[_Item], written: dict[Any, Any]) -> None:
    missing = [item.key for item in items if item.key not in written]
    if missing:
        raise CheckpointError(
            "the savepoint is not complete",
            detail=f"no task has written the state of (operator, subtask) {missing[:5]}",
            hint="take it again",
        )


def _delete_others(
    storage: CheckpointFileSystem, tables: dict[Any, dict[str, WrittenTable]]
) -> None:
    """Delete files of tasks that were run again."""
    needed = {
        handle.name
        for by_name in tables.values()
        for table in by_name.values()
        for handle in table.files
    }
    for name in storage.list(f"{STATE}/"):
        if name not in needed:
            storage.delete(name)
