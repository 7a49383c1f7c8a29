"""The few file operations that connectors need, on local disks and on anything pyarrow opens."""

from __future__ import annotations

import contextlib
import glob
import os
import posixpath
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.files.file_systems import has_file, is_object_store, open_file_system

_GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as it was seen: its path, its length in bytes, when it was last changed."""

    path: str
    size: int
    mtime_ns: int


class FileSystem(ABC):
    """File operations by path. Paths are POSIX strings; writing creates missing directories."""

    @abstractmethod
    def open_input(self, path: str) -> IO[bytes]:
        """Open a file for reading, seekable."""

    @abstractmethod
    def open_output(self, path: str) -> IO[bytes]:
        """Create a file or empty it, and open it for writing."""

    @abstractmethod
    def finish(self, stream: IO[bytes]) -> None:
        """Close an output so that its bytes survive a crash of the machine."""

    @abstractmethod
    def info(self, path: str) -> FileInfo | None:
        """Describe a file; None if there is none (or it is a directory)."""

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory."""

    @abstractmethod
    def walk(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below a directory, hidden ones too, in no particular order."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Move a file, atomically where the storage can."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; one that is missing is no error."""

    @abstractmethod
    def sync_directories(self, paths: Iterable[str]) -> None:
        """Make names that were added to these directories survive a crash of the machine."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        return self.info(path) is not None

    def glob(self, pattern: str) -> list[str]:
        """Return the files and directories that match a pattern with *, ?, [...] and **."""
        raise ArgumentError(
            "path patterns need a local path",
            detail=f"pattern: {pattern}",
            hint="give the directory; all files below it are read",
        )

    def copy_into(self, path: str, out: IO[bytes]) -> None:
        """Append a file's bytes to an output."""
        with self.open_input(path) as source:
            shutil.copyfileobj(source, out, 1 << 20)


class LocalFileSystem(FileSystem):
    """Files of this machine, or of a mount that all machines share."""

    def open_input(self, path: str) -> IO[bytes]:
        """Open a file for reading."""
        return Path(path).open("rb")

    def open_output(self, path: str) -> IO[bytes]:
        """Create a file or empty it."""
        target = Path(path)
        try:
            return target.open("wb")
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            return target.open("wb")

    def finish(self, stream: IO[bytes]) -> None:
        """Flush to the disk and close."""
        stream.flush()
        os.fsync(stream.fileno())
        stream.close()

    def info(self, path: str) -> FileInfo | None:
        """Describe a file."""
        try:
            found = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not _is_regular(found.st_mode):
            return None
        return FileInfo(path, found.st_size, found.st_mtime_ns)

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory."""
        return Path(path).is_dir()

    def walk(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below a directory; files that vanish meanwhile are left out."""
        todo = [path]
        while todo:
            try:
                entries = list(os.scandir(todo.pop()))
            except FileNotFoundError:
                continue
            for entry in entries:
                try:
                    if entry.is_dir():
                        todo.append(entry.path)
                    elif entry.is_file():
                        found = entry.stat()
                        yield FileInfo(entry.path, found.st_size, found.st_mtime_ns)
                except FileNotFoundError:
                    continue

    def rename(self, source: str, target: str) -> None:
        """Move a file within its file system."""
        Path(source).rename(target)

    def delete(self, path: str) -> None:
        """Delete a file."""
        Path(path).unlink(missing_ok=True)

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Flush directory entries to the disk."""
        for path in paths:
            try:
                handle = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def glob(self, pattern: str) -> list[str]:
        """Return what matches, sorted."""
        return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - the pattern is absolute


class ArrowFileSystem(FileSystem):
    """Any file system that pyarrow.fs opens: S3, GCS, HDFS, Azure, fsspec's."""

    def __init__(self, arrow: Any) -> None:
        self._arrow = arrow
        self._has_directories = not is_object_store(arrow)

    def open_input(self, path: str) -> IO[bytes]:
        """Open a file for reading."""
        stream: IO[bytes] = self._arrow.open_input_file(path)
        return stream

    def open_output(self, path: str) -> IO[bytes]:
        """Create a file or replace it."""
        if self._has_directories:
            self._arrow.create_dir(posixpath.dirname(path), recursive=True)
        stream: IO[bytes] = self._arrow.open_output_stream(path, compression=None)
        return stream

    def finish(self, stream: IO[bytes]) -> None:
        """Close: an object store keeps what it has accepted."""
        stream.close()

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        return super().exists(path) if self._has_directories else has_file(self._arrow, path)

    def info(self, path: str) -> FileInfo | None:
        """Describe a file."""
        return self._describe(self._arrow.get_file_info(path))

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory."""
        return bool(self._arrow.get_file_info(path).type.name == "Directory")

    def walk(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below a directory."""
        import pyarrow.fs as arrow_fs

        selector = arrow_fs.FileSelector(path, recursive=True, allow_not_found=True)
        for entry in self._arrow.get_file_info(selector):
            described = self._describe(entry)
            if described is not None:
                yield described

    def rename(self, source: str, target: str) -> None:
        """Move a file; an object store copies it and deletes the source."""
        self._arrow.move(source, target)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with contextlib.suppress(FileNotFoundError):
            self._arrow.delete_file(path)

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Nothing to do: these storages have no directories to flush."""

    @staticmethod
    def _describe(entry: Any) -> FileInfo | None:
        if entry.type.name != "File":
            return None
        return FileInfo(entry.path, entry.size or 0, entry.mtime_ns or 0)


def normalize(path: Any, what: str = "path") -> str:
    """Return a path or URI as a string that means the same on every machine: local paths become absolute."""
    try:
        text: str | bytes = os.fspath(path)
    except TypeError:
        raise ArgumentTypeError(
            f"{what} is not a path",
            detail=f"it is {path!r}",
            hint="give a string or a pathlib.Path",
        ) from None
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not text:
        raise ArgumentError(f"{what} is empty", hint="give a directory, a file or a URI")
    if is_local(text):
        text = local_path(text)
        trimmed = os.path.normpath(text)  # keeps a path with .. comparable; symbolic links stay
        return trimmed if trimmed.startswith("/") else str(Path.cwd() / trimmed)
    return text.rstrip("/")


def is_local(uri: str) -> bool:
    """Whether a path or URI names a file of the local file system."""
    return "://" not in uri or uri.startswith("file:")


def local_path(uri: str) -> str:
    """Return the path of a file: URI; a plain path is returned as it is."""
    if uri.startswith("file:"):
        return unquote(urlsplit(uri).path)
    return uri


def resolve(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a path or URI, and the path within it."""
    if uri.startswith("file:") or is_local(uri):
        return LocalFileSystem(), local_path(uri)
    try:
        arrow, path = open_file_system(uri)
    except Exception as error:
        raise ArgumentError(
            f"cannot open the file system of {uri}",
            detail=f"{type(error).__name__}: {error}",
            hint="use a local path, or a URI that pyarrow.fs or fsspec understands",
        ) from error
    return ArrowFileSystem(arrow), path


def has_glob(path: str) -> bool:
    """Whether a path is a pattern."""
    return not _GLOB_CHARACTERS.isdisjoint(path)


def is_hidden(path: str, below: str = "") -> bool:
    """Whether a part of the path below a directory begins with a dot or an underscore."""
    relative = path[len(below) :] if below and path.startswith(below) else path
    return any(part[0] in "._" for part in relative.split("/") if part)


def _is_regular(mode: int) -> bool:
    return (mode & 0o170000) == 0o100000
