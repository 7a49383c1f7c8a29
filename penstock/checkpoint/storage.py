"""Checkpoint storage: a local or remote base directory and the files in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.errors import ArgumentError, CheckpointError
from penstock.errors.file_errors import Action, ErrorWording, directory_failure
from penstock.files.file_system import Driver, FileSystem, open_driver
from penstock.files.paths import is_absolute, is_local, join_path, normalize

WORDS = ErrorWording(
    file="checkpoint file",
    storage="checkpoint storage",
    directory="the checkpoint directory",
    elsewhere="set another execution.checkpointing.dir",
    exists="names of checkpoint files are used once: check that no other job has this job id",
    missing="the checkpoint was moved or deleted, or the path is misspelt",
    error=CheckpointError,
    missing_error=CheckpointError,
)
SAVEPOINT_WORDS = replace(
    WORDS,
    file="savepoint file",
    storage="the storage of the savepoint",
    directory="the directory of the savepoint",
    elsewhere="choose another directory for the savepoint",
    exists="choose another directory for the savepoint",
    missing="the savepoint was moved or deleted, or the path is misspelt",
)
HIGH_AVAILABILITY_WORDS = replace(
    WORDS,
    file="file",
    storage="the storage of high availability",
    directory="high-availability.storageDir",
    elsewhere="set another high-availability.storageDir",
    exists="check that no other cluster has this high-availability.cluster-id",
    missing="it was moved or deleted, or high-availability.storageDir is misspelt",
)


class CheckpointFileSystem(FileSystem):
    """The files below a base directory, by name relative to it; every failure is a CheckpointError with the path.

    `base` is a local path or a URI for pyarrow or fsspec (`s3://bucket/checkpoints`). A relative local path is made
    absolute, so the
    object refers to the same place after it was pickled to a task. Files may also be read by absolute path or URI.
    `words` is the
    wording of its errors.
    """

    def __init__(self, base: str, *, sync: bool = True, words: ErrorWording = WORDS) -> None:
        if not base:
            raise ArgumentError(
                "the checkpoint storage directory is empty",
                hint="set execution.checkpointing.dir to a directory or a URI",
            )
        self.base = normalize(base)
        self.sync = sync
        self.words = words
        self._opened: tuple[Driver, str] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.base, self.sync, self.words)

    def __repr__(self) -> str:
        return f"CheckpointStorage({self.base!r})"

    def child(self, name: str) -> CheckpointFileSystem:
        """Return the storage of a directory below this one."""
        return CheckpointFileSystem(self.path(name), sync=self.sync, words=self.words)

    def path(self, name: str) -> str:
        """Return the full path or URI of a name."""
        if is_absolute(name) or ".." in name.split("/"):
            raise ArgumentError(
                f"invalid file name '{name}' below the checkpoint directory",
                hint="names must be relative and must not contain '..'",
            )
        return join_path(self.base, name) if name else self.base

    def probe(self) -> None:
        """Check write access by writing and deleting a file; raises CheckpointError if that fails."""
        name = f".probe-{uuid.uuid4().hex}"
        try:
            self.write_atomic(name, b"")
            self.delete(name)
        except CheckpointError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise directory_failure(
                error.__cause__, self.base, self.words, "write to"
            ) from error.__cause__

    @property
    def local_directory(self) -> Path | None:
        """The base directory if it is on a local (or mounted) file system."""
        return Path(self.base) if is_local(self.base) else None

    @property
    def remote(self) -> bool:
        """Whether calls go over a network."""
        return not is_local(self.base)

    def list(self, prefix: str = "") -> list[str]:
        """Return the names of all files that begin with `prefix`, sorted. Hidden files are left out."""
        directory, slash, start = prefix.rpartition("/")
        found = self._call("list", directory, lambda files, at: [*_visible(files, at, start)])
        return sorted(f"{directory}{slash}{name}" for name in found)

    def list_directories(self, start: str = "") -> Sequence[str]:
        """Return the names of the directories in the base directory that begin with `start`, including empty ones, sorted."""
        found = self._call("list", "", lambda files, at: files.scan(at))
        return sorted(name for name, is_dir in found if is_dir and name.startswith(start))

    def list_unfinished(self, name: str) -> Sequence[str]:
        """Return the hidden temporary files of the file `name` in the base directory, sorted."""
        found = self._call("list", "", lambda files, at: files.scan(at))
        return sorted(
            each
            for each, is_dir in found
            if not is_dir and each.startswith(f".{name}.") and each.endswith(".tmp")
        )

    def _locate(self, action: Action, path: str) -> tuple[Driver, str]:
        if action == "read" and is_absolute(path):
            return open_driver(path)
        if self._opened is None:
            driver, root = open_driver(self.base, sync=self.sync)
            # In one assignment: several threads use a storage.
            self._opened = driver, root.rstrip("/")
        driver, root = self._opened
        self.path(path)  # raises if it is not below the base
        return driver, f"{root}/{path}" if path else root

    def _where(self, path: str) -> str:
        return path if is_absolute(path) else self.path(path)


def _visible(files: Driver, directory: str, start: str) -> Iterator[str]:
    """Iterate over the files below a directory whose path begins with `start`."""
    for name, is_directory in files.scan(directory):
        if name.startswith(".") or not name.startswith(start):
            continue
        if is_directory:
            yield from (f"{name}/{each}" for each in _visible(files, f"{directory}/{name}", ""))
        else:
            yield name


def _reopen(base: str, sync: bool, words: ErrorWording) -> CheckpointFileSystem:
    return CheckpointFileSystem(base, sync=sync, words=words)
