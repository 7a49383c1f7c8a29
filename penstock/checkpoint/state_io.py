"""Reads and writes a subtask's keyed state on checkpoint storage."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.checkpoint.handles import (
    DEFAULT_INLINE_THRESHOLD,
    MAX_DELTAS,
    SnapshotKind,
    StateChain,
    StateHandle,
    read_state,
    should_compact,
    state_file_name,
    write_state,
)
from penstock.checkpoint.shared_files import download, upload
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError, RestoreRefusedError
from penstock.pickling import program_classes
from penstock.pickling.portable_pickles import NotPicklableError, dumps, is_picklable

Tables = dict[str, Any]
Prepared = tuple[StateChain, Callable[[StateChain | None, bool], StateChain]]


@dataclass(frozen=True, slots=True)
class CheckpointStateIO:
    """Reads and writes snapshots below the job's directory. It is sent to tasks, so it holds only the path.

    With `merges`, numerous deltas are merged into one while they are written: for pipelined tasks, whose state cannot be
    pickled as a whole without a pause. Otherwise a full snapshot replaces them.
    """

    directory: str
    inline_threshold: int = DEFAULT_INLINE_THRESHOLD
    signed: bool = False
    merges: bool = False

    def load(self, chain: StateChain, owned: range | None = None) -> Iterator[Tables]:
        """Read the snapshots of a chain, oldest first; with `owned`, entries of other key groups may be omitted."""
        storage = CheckpointFileSystem(self.directory)
        for handle in chain:
            yield _unpickle(read_state(storage, handle))

    def prepare(
        self, chain: StateChain | None, name: Any, delta: Tables, full: Callable[[], Tables]
    ) -> Prepared:
        """Pickle a delta, or everything if a full snapshot is due; return the future chain and a function that writes it.

        Both chains have the sizes of snapshots that are not written yet, but not their checksums.
        """
        kept: tuple[StateHandle, ...] = ()
        payload = _pickle(delta)
        if chain is None or should_compact(chain, len(payload), merges=self.merges):
            payload = _pickle(full())
        else:
            kept = chain.handles
        planned = StateHandle(
            "delta" if kept else "full",
            len(payload),
            0,
            name.key_groups,
            name=state_file_name(name.checkpoint_id, name.operator, name.subtask, name.attempt),
        )

        def write(after: StateChain | None, follows: bool) -> StateChain:
            if not kept:
                return StateChain((self._write(name, payload, "full"),))
            if after is None or not follows:
                raise CheckpointError(
                    "the previous snapshot was not written, and this one is only a delta to it"
                )
            full, *deltas = after.handles
            if not self.merges or len(deltas) < MAX_DELTAS:
                return after.append(self._write(name, payload, "delta"))
            storage = CheckpointFileSystem(self.directory)
            written = [read_state(storage, handle) for handle in deltas]
            merged = _pickle(_merged(map(pickle.loads, [*written, payload])))
            return StateChain((full, self._write(name, merged, "delta")))

        return StateChain((*kept, planned)), write

    def _write(self, name: Any, payload: bytes, kind: SnapshotKind) -> StateHandle:
        return write_state(
            CheckpointFileSystem(self.directory),
            payload,
            kind=kind,
            key_groups=name.key_groups,
            checkpoint_id=name.checkpoint_id,
            vertex=name.operator,
            subtask=name.subtask,
            attempt=name.attempt,
            inline_threshold=self.inline_threshold,
            signed=self.signed,
        )

    def store_in_flight(self, name: object, payload: bytes) -> StateHandle:
        """Write the in-flight records of an unaligned checkpoint."""
        return self._write(name, payload, "full")

    def load_in_flight(self, handle: StateHandle) -> bytes:
        """Read in-flight records written by `store_in_flight`."""
        return read_state(CheckpointFileSystem(self.directory), handle)

    def store_files(
        self, chain: StateChain | None, name: Any, directory: Path, settings: Any
    ) -> StateChain:
        """Upload the files of a database: for an incremental checkpoint, only those that are not on storage yet."""
        base = chain.database if chain is not None else None
        handle = upload(
            CheckpointFileSystem(self.directory),
            directory,
            name,
            base if settings.incremental else None,
            threads=settings.transfer_threads,
            inline_threshold=self.inline_threshold,
            signed=self.signed,
        )
        return StateChain((handle,))

    def fetch_files(self, handle: StateHandle, directory: Path, settings: Any) -> None:
        """Download the files of a database into a directory."""
        download(
            CheckpointFileSystem(self.directory),
            handle,
            directory,
            threads=settings.transfer_threads,
        )


def _unpickle(payload: bytes) -> Tables:
    """Unpickle state entries. Their checksum was verified, so a failure is caused by the program's classes."""
    try:
        tables: Tables = program_classes.loads(payload)
    except Exception as error:  # unpickling runs the user's code
        raise RestoreRefusedError(
            "could not restore the objects in the state with the classes of the program",
            detail=f"{type(error).__name__}: {error}",
            hint="make the modules of the classes importable, with the fields and members that the objects have; or rewrite the state with "
            "penstock.state",
        ) from error
    return tables


def _pickle(tables: Tables) -> bytes:
    """Pickle state entries; on failure the error's detail names the entry."""
    try:
        return dumps(tables)
    except NotPicklableError as error:
        for name, delta in tables.items():
            for key, value in delta.written.items():
                if not is_picklable((key, value)):
                    error.detail = f"a {type(value).__name__} in '{name}' under the key {key!r}"
                    raise
        raise


def _merged(deltas: Iterable[Tables]) -> Tables:
    """Merge several consecutive deltas into one."""
    merged: Tables = {}
    removed: dict[str, dict[Any, None]] = {}
    for tables in deltas:
        for name, delta in tables.items():
            before = merged.setdefault(name, replace(delta, written={}, removed=[]))
            gone = removed.setdefault(name, {})
            for key in delta.removed:
                before.written.pop(key, None)
                gone[key] = None
            for key, value in delta.written.items():
                gone.pop(key, None)
                before.written[key] = value
            before.schema = delta.schema or before.schema
    for name, delta in merged.items():
        delta.removed = list(removed[name])
    return merged
