"""`FileSystem`: file operations that work alike on local and remote storage."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from penstock.errors import ArgumentError, FileError
from penstock.errors.file_errors import (
    FILES,
    Action,
    ErrorWording,
    failure,
)
from penstock.files.faults import through_hook
from penstock.files.file_info import FileInfo
from penstock.files.local import LocalFiles
from penstock.files.paths import is_local, join_path, local_path
from penstock.files.retries import retried
from penstock.files.streams import BufferedOutput, RetryingInput

if TYPE_CHECKING:
    from penstock.files.arrow import ArrowFiles

Driver: TypeAlias = "LocalFiles | ArrowFiles"
Buffer: TypeAlias = Any  # bytes, or a memory-mapped file
_S = TypeVar("_S")
_T = TypeVar("_T")

_CALLS_AT_ONCE = 16
_READ_AT_ONCE = 1 << 18
_COPY_AT_ONCE = 1 << 20
# Write buffer of an output stream. A small remote file is then a single request; pyarrow buffers as much.
_KEPT = 1 << 18
_KEPT_REMOTE = 8 << 20


def open_driver(uri: str, *, sync: bool = True) -> tuple[Driver, str]:
    """Return the driver for a path or URI, and the path on it. Raises OSError."""
    if is_local(uri):
        return LocalFiles(sync=sync), local_path(uri)
    from penstock.files.arrow import open_uri  # imports pyarrow

    return retried(lambda: open_uri(uri), f"open the file system of '{uri}'")


def resolve(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a path or URI, and the path on it."""
    try:
        driver, path = open_driver(uri)
    except OSError as error:
        raise ArgumentError(
            f"cannot open the file system of {uri}",
            detail=f"{type(error).__name__}: {error}",
            hint="use a local path, or a URI that pyarrow.fs or fsspec understands",
        ) from error
    return FileSystem(driver, "" if is_local(uri) else uri, path), path


