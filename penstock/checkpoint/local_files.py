"""Files of a local (or mounted) directory, written so that they survive a power cut."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import Any


class LocalFiles:
    """Reads and writes files by absolute path. Raises OSError.

    With `sync`, a method that writes returns only when the bytes and the directory entry are on the disk.
    """

    def __init__(self, *, sync: bool = True) -> None:
        self._sync = sync

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file under a hidden name, then rename it: readers see the old bytes or the new ones."""
        target = Path(path)
        self._make_directory(target.parent)
        temporary = target.parent / f".{target.name}.{uuid.uuid4().hex}.tmp"
        try:
            self._write(temporary, data)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._sync_directory(target.parent)

    def write_new(self, path: str, data: Any) -> None:
        """Write a file that must not exist yet."""
        target = Path(path)
        self._make_directory(target.parent)
        self._write(target, data)
        self._sync_directory(target.parent)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return Path(path).read_bytes()

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

    def _write(self, path: Path, data: Any) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if self._sync:
                os.fsync(file.fileno())

    def _make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        self._make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        self._sync_directory(directory.parent)  # the new directory's own entry

    def _sync_directory(self, directory: Path) -> None:
        if not self._sync:
            return
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
