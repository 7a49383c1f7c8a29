"""Where checkpoints are kept: a directory, local or remote, and the files in it.

Used on the driver and inside tasks, so importing it loads no large library: pyarrow comes with the first
remote URI.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from penstock.checkpoint.local_files import LocalFiles
from penstock.errors import ArgumentError, CheckpointError

Buffer: TypeAlias = Any  # bytes, or a file that is mapped into memory


class Files(Protocol):
    """What a file system must do; paths are absolute, failures are OSError."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file so that readers see the old bytes or the new ones."""

    def write_new(self, path: str, data: Buffer) -> None:
        """Write a file that must not exist yet."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""

    def list(self, directory: str, start: str) -> list[str]:
        """Return the files below `directory`, relative to it, whose path begins with `start`."""

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""

    def delete_tree(self, path: str) -> None:
        """Delete a directory with all it holds, if it is there."""


class CheckpointStorage:
    """Files under one base directory, by name relative to it.

    `base` is a local path or a URI that pyarrow opens (`s3://bucket/checkpoints`). A relative local path is made absolute,
    so the object means the same place after it was pickled to a task. Every failure is a CheckpointError with the path.
    """

    __slots__ = ("_files", "_root", "base", "sync")

    def __init__(self, base: str, *, sync: bool = True) -> None:
        if not base:
            raise ArgumentError(
                "the directory of checkpoint storage is empty",
                hint="set execution.checkpointing.dir to a directory or a URI",
            )
        self.base = _normalize(base)
        self.sync = sync
        self._files: Files | None = None
        self._root = ""

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.base, self.sync)

    def __repr__(self) -> str:
        return f"CheckpointStorage({self.base!r})"

    def child(self, name: str) -> CheckpointStorage:
        """Return the storage of a directory below this one."""
        return CheckpointStorage(self.path(name), sync=self.sync)

    def path(self, name: str) -> str:
        """Return the full path or URI of a name."""
        base, mark, query = self.base, "", ""
        if "://" in self.base:  # the options of a URI stay at its end
            base, mark, query = self.base.partition("?")
        return f"{base.rstrip('/')}/{_checked(name)}{mark}{query}"

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write a file, over an older one if there is one; a reader never sees a part of it."""
        with self._reporting("write", name):
            files, root = self._open()
            files.write_atomic(f"{root}/{_checked(name)}", data)

    def write_new(self, name: str, data: Buffer) -> None:
        """Write a file that must not exist yet."""
        with self._reporting("write", name):
            files, root = self._open()
            files.write_new(f"{root}/{_checked(name)}", data)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; `name` may also be an absolute path or a URI."""
        if is_absolute(name):
            path, mark, query = name.partition("?") if "://" in name else (name, "", "")
            directory, _, last = path.rpartition("/")
            return CheckpointStorage(f"{directory}{mark}{query}", sync=self.sync).read(last)
        with self._reporting("read", name):
            files, root = self._open()
            return files.read(f"{root}/{_checked(name)}")

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or a directory of this name."""
        with self._reporting("look for", name):
            files, root = self._open()
            return files.exists(f"{root}/{_checked(name)}" if name else root)

    def list(self, prefix: str = "") -> list[str]:
        """Return the names of all files that begin with `prefix`, sorted. Hidden files are left out."""
        with self._reporting("list", prefix):
            files, root = self._open()
            directory, slash, start = _checked(prefix).rpartition("/")
            found = files.list(f"{root}/{directory}" if directory else root, start)
            return sorted(f"{directory}{slash}{name}" for name in found)

    def delete(self, name: str) -> None:
        """Delete a file; it is no failure if it does not exist."""
        with self._reporting("delete", name):
            files, root = self._open()
            files.delete(f"{root}/{_checked(name)}")

    def delete_tree(self, name: str = "") -> None:
        """Delete a directory with all it holds; it is no failure if it does not exist."""
        with self._reporting("delete", name):
            files, root = self._open()
            files.delete_tree(f"{root}/{_checked(name)}" if name else root)

    def _open(self) -> tuple[Files, str]:
        if self._files is None:
            if "://" in self.base:
                from penstock.checkpoint.arrow_files import open_uri

                self._files, root = open_uri(self.base)
            else:
                self._files, root = LocalFiles(sync=self.sync), self.base
            self._root = root.rstrip("/")
        return self._files, self._root

    @contextmanager
    def _reporting(self, action: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = self.path(name) if name else self.base
            if isinstance(error, FileExistsError):
                message = f"checkpoint file '{where}' exists already"
            elif isinstance(error, FileNotFoundError):
                message = f"checkpoint file '{where}' does not exist"
            else:
                message = f"could not {action} checkpoint file '{where}'"
            raise CheckpointError(message, detail=str(error), hint=_hint(error)) from error


def is_absolute(name: str) -> bool:
    """Whether a name is a full path or URI instead of a name relative to the storage's base."""
    return name.startswith("/") or "://" in name


def _reopen(base: str, sync: bool) -> CheckpointStorage:
    return CheckpointStorage(base, sync=sync)


def _normalize(base: str) -> str:
    if base.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        return str(Path(unquote(urlsplit(base).path)).absolute())
    return base if "://" in base else str(Path(base).absolute())


def _checked(name: str) -> str:
    if is_absolute(name) or ".." in name.split("/"):
        raise ArgumentError(
            f"'{name}' is not a name below the checkpoint directory",
            hint="names are relative and have no '..' in them",
        )
    return name


def _hint(error: OSError) -> str:
    if isinstance(error, FileExistsError):
        return "names of checkpoint files are used once: check that no other job has this job id"
    if isinstance(error, FileNotFoundError):
        return "the checkpoint was moved or deleted, or the path is misspelt"
    if isinstance(error, PermissionError):
        return "let the user that runs the job read and write the checkpoint directory"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free space on the checkpoint storage or set another execution.checkpointing.dir"
    return "check that the driver and every executor reach the checkpoint storage"