class FileSystem:
    """File operations by path. Paths are POSIX strings; writing creates missing directories.

    A failed call is retried twice after short pauses, unless the failure is permanent (no space, no permission, no such
    file).
    Then an error of the kind given by `words` is raised, with the path; `uri` is the user's spelling of `root`.
    """

    words: ErrorWording = FILES

    def __init__(self, driver: Driver, uri: str = "", root: str = "") -> None:
        self._driver = driver
        self._uri = uri
        self._root = root

    @property
    def remote(self) -> bool:
        """Whether calls go over a network, so that concurrent calls are faster."""
        return self._driver.remote

    # reading

    def open_input(self, path: str) -> IO[bytes]:
        """Open a file for reading, seekable. A read that fails with a transient error is retried."""

        def call(read: Callable[[], _T]) -> _T:
            return self._call("read", path, lambda *_: read())

        files, at = self._locate("read", path)
        return io.BufferedReader(RetryingInput(lambda: files.open_input(at), call), _READ_AT_ONCE)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self._call("read", path, lambda files, at: files.read(at))

    def copy_into(self, path: str, target: IO[bytes]) -> None:
        """Append the bytes of a file of any size to an open one."""
        with self.open_input(path) as source:
            shutil.copyfileobj(source, target, _COPY_AT_ONCE)

    # Metadata.

    def info(self, path: str) -> FileInfo | None:
        """Describe a file; None if it does not exist or is a directory."""
        return self._call("look for", path, lambda files, at: files.info(at))

    def exists(self, path: str = "") -> bool:
        """Whether a file or a directory exists at this path."""
        return self._call("look for", path, lambda files, at: files.exists(at))

    def has_file(self, path: str) -> bool:
        """Whether a file exists at this path."""
        return self._call("look for", path, lambda files, at: files.has_file(at))

    def walk(self, directory: str) -> list[FileInfo]:
        """Return every file below a directory, hidden ones too, in no particular order."""
        return self._call("list", directory, lambda files, at: [*files.walk(at)])

    def glob(self, pattern: str) -> Sequence[str]:
        """Return the files and directories that match a pattern with *, ?, [...] and **, on a local file system."""
        return self._call("list", pattern, lambda files, at: files.glob(at))

    # writing

    def open_output(self, path: str) -> IO[bytes]:
        """Create or truncate a file and open it for writing. It is guaranteed to be visible after `finish`."""
        return cast(
            "IO[bytes]",
            BufferedOutput(
                _KEPT_REMOTE if self.remote else _KEPT,
                lambda data: self._call("write", path, lambda files, at: files.write(at, data)),
                lambda: self._call("write", path, lambda files, at: files.open_output(at)),
                lambda call: self._call("write", path, lambda files, _: call(files), again=False),
            ),
        )

    def finish(self, stream: IO[bytes]) -> None:
        """Close an output so that its bytes survive a crash of the machine."""
        stream.finish()  # type: ignore[attr-defined]  # it is one of open_output

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file, replacing an existing one; a reader never sees part of it."""
        self._call("write", path, lambda files, at: files.write_atomic(at, data))

    def create(self, path: str, data: bytes) -> bool:
        """Write a file atomically unless it exists already; return whether it was written.

        Of two writers on a local file system exactly one gets True. The result may be False although this call created the
        file, if a first attempt wrote it and then failed: compare the bytes.
        """
        return self._call("write", path, lambda files, at: files.create(at, data))

    def write_new(self, path: str, data: Buffer) -> None:
        """Write a file that must not exist yet."""
        tries = 0

        def write(files: Driver, at: str) -> None:
            nonlocal tries
            tries += 1
            try:
                files.write_new(at, data)
            except FileExistsError:
                if tries == 1 or not _is_part(files.read(at), data):
                    raise
                files.delete(at)  # left over from the previous attempt
                files.write_new(at, data)

        self._call("write", path, write)

    def rename(self, source: str, target: str) -> None:
        """Move a file, atomically where the storage can."""
        tries = 0
        _, old = self._locate("write", source)

        def move(files: Driver, new: str) -> None:
            nonlocal tries
            tries += 1
            try:
                files.rename(old, new)
            except OSError:
                # The previous attempt may have moved the file although it failed.
                if tries == 1 or files.has_file(old) or not files.has_file(new):
                    raise

        self._call("write", target, move)

    def delete(self, path: str) -> None:
        """Delete a file; a missing file is not an error."""
        self._call("delete", path, lambda files, at: files.delete(at))

    def delete_tree(self, directory: str = "") -> None:
        """Delete a directory and everything in it; a missing directory is not an error."""
        self._call("delete", directory, lambda files, at: files.delete_tree(at))

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if it is empty; storages that cannot do this atomically keep it."""
        self._call("delete", directory, lambda files, at: files.delete_empty(at))

    def sync_directories(self, directories: Iterable[str]) -> None:
        """Make names added to these directories survive a crash of the machine."""
        for directory in directories:
            self._call("write", directory, lambda files, at: files.sync_directory(at))

    def each(self, call: Callable[[_S], _T], items: Sequence[_S]) -> tuple[_T, ...]:
        """Call a function that uses this file system for each item, concurrently if the file system is remote."""
        if len(items) < 2 or not self.remote:
            return tuple(map(call, items))
        with ThreadPoolExecutor(min(_CALLS_AT_ONCE, len(items))) as pool:
            return tuple(pool.map(call, items))

    # Implementation.

    def _call(
        self, action: Action, path: str, call: Callable[[Driver, str], _T], *, again: bool = True
    ) -> _T:
        """Run a file operation with retries; raise an error that says what failed."""
        where = self._where(path)
        try:
            files, at = self._locate(action, path)

            def attempt() -> _T:
                with files.os_errors():
                    return through_hook(action, at, lambda: call(files, at))

            return retried(attempt, f"{action} {self.words.file} '{where}'") if again else attempt()
        except FileError:
            raise  # raised by a stream that was read or written in the call
        except OSError as error:
            raise failure(error, action, where, self.words) from error

    def _locate(self, action: Action, path: str) -> tuple[Driver, str]:
        """Return the driver for a path, and the path on it."""
        return self._driver, path

    def _where(self, path: str) -> str:
        """Return a path as the user would write it."""
        if not self._uri:
            return path
        below = path.removeprefix(self._root).strip("/")
        return join_path(self._uri, below) if below else self._uri


def _is_part(found: bytes, data: Buffer) -> bool:
    """Whether a file holds the first part of `data`, or all of it."""
    return len(found) <= len(data) and bool(data[: len(found)] == found)
