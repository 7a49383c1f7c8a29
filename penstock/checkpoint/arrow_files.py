"""Files on any file system that pyarrow or fsspec opens by URI: object stores, HDFS, SFTP."""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from penstock.common.file_systems import open_file_system

# A write to these is visible when it is complete, and a rename is a copy.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})


def open_uri(uri: str) -> tuple[ArrowFiles, str]:
    """Return the file system of a URI, and the URI's path on it."""
    with _os_errors():
        file_system, path = open_file_system(uri)
    return ArrowFiles(file_system), path


class ArrowFiles:
    """Reads and writes files of one pyarrow file system by path. Raises OSError."""

    def __init__(self, file_system: Any) -> None:
        self._fs = file_system
        self._renames = file_system.type_name not in _OBJECT_STORES

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file so that readers see the old bytes or the new ones."""
        with _os_errors():
            if not self._renames:
                self._write(path, data)
                return
            with self._temporary(path, data) as temporary:
                try:
                    self._fs.move(temporary, path)
                except OSError:  # HDFS does not rename over a file
                    if not self.exists(path):
                        raise
                    self._fs.delete_file(path)
                    self._fs.move(temporary, path)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file, all at once, unless there is one of its name; return whether it was written.

        Exact where a rename fails if the name is taken (HDFS). Elsewhere two writers that come at the same moment are told
        apart by what is there afterwards, which the later one may still change.
        """
        with _os_errors():
            if self.exists(path):
                return False
            if not self._renames:
                self._write(path, data)
            else:
                with self._temporary(path, data) as temporary:
                    try:
                        self._fs.move(temporary, path)
                    except OSError:
                        if not self.exists(path):
                            raise
                        self._discard(temporary)
                        return False
            return self.read(path) == data

    def write_new(self, path: str, data: Any) -> None:
        """Write a file that must not exist yet; two writers at one time are not told apart."""
        with _os_errors():
            if self.exists(path):
                raise FileExistsError(errno.EEXIST, f"the file exists already: {path}")
            if self._renames:
                self._fs.create_dir(path.rpartition("/")[0], recursive=True)
            try:
                self._write(path, data)
            except BaseException:
                # Closing the stream may have published the part that was written.
                self._discard(path)
                raise

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        with _os_errors(), self._fs.open_input_stream(path) as stream:
            data: bytes = stream.read()
            return data

    def read_into(self, path: str, target: BinaryIO) -> None:
        """Append the bytes of a file to an open one, piece by piece."""
        with _os_errors(), self._fs.open_input_stream(path) as stream:
            while block := stream.read(1024 * 1024):
                target.write(block)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory at `path`."""
        with _os_errors():
            found: bool = self._fs.get_file_info(path).type != fs.FileType.NotFound
            return found

    def list(self, directory: str, start: str) -> list[str]:
        """Return the files below `directory`, relative to it, whose path begins with `start`."""
        found: list[str] = []
        for info in self._select(directory, recursive=False):
            if info.base_name.startswith(".") or not info.base_name.startswith(start):
                continue
            below: Sequence[Any] = [info]
            if info.type == fs.FileType.Directory:
                below = self._select(info.path, recursive=True)
            for file in below:
                name = file.path[len(directory) :].lstrip("/")
                hidden = any(part.startswith(".") for part in name.split("/"))
                if file.type == fs.FileType.File and not hidden:
                    found.append(name)
        return found

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""
        with _os_errors():
            try:
                self._fs.delete_file(path)
            except FileNotFoundError:
                return

    def delete_tree(self, path: str) -> None:
        """Delete a directory with all it holds, if it is there."""
        with _os_errors():
            try:
                self._fs.delete_dir(path)
            except FileNotFoundError:
                return

    def _select(self, directory: str, *, recursive: bool) -> Sequence[Any]:
        with _os_errors():
            selector = fs.FileSelector(directory, allow_not_found=True, recursive=recursive)
            infos: Sequence[Any] = self._fs.get_file_info(selector)
            return infos

    def _write(self, path: str, data: Any) -> None:
        with self._fs.open_output_stream(path) as stream:
            stream.write(data)

    @contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[str]:
        """Write a hidden file beside `path`; delete it if what is done with it fails."""
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"
        self._fs.create_dir(directory, recursive=True)
        try:
            self._write(temporary, data)
            yield temporary
        except BaseException:
            self._discard(temporary)
            raise

    def _discard(self, path: str) -> None:
        with contextlib.suppress(OSError, pa.ArrowException):
            self._fs.delete_file(path)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Turn pyarrow's own exceptions into OSError; those that say that a call makes no sense, into ones that stay."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise OSError(errno.EINVAL, str(error)) from error
    except pa.ArrowException as error:
        raise OSError(str(error)) from error
