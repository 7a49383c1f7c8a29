"""Checkpoint storages in the API of older Flink versions."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from penstock.errors import ArgumentError, UnsupportedOperationError
from penstock.errors.argument_checks import check_int, check_text

_DEFAULT_FILE_THRESHOLD = 20 * 1024
_DEFAULT_WRITE_BUFFER = 4096


class CheckpointStorage:
    """Base of checkpoint storages. `options()` is the equivalent configuration."""

    def options(self) -> dict[str, str]:
        """Return the options of this storage."""
        raise UnsupportedOperationError(
            f"unsupported checkpoint storage {type(self).__name__}",
            hint="use FileSystemCheckpointStorage",
        )


class FileSystemCheckpointStorage(CheckpointStorage):
    """Writes checkpoints to a directory of any file system that can be opened by URI.

    >>> FileSystemCheckpointStorage("file:///tmp/checkpoints/").get_checkpoint_path()
    'file:/tmp/checkpoints'
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
        j_filesystem_checkpoint_storage: Any = None,
    ) -> None:
        _refuse_java(j_filesystem_checkpoint_storage, "FileSystemCheckpointStorage")
        if checkpoint_path is None:
            raise ArgumentError(
                "checkpoint_path is required",
                hint="pass a directory, such as file:///var/checkpoints",
            )
        self._path = _check_directory(checkpoint_path)
        self._threshold = (
            -1 if file_state_size_threshold is None else _check_threshold(file_state_size_threshold)
        )
        self._write_buffer = check_int(write_buffer_size, "write_buffer_size", minimum=-1)

    def get_checkpoint_path(self) -> str:
        """Return the directory."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Return None: the savepoint directory is a separate setting."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return the maximum size of state that is stored inline in the manifest."""
        return _DEFAULT_FILE_THRESHOLD if self._threshold < 0 else self._threshold

    def get_write_buffer_size(self) -> int:
        """Return the size of write buffers, which has no effect: file systems have their own buffers."""
        return _DEFAULT_WRITE_BUFFER if self._write_buffer < 0 else self._write_buffer

    def options(self) -> dict[str, str]:
        """Return the options of this storage."""
        chosen = {
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": self._path,
        }
        if self._threshold >= 0:
            chosen["execution.checkpointing.data-inline-threshold"] = f"{self._threshold} b"
        return chosen


class JobManagerCheckpointStorage(CheckpointStorage):
    """Flink's storage in the JobManager's memory. Penstock writes files instead, and execute() logs a warning."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        max_state_size: int | None = None,
        j_jobmanager_checkpoint_storage: Any = None,
    ) -> None:
        _refuse_java(j_jobmanager_checkpoint_storage, "JobManagerCheckpointStorage")
        self._path = None if checkpoint_path is None else _check_directory(checkpoint_path)
        self._max_state_size = (
            self.DEFAULT_MAX_STATE_SIZE
            if max_state_size is None
            else check_int(max_state_size, "max_state_size", minimum=0)
        )

    def get_checkpoint_path(self) -> str | None:
        """Return the directory, if given."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Return None: the savepoint directory is a separate setting."""
        return None

    def get_max_state_size(self) -> int:
        """Return Flink's maximum state size, which has no effect: files have no such limit."""
        return self._max_state_size

    def options(self) -> dict[str, str]:
        """Return the options of this storage."""
        chosen = {"execution.checkpointing.storage": "jobmanager"}
        if self._path is not None:
            chosen["execution.checkpointing.dir"] = self._path
        return chosen


class CustomCheckpointStorage(CheckpointStorage):
    """A Java checkpoint storage, which is not supported."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        _refuse_java(
            j_custom_checkpoint_storage or "a custom checkpoint storage", "CustomCheckpointStorage"
        )


def _check_directory(path: Any) -> str:
    """Return the checkpoint directory in Flink's form; the root of a file system is rejected."""
    directory = as_flink_path(check_text(path, "checkpoint_path"))
    if directory.rpartition(":")[2].strip("/"):
        return directory
    raise ArgumentError(
        f"invalid checkpoint directory '{path}'",
        detail="it is the root of a file system",
        hint="use a directory below it",
    )


def as_flink_path(text: str) -> str:
    """Return a path in Flink's form: one slash between names, none at the end.

    >>> as_flink_path("file:///tmp//a/"), as_flink_path("s3://bucket/a/")
    ('file:/tmp/a', 's3://bucket/a')
    """
    if text.startswith("file:") and not urlsplit(text).netloc:
        scheme, rest = "file:", text.removeprefix("file:")
    elif "://" in text:
        scheme, _, rest = text.partition("://")
        scheme += "://"
    else:
        scheme, rest = "", text
    names = [name for name in rest.split("/") if name]
    absolute = scheme == "file:" or (not scheme and text.startswith("/"))
    return f"{scheme}{'/' if absolute else ''}{'/'.join(names)}"


def _check_threshold(threshold: int) -> int:
    check_int(threshold, "file_state_size_threshold", minimum=-1)
    most = FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD
    if threshold > most:
        raise ArgumentError(f"file_state_size_threshold must be at most {most}, got {threshold}")
    return threshold


def _refuse_java(given: object, name: str) -> None:
    if given is not None:
        raise UnsupportedOperationError(
            f"{name} does not accept JVM objects", hint="use FileSystemCheckpointStorage(path)"
        )
