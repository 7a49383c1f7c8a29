"""Local copies of the databases in checkpoints of the rocksdb backend."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.checkpoint.handles import StateHandle
from penstock.checkpoint.state_io import CheckpointStateIO
from penstock.processes import temporary
from penstock.runtime.state.rocksdb.settings import RocksDBSettings

if TYPE_CHECKING:
    from penstock.runtime.state.rocksdb.store import RocksDBStore

_SETTINGS = RocksDBSettings()


class Databases:
    """Downloads databases when they are first read, keeps their files until it is closed, and opens each only once at a time."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._fetched: dict[StateHandle, Path] = {}
        self._opened: dict[StateHandle, tuple[RocksDBStore, int]] = {}  # with the number of readers
        self._finalizer: Any = None

    @contextmanager
    def opened(self, directory: str, handle: StateHandle) -> Iterator[RocksDBStore]:
        """Open the database of a snapshot for reading; `directory` is that of the job that wrote it."""
        store, readers = self._opened.get(handle, (None, 0))
        if store is None:
            from penstock.runtime.state.rocksdb.store import RocksDBStore

            store = RocksDBStore(self._fetch(directory, handle), _SETTINGS)
        self._opened[handle] = (store, readers + 1)
        try:
            yield store
        finally:
            store, readers = self._opened[handle]
            if readers > 1:
                self._opened[handle] = (store, readers - 1)
            else:
                del self._opened[handle]
                store.close()

    def _fetch(self, directory: str, handle: StateHandle) -> Path:
        found = self._fetched.get(handle)
        if found is not None:
            return found
        if self._root is None:
            self._root = Path(temporary.create_directory("state"))
            self._finalizer = weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        path = self._root / str(len(self._fetched))
        shutil.rmtree(path, ignore_errors=True)  # left over from a failed download
        path.mkdir()
        CheckpointStateIO(directory).fetch_files(handle, path, _SETTINGS)
        self._fetched[handle] = path
        return path

    def close(self) -> None:
        """Delete the local copies."""
        if self._finalizer is not None:
            self._finalizer()
        self._root = None
        self._fetched.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
