"""Writing in one step where a rename is not one, or does not tell that it did nothing."""

from __future__ import annotations

import errno
import uuid
from pathlib import PurePosixPath
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import FileError
from penstock.files import retries
from penstock.files.file_system import resolve


class Quiet(MemoryFileSystem):
    """Does not rename over a file, and returns as if it had: so does HDFS over HTTP. It takes no options of fsspec."""

    protocol = "quiet"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]
    stuck = False  # whether it moves nothing at all
    broken: Exception | None = None

    def __init__(self) -> None:
        super().__init__()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path.replace("quiet://", "memory://"))

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        if Quiet.broken is not None:
            raise Quiet.broken
        if not Quiet.stuck and not self.exists(path2):
            super().mv(path1, path2)


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0))
    fsspec.register_implementation("quiet", Quiet, clobber=True)
    return f"quiet://penstock/{uuid.uuid4().hex}"


def names(base: str) -> list[str]:
    files, path = resolve(base)
    return sorted(PurePosixPath(each.path).name for each in files.walk(path))


def test_a_file_is_replaced_although_a_rename_over_it_does_nothing(base: str) -> None:
    storage = CheckpointFileSystem(base)
    for number in range(3):
        storage.write_atomic("_latest", b"%d" % number)
        assert storage.read("_latest") == b"%d" % number
    assert names(base) == ["_latest"]


def test_a_manifest_that_is_there_is_kept_and_nothing_is_left_over(base: str) -> None:
    storage = CheckpointFileSystem(base)
    files, path = resolve(f"{base}/chk-1/_metadata")
    rival = CheckpointFileSystem(base)
    assert storage.create("chk-1/_metadata", b"mine") is True
    assert rival.create("chk-1/_metadata", b"another's") is False
    assert files.read(path) == b"mine"
    assert names(base) == ["_metadata"]


def test_a_rename_that_did_nothing_is_an_error(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files, path = resolve(base)
    one, two = f"{path}/one", f"{path}/two"
    files.write_atomic(one, b"1")
    files.write_atomic(two, b"2")
    with pytest.raises(FileError, match="/two' exists already"):
        files.rename(one, two)
    assert (files.read(one), files.read(two)) == (b"1", b"2")
    monkeypatch.setattr(Quiet, "stuck", True)
    with pytest.raises(FileError) as raised:
        files.rename(one, f"{two}-new")
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.EIO


def test_what_a_server_refuses_is_an_error_that_names_the_file(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quiet, "broken", RuntimeError("the NameNode is in safe mode"))
    files, path = resolve(base)
    with pytest.raises(FileError, match="/one'") as raised:
        files.write_atomic(f"{path}/one", b"1")
    assert "safe mode" in str(raised.value)
    assert names(base) == []
