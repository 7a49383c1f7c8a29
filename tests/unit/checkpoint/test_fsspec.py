"""Checkpoints and savepoints on a file system that only fsspec has."""

from __future__ import annotations

import uuid
from typing import Any

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.files.file_system import resolve
from penstock.files.uris import open_file_system


@pytest.fixture
def base() -> str:
    return f"memory://penstock/{uuid.uuid4().hex}"


def test_files_are_written_listed_read_and_deleted(base: str) -> None:
    storage = CheckpointFileSystem(base)
    assert storage.list() == []
    storage.write_atomic("chk-1/_metadata", b"first")
    storage.write_atomic("chk-1/_metadata", b"second")
    storage.write_new("shared/1.state", b"state")
    assert storage.create("chk-1/_metadata", b"third") is False
    assert storage.list() == ["chk-1/_metadata", "shared/1.state"]
    assert storage.read("chk-1/_metadata") == b"second"
    storage.delete_tree("chk-1")
    assert storage.list() == ["shared/1.state"]


def test_connectors_use_the_same_file_systems(base: str) -> None:
    files, path = resolve(f"{base}/file")
    out = files.open_output(path)
    out.write(b"text")
    files.finish(out)
    assert open_file_system(f"{base}/file")[0].open_input_stream(path).read() == b"text"


def test_unknown_scheme_is_rejected() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        open_file_system("nowhere://host/path")


class Objects(MemoryFileSystem):
    """An object store in memory whose clients keep what they have listed, as those of S3, GCS and Azure do."""

    protocol = ("objects", "s3")
    store: dict[str, Any] = {}
    pseudo_dirs = [""]
    find = AbstractFileSystem.find  # asks `ls`
    rival: tuple[str, bytes] | None = None  # what another process writes just before this one

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path.replace("objects://", "memory://"))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        try:
            found = self.dircache[path]
        except KeyError:
            found = self.dircache[path] = super().ls(path, detail=True)
        return found if detail else [each["name"] for each in found]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if Objects.rival is not None:
            MemoryFileSystem.pipe_file(self, *Objects.rival)
        super().pipe_file(path, value, mode=mode, **kwargs)


@pytest.fixture
def objects() -> str:
    fsspec.register_implementation("objects", Objects, clobber=True)
    return f"objects://bucket/{uuid.uuid4().hex}"


def test_writes_of_other_processes_are_seen_after_a_listing(
    objects: str,
) -> None:
    storage = CheckpointFileSystem(objects)
    storage.write_new("lease/1", b"mine")
    assert storage.list("lease/") == ["lease/1"]
    other = Objects(skip_instance_cache=True)
    other.pipe_file(f"{objects}/lease/2", b"another's")
    assert storage.list("lease/") == ["lease/1", "lease/2"]


def test_of_two_that_create_a_manifest_at_the_same_moment_one_does(
    objects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = CheckpointFileSystem(objects)
    monkeypatch.setattr(Objects, "rival", (f"{objects}/chk-1/_metadata", b"another's"))
    assert storage.create("chk-1/_metadata", b"mine") is False
    monkeypatch.setattr(Objects, "rival", None)
    assert storage.read("chk-1/_metadata") == b"another's"
    assert storage.create("chk-2/_metadata", b"mine") is True


def test_fsspec_can_be_asked_for_by_name(objects: str) -> None:
    CheckpointFileSystem(objects).write_new("a", b"x")
    assert CheckpointFileSystem(f"fsspec+{objects}").read("a") == b"x"


def test_a_scheme_whose_package_is_not_installed_is_an_error_that_names_it() -> None:
    fsspec.register_implementation("missing", "no_such_package.Files", clobber=True)
    with pytest.raises(CheckpointError, match="could not read checkpoint file") as raised:
        CheckpointFileSystem("missing://bucket/job").read("chk-1/_metadata")
    assert "no_such_package" in (raised.value.detail or "")
