"""Reads a subtask's keyed state from checkpoints and savepoints."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.checkpoint.handles import StateChain, read_state
from penstock.checkpoint.state_io import CheckpointStateIO, Tables
from penstock.checkpoint.storage import CheckpointFileSystem


@dataclass(frozen=True, slots=True)
class SnapshotStateIO(CheckpointStateIO):
    """Reads and writes snapshots below the job's directory, and reads those of savepoints anywhere."""

    def load(self, chain: StateChain, owned: range | None = None) -> Iterator[Tables]:
        """Read the snapshots of a chain, oldest first, in pieces.

        With `owned`, entries of other key groups may be omitted; the caller must still filter the rest.
        """
        storage = CheckpointFileSystem(self.directory)
        for handle in chain:
            if handle.format == "parquet":
                from penstock.savepoint.table_files import read_named  # imports pyarrow

                for name, delta in read_named(storage, handle, owned):
                    yield {name: delta}
            else:
                yield pickle.loads(read_state(storage, handle))
