"""Files on any file system that pyarrow or fsspec opens by URI: object stores, HDFS, SFTP."""

from __future__ import annotations

import contextlib
import errno
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from penstock.files.file_systems import exclusive_write, has_file, is_object_store, open_file_system

# What S3 refuses and will refuse again.
_AWS_ERROR = re.compile(r"AWS Error ([A-Z_]+)")
_NOT_ALLOWED = frozenset(
    {
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY_ID",
        "INVALID_CLIENT_TOKEN_ID",
        "MISSING_AUTHENTICATION_TOKEN",
        "SIGNATURE_DOES_NOT_MATCH",
    }
)


def open_uri(uri: str) -> tuple[ArrowFiles, str]:
    """Return the file system of a URI, and the URI's path on it."""
    try:
        with _os_errors():
            file_system, path = open_file_system(uri)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from error
    return ArrowFiles(file_system), path


class ArrowFiles:
    """Reads and writes files of one pyarrow file system by path. Raises OSError."""

    def __init__(self, file_system: Any) -> None:
        self._fs = file_system
        self._renames = not is_object_store(file_system)
        self._create = exclusive_write(file_system)

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

        Exact where a rename fails if the name is taken (HDFS), and on object stores through fsspec. Elsewhere two writers that
        come at the same moment are told apart by what is there afterwards, which the later one may still change.
        """
        with _os_errors():
            if self._create is not None:
                return self._create(path, data)
            if self._is_taken(path):
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
            if self._is_taken(path):
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
        with _os_errors(), self._fs.open_input_stream(path, compression=None) as stream:
            data: bytes = stream.read()
            return data

    def read_into(self, path: str, target: BinaryIO) -> None:
        """Append the bytes of a file to an open one, piece by piece."""
        with _os_errors(), self._fs.open_input_stream(path, compression=None) as stream:
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

    def list_directories(self, directory: str, start: str) -> Sequence[str]:
        """Return the names of the directories in `directory` that begin with `start`."""
        return [
            info.base_name
            for info in self._select(directory, recursive=False)
            if info.type == fs.FileType.Directory and info.base_name.startswith(start)
        ]

    def delete_empty(self, path: str) -> None:
        """Do nothing: between looking and deleting, somebody may write a file into the directory."""

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

    def _is_taken(self, path: str) -> bool:
        """Whether there is a file of this name."""
        return self.exists(path) if self._renames else has_file(self._fs, path)

    def _write(self, path: str, data: Any) -> None:
        with self._fs.open_output_stream(path, compression=None) as stream:
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
    except OSError as error:
        found = _AWS_ERROR.search(str(error)) if error.errno is None else None
        if found is None:
            raise
        if found[1] in _NOT_ALLOWED:
            raise PermissionError(errno.EACCES, str(error)) from error
        if found[1] == "NO_SUCH_BUCKET":
            raise OSError(errno.EINVAL, str(error)) from error
        raise
