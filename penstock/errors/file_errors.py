"""What is said when something could not be done to a file."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.errors import FileError, MissingFileError, PenstockError

Action: TypeAlias = Literal["write", "read", "look for", "list", "delete"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class ErrorWording:
    """How files of one use are spoken of, and the errors that are raised about them."""

    file: str
    storage: str
    directory: str
    elsewhere: str  # what to do if the place cannot be used
    exists: str
    missing: str
    error: type[PenstockError]
    missing_error: type[PenstockError]


FILES = ErrorWording(
    file="file",
    storage="the file system",
    directory="the directory",
    elsewhere="choose another path",
    exists="delete it or choose another path",
    missing="it was moved or deleted, or the path is misspelt",
    error=FileError,
    missing_error=MissingFileError,
)


def failure(error: OSError, action: str, where: str, words: ErrorWording = FILES) -> PenstockError:
    """Describe why something could not be done to a file."""
    if isinstance(error, FileNotFoundError) and not _is_above(error, where):
        message = f"{words.file} '{where}' does not exist"
        return words.missing_error(message, detail=str(error), hint=words.missing)
    message = f"could not {action} {words.file} '{where}'"
    if action == "list":
        message = f"could not list the {words.file}s of '{where}'"
    if isinstance(error, FileExistsError) and not _is_above(error, where):
        message = f"{words.file} '{where}' exists already"
    else:
        message = _with_reason(message, error, where, words)
    return words.error(message, detail=str(error), hint=_hint(error, where, words))


def directory_failure(
    error: OSError, directory: str, words: ErrorWording = FILES, action: str = "create"
) -> PenstockError:
    """Describe why a directory could not be made or used."""
    # The trouble is with the directory itself or with one above it.
    where = f"{directory.rstrip('/')}/"
    message = f"could not {action} {words.directory} '{directory}'"
    message = _with_reason(message, error, where, words)
    return words.error(message, detail=str(error), hint=_hint(error, where, words))


def is_lasting(error: OSError) -> bool:
    """Whether a place cannot be used as it is: permissions, a file in the place of a directory, a mount for reading."""
    kinds = (PermissionError, NotADirectoryError, FileExistsError)
    return isinstance(error, kinds) or error.errno == errno.EROFS


def _with_reason(message: str, error: OSError, where: str, words: ErrorWording) -> str:
    """Return a message with the reason, where it is a common one; the detail has it in the words of the operating system."""
    if error.errno in _FULL:
        return f"{words.storage} is full: {message}"
    if error.errno == errno.EROFS:
        return f"{message}: the file system is read-only"
    if isinstance(error, PermissionError):
        return f"{message}: permission denied"
    if isinstance(error, NotADirectoryError) and error.filename != where:
        return f"{message}: a part of the path is a file, not a directory"
    if isinstance(error, NotADirectoryError) or (
        isinstance(error, FileExistsError) and _is_above(error, where)
    ):
        return f"{message}: '{error.filename}' is a file, not a directory"
    return message


def _is_above(error: OSError, where: str) -> bool:
    """Whether the trouble is not with the file itself, but with a directory of its path that cannot be made."""
    return isinstance(error.filename, str) and where.startswith(f"{error.filename.rstrip('/')}/")


def _hint(error: OSError, where: str, words: ErrorWording) -> str:
    if isinstance(error, FileNotFoundError):
        return f"'{error.filename}' cannot be created: {words.elsewhere}"
    if isinstance(error, FileExistsError) and not _is_above(error, where):
        return words.exists
    if isinstance(error, PermissionError) and "://" in where:
        return f"check the credentials, and that they allow to list, read, write and delete below {words.directory}"
    if isinstance(error, PermissionError):
        return f"let the user that runs the job read and write {words.directory}"
    if isinstance(error, NotADirectoryError | FileExistsError):
        return f"delete the file or {words.elsewhere}"
    if error.errno == errno.EROFS:
        return f"the file system is mounted read-only: mount it for writing or {words.elsewhere}"
    if error.errno == errno.EINVAL and "://" in where:
        return f"check the URI, or {words.elsewhere}"
    if error.errno in _FULL:
        return f"free space on {words.storage} or {words.elsewhere}"
    return f"check that the driver and every executor reach {words.storage}"
