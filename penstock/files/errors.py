"""What is said when something could not be done to a file."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.errors import FileError, MissingFileError, PenstockError

Action: TypeAlias = Literal["write", "read", "look for", "list", "delete"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Words:
    """How files of one use are spoken of, and the errors that are raised about them."""

    file: str
    storage: str
    directory: str
    elsewhere: str  # what to do if the place cannot be used
    exists: str
    missing: str
    error: type[PenstockError]
    missing_error: type[PenstockError]


FILES = Words(
    file="file",
    storage="the file system",
    directory="the directory",
    elsewhere="choose another path",
    exists="delete it or choose another path",
    missing="it was moved or deleted, or the path is misspelt",
    error=FileError,
    missing_error=MissingFileError,
)


def failure(error: OSError, action: str, where: str, words: Words = FILES) -> PenstockError:
    """Describe why something could not be done to a file."""
    if isinstance(error, FileNotFoundError) and not _is_above(error, where):
        message = f"{words.file} '{where}' does not exist"
        return words.missing_error(message, detail=str(error), hint=words.missing)
    message = f"could not {action} {words.file} '{where}'"
    if action == "list":
        message = f"could not list the {words.file}s of '{where}'"
    if isinstance(error, FileExistsError) and not _is_above(error, where):
        message = f"{words.file} '{where}' exists already"
    elif error.errno in _FULL:
        message = f"{words.storage} is full: {message}"
    return words.error(message, detail=str(error), hint=_hint(error, where, words))


def not_writable(error: OSError, directory: str, words: Words = FILES) -> PenstockError:
    """Describe why nothing can be written below a directory."""
    message = f"cannot write to {words.directory} '{directory}'"
    if error.errno in _FULL:
        message = f"{words.storage} is full: {message}"
    # Files below it have its path in front.
    return words.error(message, detail=str(error), hint=_hint(error, f"{directory}/", words))


def _is_above(error: OSError, where: str) -> bool:
    """Whether the trouble is not with the file itself, but with a directory of its path that cannot be made."""
    return isinstance(error.filename, str) and where.startswith(f"{error.filename.rstrip('/')}/")


def _hint(error: OSError, where: str, words: Words) -> str:
    if isinstance(error, FileNotFoundError):
        return f"'{error.filename}' cannot be made there: {words.elsewhere}"
    if isinstance(error, FileExistsError) and not _is_above(error, where):
        return words.exists
    if isinstance(error, PermissionError) and "://" in where:
        return f"check the credentials, and that they allow to list, read, write and delete below {words.directory}"
    if isinstance(error, PermissionError):
        return f"let the user that runs the job read and write {words.directory}"
    if isinstance(error, NotADirectoryError | FileExistsError):
        return f"a part of the path is a file: delete that or {words.elsewhere}"
    if error.errno == errno.EROFS:
        return f"the file system is mounted read-only: mount it for writing or {words.elsewhere}"
    if error.errno in _FULL:
        return f"free space on {words.storage} or {words.elsewhere}"
    return f"check that the driver and every executor reach {words.storage}"
