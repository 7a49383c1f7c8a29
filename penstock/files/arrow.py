"""Files on any file system that pyarrow or fsspec opens by URI: object stores, HDFS, SFTP."""

from __future__ import annotations

import contextlib
import errno
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs

from penstock.errors import ArgumentError
from penstock.files.file_info import FileInfo
from penstock.files.fsspec_files import exclusive_write, is_of_fsspec, rename_over
from penstock.files.s3_conditions import ConditionalPut, conditional_put
from penstock.files.uris import is_object_store, open_file_system

# AWS error codes that are permanent: retrying cannot help.
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
        with os_errors():
            file_system, path = open_file_system(uri)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from error
    return ArrowFiles(file_system, conditional_put(uri)), path


@contextmanager
def os_errors() -> Iterator[None]:
    """Translate pyarrow's exceptions into OSError; those for invalid calls become non-retryable errors."""
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
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise
        raise OSError(str(error)) from error  # of a server, as clients of HDFS report it


class ArrowFiles:
    """Reads and writes files of one pyarrow file system by path. Raises OSError (see `os_errors`)."""

    remote = True
    os_errors = staticmethod(os_errors)

    def __init__(self, file_system: Any, put_new: ConditionalPut | None = None) -> None:
        self._fs = file_system
        self._renames = not is_object_store(file_system)
        #: Whether a rename that did nothing may look like one that did
        self._silent = self._renames and is_of_fsspec(file_system)
        self._exclusive = exclusive_write(file_system)
        self._rename_over = rename_over(file_system)
        self._put_new = put_new

    def open_input(self, path: str) -> object:
        """Open a file for reading."""
        return self._fs.open_input_file(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        with self._fs.open_input_stream(path, compression=None) as stream:
            data: bytes = stream.read()
            return data

    def info(self, path: str) -> FileInfo | None:
        """Describe a file; None if it does not exist."""
        return _described(self._fs.get_file_info(path))

    def exists(self, path: str) -> bool:
        """Whether a file or a directory exists at this path."""
        found: bool = self._fs.get_file_info(path).type != fs.FileType.NotFound
        return found

    def has_file(self, path: str) -> bool:
        """Whether a file exists at this path."""
        if self._renames:
            return self.info(path) is not None
        try:  # one request to an object store, where `get_file_info` takes two or three
            self._fs.open_input_file(path).close()
        except FileNotFoundError:
            return False
        return True

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Iterate over the files below a directory."""
        described = map(_described, self._select(directory, recursive=True))
        return (found for found in described if found is not None)

    def scan(self, directory: str) -> Sequence[tuple[str, bool]]:
        """Return the names in a directory and whether each is a directory; empty if the directory is missing."""
        found = self._select(directory, recursive=False)
        return [(each.base_name, each.type == fs.FileType.Directory) for each in found]

    def _select(self, directory: str, *, recursive: bool) -> Sequence[Any]:
        selector = fs.FileSelector(directory, allow_not_found=True, recursive=recursive)
        found: Sequence[Any] = self._fs.get_file_info(selector)
        return found

    def open_output(self, path: str) -> Any:
        """Create a file or replace it."""
        self._make_directory_of(path)
        return self._fs.open_output_stream(path, compression=None)

    def finish(self, stream: Any) -> None:
        """Close the stream: these storages are durable once they have accepted the bytes."""
        stream.close()

    def write(self, path: str, data: Any) -> None:
        """Write a file, replacing an existing one."""
        with self.open_output(path) as stream:
            stream.write(data)

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file so that readers see either the old or the new bytes."""
        if not self._renames:
            self.write(path, data)
            return
        with self._temporary(path, data) as temporary:
            if self._rename_over is not None:
                self._rename_over(temporary, path)
                return
            try:
                self._move(temporary, path)
            except OSError:  # some file systems, as libhdfs, do not rename over a file
                if not self.exists(path):
                    raise
                self._fs.delete_file(path)
                self._move(temporary, path)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file unless it exists already.

        Exact where a rename fails if the target exists (HDFS), and on object stores with conditional writes (S3 if boto3 is
        installed, others through fsspec). Elsewhere two concurrent writers compare the content afterwards, which the later one may
        still overwrite.
        """
        if self._exclusive is not None:
            return self._exclusive(path, data)
        if self._is_taken(path):
            return False
        if not self._renames:
            written = None if self._put_new is None else self._put_new(path, data)
            if written is False:
                return False
            if written is None:
                self.write(path, data)
        else:
            with self._temporary(path, data) as temporary:
                try:
                    self._move(temporary, path)
                except OSError:
                    if not self.exists(path):
                        raise
                    self._discard(temporary)
                    return False
        return self.read(path) == data  # also of a store that ignores conditions

    def write_new(self, path: str, data: object) -> None:
        """Write a file that must not exist yet; two concurrent writers are not detected."""
        if self._is_taken(path):
            raise FileExistsError(errno.EEXIST, f"the file already exists: {path}")
        try:
            self.write(path, data)
        except BaseException:
            # Closing the stream may have published the part that was written.
            self._discard(path)
            raise

    def rename(self, source: str, target: str) -> None:
        """Move a file; an object store copies it and deletes the source."""
        self._move(source, target)

    def delete_empty(self, directory: str) -> None:
        """Do nothing: another writer may add a file between the check and the delete."""

    def sync_directory(self, directory: str) -> None:
        """Do nothing: these storages have no directories to flush."""

    def glob(self, pattern: str) -> Sequence[str]:
        """Reject the pattern: only local file systems support globs."""
        raise ArgumentError(
            "path patterns are supported on local file systems only",
            detail=f"pattern: {pattern}",
            hint="pass the directory; all files below it are read",
        )

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(path)

    def delete_tree(self, directory: str) -> None:
        """Delete a directory and everything in it, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(directory)

    def _move(self, source: str, target: str) -> None:
        """Move a file; raises OSError if it was not moved, also where the file system returns as if it were (WebHDFS)."""
        self._fs.move(source, target)
        if self._silent and self.exists(source):
            if self.exists(target):
                raise FileExistsError(errno.EEXIST, f"the file already exists: {target}")
            raise OSError(errno.EIO, f"the file system did not move '{source}' to '{target}'")

    def _is_taken(self, path: str) -> bool:
        return self.exists(path) if self._renames else self.has_file(path)

    def _make_directory_of(self, path: str) -> None:
        if self._renames:
            self._fs.create_dir(path.rpartition("/")[0], recursive=True)

    @contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[str]:
        """Write a hidden file next to `path`; delete it if the body of the context fails."""
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"
        try:
            self.write(temporary, data)
            yield temporary
        except BaseException:
            self._discard(temporary)
            raise

    def _discard(self, path: str) -> None:
        with contextlib.suppress(OSError, pa.ArrowException):
            self._fs.delete_file(path)


def _described(entry: Any) -> FileInfo | None:
    if entry.type != fs.FileType.File:
        return None
    return FileInfo(entry.path, entry.size or 0, entry.mtime_ns or 0)
