"""Finds, reads and deletes savepoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.checkpoint.handles import StateHandle
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.signing import Signer
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.files.paths import normalize, split_options
from penstock.savepoint.metadata import METADATA, STATE, Savepoint, decode, is_metadata


@dataclass(frozen=True, slots=True)
class SavepointTable:
    """One table of one subtask in a savepoint; its files have absolute names."""

    operator: str
    subtask: int
    name: str
    rows: int
    files: tuple[StateHandle, ...]


def is_savepoint(path: str) -> bool:
    """Whether there is a savepoint, intact or damaged, at a path or URI: its directory, or the metadata file in it."""
    try:
        return is_metadata(_storage_of(path).read(METADATA))
    except CheckpointError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return False
        raise


def read_savepoint(path: str, signer: Signer | None = None) -> Manifest:
    """Return the manifest of a savepoint with absolute file names, wherever the directory was moved."""
    storage, savepoint = _read(path, signer)
    return savepoint.manifest.relocated(storage)


def list_tables(path: str, signer: Signer | None = None) -> list[SavepointTable]:
    """Return the tables of a savepoint: by operator, subtask and name."""
    storage, savepoint = _read(path, signer)

    def found() -> Iterator[SavepointTable]:
        for (operator, subtask), tables in savepoint.tables.items():
            for name, table in tables.items():
                files = tuple(handle.relocated(storage) for handle in table.files)
                yield SavepointTable(operator, subtask, name, table.rows, files)

    return list(found())


def dispose_savepoint(path: str) -> None:
    """Delete a savepoint. Other directories are rejected, and files that do not belong to the savepoint are kept."""
    if not is_savepoint(path):
        raise CheckpointError(
            f"'{path}' is not a savepoint: nothing was deleted",
            detail=f"it has no {METADATA} of a savepoint",
            hint="pass the path that was printed when the savepoint was taken",
        )
    storage = _storage_of(path)
    storage.delete(METADATA)  # from here on it is not a savepoint
    storage.delete_tree(STATE)
    if not storage.list():
        storage.delete_tree()


def _read(path: str, signer: Signer | None) -> tuple[CheckpointFileSystem, Savepoint]:
    storage = _storage_of(path)
    if not storage.exists(METADATA):
        raise CheckpointError(
            f"no savepoint at '{path}'",
            detail=f"it has no {METADATA}: the path is misspelt, or the savepoint was never completed",
            hint="pass the directory of a savepoint, savepoint-<job>-<id>",
        )
    data = storage.read(METADATA)
    if not is_metadata(data):
        raise CheckpointError(
            f"'{path}' is not a savepoint",
            detail=f"its {METADATA} is not that of a savepoint, or its first line is damaged",
            hint="pass the directory of a savepoint, savepoint-<job>-<id>",
        )
    return storage, decode(data, storage.path(METADATA), signer)


def _storage_of(path: str) -> CheckpointFileSystem:
    base, options = split_options(normalize(path))
    return CheckpointFileSystem(base.removesuffix(f"/{METADATA}") + options)
