"""Local files, or files on a mount shared by all machines, written so that they survive a power cut."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from penstock.files.file_info import FileInfo

# Error numbers of link() on file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalFiles:
    """Reads and writes files by absolute path. Raises OSError.

    With `sync`, a method that writes returns only after the bytes and the directory entry are on disk. A failed write leaves
    nothing behind, unless the cleanup fails too.
    """

    remote = False
    os_errors = staticmethod(contextlib.nullcontext)

    def __init__(self, *, sync: bool = True) -> None:
        self._sync = sync

    def glob(self, pattern: str) -> Sequence[str]:
        """Return the matching paths, sorted."""
        return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - the pattern is absolute

    def sync_directory(self, directory: str) -> None:
        """Flush the entries of a directory to disk, if the directory exists."""
        with contextlib.suppress(FileNotFoundError):
            self._sync_directory(Path(directory))

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if it is empty; the operating system does this atomically."""
        try:
            Path(directory).rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise

    def make_directory(self, directory: Path) -> None:
        """Create a directory and its parents if they are missing."""
        if directory.is_dir():
            return
        self.make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        self._sync_directory(directory.parent)  # the new directory's own entry

    def open_input(self, path: str) -> IO[bytes]:
        """Open a file for reading."""
        return Path(path).open("rb", buffering=0)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return Path(path).read_bytes()

    def info(self, path: str) -> FileInfo | None:
        """Describe a file; None if it does not exist."""
        try:
            found = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return FileInfo(path, found.st_size, found.st_mtime_ns)

    def exists(self, path: str) -> bool:
        """Whether a file or a directory exists at this path."""
        return Path(path).exists()

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Iterate over the files below a directory, following links."""
        todo = [directory]
        while todo:
            try:
                entries = list(os.scandir(todo.pop()))
            except FileNotFoundError:
                continue
            for entry in entries:
                # Files that vanish during the walk are skipped.
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_dir():
                        todo.append(entry.path)
                    elif entry.is_file():
                        found = entry.stat()
                        yield FileInfo(entry.path, found.st_size, found.st_mtime_ns)

    def has_file(self, path: str) -> bool:
        """Whether a file exists at this path."""
        return self.info(path) is not None

    def scan(self, directory: str) -> Sequence[tuple[str, bool]]:
        """Return the names in a directory and whether each is a directory; empty if the directory is missing."""
        try:
            with os.scandir(directory) as entries:
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open_output(self, path: str) -> IO[bytes]:
        """Create or truncate a file."""
        target = Path(path)
        self.make_directory(target.parent)
        return target.open("wb")

    def finish(self, stream: IO[bytes]) -> None:
        """Close a file after its bytes are on disk."""
        with stream:
            stream.flush()
            if self._sync:
                os.fsync(stream.fileno())

    def write(self, path: str, data: bytes) -> None:
        """Write a file, replacing an existing one."""
        stream = self.open_output(path)
        try:
            stream.write(data)
            self.finish(stream)
        finally:
            stream.close()

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file under a hidden name and rename it: readers see either the old or the new bytes."""
        target = Path(path)
        self.make_directory(target.parent)
        temporary = _hidden(target)
        try:
            self._fill(_open_new(temporary), data)
            temporary.replace(target)
        except BaseException:
            _discard(temporary)
            raise
        self._sync_directory(target.parent)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file under a hidden name and hard-link it to its own, which fails if the name is taken."""
        target = Path(path)
        self.make_directory(target.parent)
        temporary = _hidden(target)
        try:
            self._fill(_open_new(temporary), data)
            created = _link(temporary, target)
        finally:
            _discard(temporary)
        # Also if the file existed: its writer may have died before syncing.
        self._sync_directory(target.parent)
        return created

    def write_new(self, path: str, data: object) -> None:
        """Write a file that must not exist yet."""
        # Written under its final name: a killed writer leaves a file that the cleanup of state files finds.
        target = Path(path)
        self.make_directory(target.parent)
        descriptor = _open_new(target)
        try:
            self._fill(descriptor, data)
            self._sync_directory(target.parent)
        except BaseException:
            _discard(target)
            raise

    def rename(self, source: str, target: str) -> None:
        """Move a file."""
        Path(source).rename(target)

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        Path(path).unlink(missing_ok=True)

    def delete_tree(self, directory: str) -> None:
        """Delete a directory and everything in it, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)

    def _fill(self, descriptor: int, data: Any) -> None:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if self._sync:
                os.fsync(file.fileno())

    def _sync_directory(self, directory: Path) -> None:
        if not self._sync:
            return
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_new(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _hidden(target: Path) -> Path:
    return target.parent / f".{target.name}.{uuid.uuid4().hex}.tmp"


def _discard(path: Path) -> None:
    """Delete an unfinished file; errors are ignored because the original failure matters more."""
    with contextlib.suppress(OSError):
        path.unlink()


def _link(temporary: Path, target: Path) -> bool:
    """Link a file to its final name; return False if the name is taken."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The lease keeps other drivers away; without hard links there is no second line of defence.
        if target.exists():
            return False
        temporary.replace(target)
    return True
