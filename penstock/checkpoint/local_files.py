"""Files of a local (or mounted) directory, written so that they survive a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

# What link() fails with where a file system has no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalFiles:
    """Reads and writes files by absolute path. Raises OSError.

    With `sync`, a method that writes returns only when the bytes and the directory entry are on the disk. A write that
    fails leaves nothing behind, unless deleting fails too.
    """

    def __init__(self, *, sync: bool = True) -> None:
        self._sync = sync

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file under a hidden name, then rename it: readers see the old bytes or the new ones."""
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
        """Write a file, all at once, unless there is one of its name; return whether it was written.

        Of any number of writers, in any processes, one gets True: the file is written under a hidden name, and a hard link,
        which fails if the name is taken, gives it its own.
        """
        target = Path(path)
        self.make_directory(target.parent)
        temporary = _hidden(target)
        try:
            self._fill(_open_new(temporary), data)
            created = _link(temporary, target)
        finally:
            _discard(temporary)
        self._sync_directory(
            target.parent
        )  # if there was one, its writer may not have come to this
        return created

    def write_new(self, path: str, data: Any) -> None:
        """Write a file that must not exist yet."""
        # Under its own name at once: a writer that is killed leaves a file that the sweep of state files finds.
        target = Path(path)
        self.make_directory(target.parent)
        descriptor = _open_new(target)
        try:
            self._fill(descriptor, data)
            self._sync_directory(target.parent)
        except BaseException:
            _discard(target)
            raise

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return Path(path).read_bytes()

    def read_into(self, path: str, target: BinaryIO) -> None:
        """Append the bytes of a file to an open one, piece by piece."""
        with Path(path).open("rb") as file:
            shutil.copyfileobj(file, target, 1024 * 1024)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory at `path`."""
        return Path(path).exists()

    def list(self, directory: str, start: str) -> list[str]:
        """Return the files below `directory`, relative to it, whose path begins with `start`."""
        found: list[str] = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or not entry.name.startswith(start):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        below = self.list(entry.path, "")
                        found.extend(f"{entry.name}/{name}" for name in below)
                    else:
                        found.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return found

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""
        Path(path).unlink(missing_ok=True)

    def delete_tree(self, path: str) -> None:
        """Delete a directory with all it holds, if it is there."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    def list_directories(self, directory: str, start: str) -> Sequence[str]:
        """Return the names of the directories in `directory` that begin with `start`."""
        try:
            with os.scandir(directory) as entries:
                return [
                    entry.name
                    for entry in entries
                    if entry.name.startswith(start) and entry.is_dir(follow_symlinks=False)
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete_empty(self, path: str) -> None:
        """Delete a directory if there is nothing in it: the system looks and deletes in one step."""
        try:
            Path(path).rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise

    def make_directory(self, directory: Path) -> None:
        """Create a directory, with those above it, if it is not there."""
        if directory.is_dir():
            return
        self.make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        self._sync_directory(directory.parent)  # the new directory's own entry

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
    """Delete a file that was not finished; why it was not is the error that counts."""
    with contextlib.suppress(OSError):
        path.unlink()


def _link(temporary: Path, target: Path) -> bool:
    """Give a file its name unless the name is taken; return whether it was free."""
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
