"""What is said about a file that could not be written: the file is at fault, or a directory of its path."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.errors import FileError, MissingFileError
from penstock.files.errors import failure


def os_error(number, path):
    return OSError(number, os.strerror(number), path)


@pytest.mark.parametrize(
    ("error", "kind", "message", "hint"),
    [
        pytest.param(
            os_error(errno.EEXIST, "/a/b/c"), FileError, "exists already", "delete it", id="it exists"
        ),
        pytest.param(
            os_error(errno.EEXIST, "/a/b"), FileError, "could not write", "is a file", id="a file above"
        ),
        pytest.param(
            os_error(errno.ENOENT, "/a/b/c"), MissingFileError, "not exist", "moved", id="it is missing"
        ),
        pytest.param(
            os_error(errno.ENOENT, "/a/b"),
            FileError,
            "could not write",
            "'/a/b' cannot be made there",
            id="no directory can be made",
        ),
    ],
)  # fmt: skip
def test_the_part_of_the_path_that_is_at_fault_is_named(error, kind, message, hint):
    told = failure(error, "write", "/a/b/c")
    assert type(told) is kind
    assert message in told.message
    assert hint in (told.hint or "")
