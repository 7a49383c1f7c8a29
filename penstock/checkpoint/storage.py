"""Where checkpoints are kept: a directory, local or remote, and the files in it.

Used on the driver and inside tasks, so importing it loads no large library: pyarrow comes with the first
remote URI.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeAlias, TypeVar

from penstock.checkpoint.local_files import LocalFiles
from penstock.checkpoint.retries import retried
from penstock.errors import ArgumentError, CheckpointError
from penstock.files.file_systems import join_path, split_path

Buffer: TypeAlias = Any  # bytes, or a file that is mapped into memory
Action: TypeAlias = Literal["write", "read", "look for", "list", "delete"]
_S = TypeVar("_S")
_T = TypeVar("_T")
_CALLS_AT_ONCE = 16

FAULTS_VARIABLE = "PENSTOCK_STORAGE_FAULTS"


class FaultHook(Protocol):
    """Stands between storage and the file system, to make calls fail in tests."""

    def __call__(self, action: Action, path: str, call: Callable[[], _T]) -> _T:
        """Return what `call` returns, or raise OSError before or after it."""


class Files(Protocol):
    """What a file system must do; paths are absolute, failures are OSError."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Write a file so that readers see the old bytes or the new ones."""

    def create(self, path: str, data: bytes) -> bool:
        """Write a file, all at once, unless there is one of its name; return whether it was written."""

    def write_new(self, path: str, data: Buffer) -> None:
        """Write a file that must not exist yet."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""

    def read_into(self, path: str, target: BinaryIO) -> None:
        """Append the bytes of a file to an open one, piece by piece."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""

    def list(self, directory: str, start: str) -> list[str]:
        """Return the files below `directory`, relative to it, whose path begins with `start`."""

    def list_directories(self, directory: str, start: str) -> Sequence[str]:
        """Return the names of the directories in `directory` that begin with `start`."""

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""

    def delete_tree(self, path: str) -> None:
        """Delete a directory with all it holds, if it is there."""

    def delete_empty(self, path: str) -> None:
        """Delete a directory if there is nothing in it and the file system can make sure of that."""


class CheckpointStorage:
    """Files under one base directory, by name relative to it.

    `base` is a local path or a URI that pyarrow opens (`s3://bucket/checkpoints`). A relative local path is made absolute,
    so the object means the same place after it was pickled to a task. A call that fails is tried again twice, after short
    pauses, unless the failure is one that stays (no space, no permission, no such file). Every failure is a CheckpointError
    with the path.
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
        return join_path(self.base, _checked(name))

    @property
    def local_directory(self) -> Path | None:
        """The base directory if it is on a local (or mounted) file system."""
        return None if "://" in self.base else Path(self.base)

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write a file, over an older one if there is one; a reader never sees a part of it."""
        self._call("write", name, lambda files, path: files.write_atomic(path, data))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file, all at once, unless there is one of this name; return whether it was written.

        Of two writers on a local file system exactly one gets True. The answer may be False although the file is this
        call's own, if a first try wrote it and failed afterwards: compare the bytes.
        """
        return self._call("write", name, lambda files, path: files.create(path, data))

    def write_new(self, name: str, data: Buffer) -> None:
        """Write a file that must not exist yet."""
        tries = 0

        def write(files: Files, path: str) -> None:
            nonlocal tries
            tries += 1
            try:
                files.write_new(path, data)
            except FileExistsError:
                if tries == 1 or not _is_part(files.read(path), data):
                    raise
                files.delete(path)  # what the try before this one left
                files.write_new(path, data)

        self._call("write", name, write)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; `name` may also be an absolute path or a URI."""
        if is_absolute(name):
            storage, last = self._storage_of(name)
            return storage.read(last)
        return self._call("read", name, lambda files, path: files.read(path))

    def read_into(self, name: str, target: BinaryIO) -> None:
        """Put the bytes of a file, however large, into an open one; `name` as in `read`."""
        if is_absolute(name):
            storage, last = self._storage_of(name)
            storage.read_into(last, target)
            return

        def copy(files: Files, path: str) -> None:
            target.seek(0)
            target.truncate()
            files.read_into(path, target)

        self._call("read", name, copy)

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or a directory of this name."""
        return self._call("look for", name, lambda files, path: files.exists(path))

    def list(self, prefix: str = "") -> list[str]:
        """Return the names of all files that begin with `prefix`, sorted. Hidden files are left out."""
        directory, slash, start = _checked(prefix).rpartition("/")
        found = self._call("list", directory, lambda files, path: files.list(path, start))
        return sorted(f"{directory}{slash}{name}" for name in found)

    def list_directories(self, start: str = "") -> Sequence[str]:
        """Return the names of the directories in the base directory that begin with `start`, empty ones too, sorted."""
        return sorted(
            self._call("list", "", lambda files, path: files.list_directories(path, start))
        )

    def delete(self, name: str) -> None:
        """Delete a file; it is no failure if it does not exist."""
        self._call("delete", name, lambda files, path: files.delete(path))

    def delete_tree(self, name: str = "") -> None:
        """Delete a directory with all it holds; it is no failure if it does not exist."""
        self._call("delete", name, lambda files, path: files.delete_tree(path))

    def delete_empty(self, name: str) -> None:
        """Delete a directory if there is nothing in it; where that cannot be done in one step, it stays."""
        self._call("delete", name, lambda files, path: files.delete_empty(path))

    def each(self, call: Callable[[_S], _T], items: Sequence[_S]) -> tuple[_T, ...]:
        """Call a function that uses this storage with each item: many at once where each call waits for an answer."""
        if self.local_directory is not None or len(items) < 2:
            return tuple(map(call, items))
        with ThreadPoolExecutor(min(_CALLS_AT_ONCE, len(items))) as pool:
            return tuple(pool.map(call, items))

    def _call(self, action: Action, name: str, call: Callable[[Files, str], _T]) -> _T:
        """Do something to the file or directory of a name, again if it fails for a moment."""
        where = self.path(name) if name else self.base
        try:
            files, root = self._open()
            path = f"{root}/{name}" if name else root

            def attempt() -> _T:
                if _fault_hook is None:
                    return call(files, path)
                return _fault_hook(action, path, lambda: call(files, path))

            return retried(attempt, f"{action} checkpoint file '{where}'")
        except OSError as error:
            raise as_checkpoint_error(error, action, where) from error

    def _storage_of(self, path: str) -> tuple[CheckpointStorage, str]:
        """Return the storage of an absolute path's directory, and the name of the file in it."""
        directory, last = split_path(path)
        return CheckpointStorage(directory, sync=self.sync), last

    def _open(self) -> tuple[Files, str]:
        if self._files is None:
            files: Files
            if "://" in self.base:
                from penstock.checkpoint.arrow_files import open_uri

                files, root = open_uri(self.base)
            else:
                files, root = LocalFiles(sync=self.sync), self.base
            # The root first: several threads use a storage, and one that sees the files takes the root as it is.
            self._root = root.rstrip("/")
            self._files = files
        return self._files, self._root


