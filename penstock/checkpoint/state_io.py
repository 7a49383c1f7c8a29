"""How a subtask's keyed state gets to checkpoint storage and back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.handles import (
    DEFAULT_INLINE_THRESHOLD,
    StateChain,
    StateHandle,
    read_state,
    should_compact,
    write_state,
)
from penstock.checkpoint.shared_files import download, upload
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common.pickling import NotPicklableError, dumps, is_picklable

Tables = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CheckpointStateIO:
    """Reads and writes snapshots below the job's directory. Travels to tasks, so it holds the path only."""

    directory: str
    inline_threshold: int = DEFAULT_INLINE_THRESHOLD
    signed: bool = False

    def load(self, chain: StateChain, owned: range | None = None) -> Iterator[Tables]:
        """Read the snapshots of a chain, oldest first; with `owned`, entries of other key groups may be left out."""
        storage = CheckpointStorage(self.directory)
        for handle in chain:
            yield pickle.loads(read_state(storage, handle))

    def store(
        self, chain: StateChain | None, name: Any, delta: Tables, full: Callable[[], Tables]
    ) -> StateChain:
        """Write a delta, or everything if that is due; return the new chain."""
        kept: tuple[StateHandle, ...] = ()
        payload = _pickle(delta)
        if chain is None or should_compact(chain, len(payload)):
            payload = _pickle(full())
        else:
            kept = chain.handles
        handle = write_state(
            CheckpointStorage(self.directory),
            payload,
            kind="delta" if kept else "full",
            key_groups=name.key_groups,
            epoch=name.epoch,
            vertex=name.operator,
            subtask=name.subtask,
            attempt=name.attempt,
            inline_threshold=self.inline_threshold,
            signed=self.signed,
        )
        return StateChain((*kept, handle))

    def store_files(
        self, chain: StateChain | None, name: Any, directory: Path, settings: Any
    ) -> StateChain:
        """Write the files of a database that storage does not have yet; return the new chain."""
        base = chain.database if chain is not None else None
        handle = upload(
            CheckpointStorage(self.directory),
            directory,
            name,
            base if settings.incremental else None,
            threads=settings.transfer_threads,
            inline_threshold=self.inline_threshold,
            signed=self.signed,
        )
        return StateChain((handle,))

    def fetch_files(self, handle: StateHandle, directory: Path, settings: Any) -> None:
        """Read the files of a database into a directory."""
        download(
            CheckpointStorage(self.directory),
            handle,
            directory,
            threads=settings.transfer_threads,
        )


def _pickle(tables: Tables) -> bytes:
    """Pickle entries of state; if one cannot be, the error's detail names it."""
    try:
        return dumps(tables)
    except NotPicklableError as error:
        for name, delta in tables.items():
            for key, value in delta.written.items():
                if not is_picklable((key, value)):
                    error.detail = f"a {type(value).__name__} in '{name}' under the key {key!r}"
                    raise
        raise
