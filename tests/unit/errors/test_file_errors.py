"""What is said about a file that could not be written: the file is at fault, or a directory of its path."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.errors import FileError, MissingFileError
from penstock.errors.file_errors import failure


def os_error(number, path):
    return OSError(number, os.strerror(number), path)


@pytest.mark.parametrize(
    ("error", "kind", "message", "hint"),
    [
        pytest.param(
            os_error(errno.EEXIST, "/a/b/c"), FileError, "exists already", "delete it", id="it exists"
        ),
        pytest.param(
            os_error(errno.EEXIST, "/a/b"), FileError, "'/a/b' is a file, not a directory", "delete the file", id="a file above"
        ),
        pytest.param(
            os_error(errno.ENOENT, "/a/b/c"), MissingFileError, "not exist", "moved", id="it is missing"
        ),
        pytest.param(
            os_error(errno.ENOENT, "/a/b"),
            FileError,
            "could not write",
            "'/a/b' cannot be created",
            id="no directory can be made",
        ),
        pytest.param(
            os_error(errno.ENOTDIR, "/a/b/c"), FileError, "'/a/b/c' is a file, not a directory", "delete the file", id="it is a file"
        ),
        pytest.param(
            os_error(errno.EACCES, "/a"), FileError, "'/a/b/c': permission denied", "let the user", id="not allowed"
        ),
        pytest.param(
            os_error(errno.EROFS, "/a"), FileError, "'/a/b/c': the file system is read-only", "mount it", id="read-only"
        ),
        pytest.param(
            os_error(errno.ENOSPC, "/a"), FileError, "the file system is full: could not write", "free space", id="full"
        ),
    ],
)  # fmt: skip
def test_the_part_of_the_path_that_is_at_fault_is_named(error, kind, message, hint):
    reported = failure(error, "write", "/a/b/c")
    assert type(reported) is kind
    assert message in reported.message
    assert hint in (reported.hint or "")