def as_checkpoint_error(error: OSError, action: str, where: str) -> CheckpointError:
    """Describe why something could not be done to a checkpoint file."""
    message = f"could not {action} checkpoint file '{where}'"
    if isinstance(error, FileExistsError):
        message = f"checkpoint file '{where}' exists already"
    elif isinstance(error, FileNotFoundError):
        message = f"checkpoint file '{where}' does not exist"
    elif error.errno in _FULL:
        message = f"checkpoint storage is full: {message}"
    return CheckpointError(message, detail=str(error), hint=_hint(error, where))


def set_fault_hook(hook: FaultHook | None) -> FaultHook | None:
    """Let every call of this process's storage go through `hook`; return the one before. For tests."""
    global _fault_hook  # one for all storage objects, also those that were opened before
    before, _fault_hook = _fault_hook, hook
    return before


def is_absolute(name: str) -> bool:
    """Whether a name is a full path or URI instead of a name relative to the storage's base."""
    return name.startswith("/") or "://" in name


def _is_part(found: bytes, data: Buffer) -> bool:
    """Whether a file holds the first part of `data`, or all of it."""
    return len(found) <= len(data) and bool(data[: len(found)] == found)


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


def _hint(error: OSError, where: str) -> str:
    if isinstance(error, FileExistsError):
        return "names of checkpoint files are used once: check that no other job has this job id"
    if isinstance(error, FileNotFoundError):
        return "the checkpoint was moved or deleted, or the path is misspelt"
    if isinstance(error, PermissionError) and "://" in where:
        return "check the credentials, and that they allow to list, read, write and delete below the checkpoint directory"
    if isinstance(error, PermissionError):
        return "let the user that runs the job read and write the checkpoint directory"
    if error.errno == errno.EROFS:
        return "the file system is mounted read-only: mount it for writing or set another execution.checkpointing.dir"
    if error.errno in _FULL:
        return "free space on the checkpoint storage or set another execution.checkpointing.dir"
    return "check that the driver and every executor reach the checkpoint storage"


def _hook_from_environment(action: Action, path: str, call: Callable[[], _T]) -> _T:
    # By name: nothing of the engine imports what is made for tests, unless a test asks for it.
    faults = importlib.import_module("penstock.testing.storage_faults")
    hook: FaultHook = faults.from_environment()
    set_fault_hook(hook)
    return hook(action, path, call)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_fault_hook: FaultHook | None = _hook_from_environment if os.environ.get(FAULTS_VARIABLE) else None
