from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError
from penstock.files import local


@pytest.fixture(params=["local", "arrow"])
def storage(request, tmp_path):
    """The same behaviour on a local directory and on a file system of pyarrow (in memory, for tests)."""
    return CheckpointFileSystem(
        str(tmp_path / "base") if request.param == "local" else "mock:///base"
    )


def test_written_files_are_read_back(storage):
    storage.write_atomic("a/b", b"one")
    storage.write_new("a/c", b"")
    assert (storage.read("a/b"), storage.read("a/c")) == (b"one", b"")


def test_a_thread_that_comes_while_another_opens_the_storage_finds_its_files(tmp_path, monkeypatch):
    class Root(str):
        """The path of a directory. While it is made the storage's root, another thread reads a file."""

        def rstrip(self, characters):
            if not others:
                others.append(None)
                others[0] = storage.read("a")
            return super().rstrip(characters)

    (tmp_path / "a").write_bytes(b"one")
    monkeypatch.setattr(
        "penstock.files.arrow.open_uri",
        lambda _: (local.LocalFiles(sync=False), Root(tmp_path)),
    )
    others = []
    storage = CheckpointFileSystem("mock:///base")
    assert [storage.read("a"), *others] == [b"one", b"one"]


def test_an_atomic_write_replaces_an_older_file_and_leaves_nothing_else(storage):
    storage.write_atomic("a", b"old")
    storage.write_atomic("a", b"new")
    assert storage.read("a") == b"new"
    assert storage.list() == ["a"]


def test_a_new_file_must_not_exist(storage):
    storage.write_new("a", b"one")
    with pytest.raises(CheckpointError, match="exists already"):
        storage.write_new("a", b"two")
    assert storage.read("a") == b"one"


def test_a_missing_file_is_named_with_a_hint(storage):
    with pytest.raises(CheckpointError) as raised:
        storage.read("chk-1/_metadata")
    assert "base/chk-1/_metadata' does not exist" in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        pytest.param("", ["chk-1/_metadata", "chk-12/_metadata", "shared/1-a"], id="all"),
        pytest.param("chk-1", ["chk-1/_metadata", "chk-12/_metadata"], id="part of a name"),
        pytest.param("chk-1/", ["chk-1/_metadata"], id="directory"),
        pytest.param("shared/1", ["shared/1-a"], id="directory and part of a name"),
        pytest.param("nothing/here", [], id="missing directory"),
    ],
)
def test_a_list_holds_all_names_with_the_prefix(storage, prefix, expected):
    for name in ("chk-12/_metadata", "chk-1/_metadata", "shared/1-a", ".hidden", "shared/.tmp"):
        storage.write_new(name, b"x")
    assert storage.list(prefix) == expected


def test_deleting_twice_is_deleting_once(storage):
    for name in ("d/a", "d/b", "e"):
        storage.write_new(name, b"x")
    for _ in range(2):
        storage.delete("e")
        storage.delete_tree("d")
        assert storage.list() == []
    assert not storage.exists("d/a")


def test_existence_is_of_files_and_directories(storage):
    assert not storage.exists()
    storage.write_new("d/a", b"x")
    assert [storage.exists(name) for name in ("d/a", "d", "", "d/b")] == [True, True, True, False]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "s3://other/x"])
@pytest.mark.parametrize("method", ["write_new", "write_atomic", "delete", "delete_tree"])
def test_nothing_outside_the_base_is_changed(tmp_path, method, name):
    storage = CheckpointFileSystem(str(tmp_path))
    arguments = (name, b"x") if method.startswith("write") else (name,)
    with pytest.raises(ArgumentError, match="invalid file name"):
        getattr(storage, method)(*arguments)


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        pytest.param("/a/b", "/a/b/x", id="path"),
        pytest.param("/a/b/", "/a/b/x", id="slash at the end"),
        pytest.param("/a?b", "/a?b/x", id="question mark in a path"),
        pytest.param("file:///a/b%20c", "/a/b c/x", id="file URI"),
        pytest.param("file:/a", "/a/x", id="short file URI"),
        pytest.param("s3://k/a", "s3://k/a/x", id="object store"),
        pytest.param("s3://k/a?region=eu", "s3://k/a/x?region=eu", id="URI with options"),
    ],
)
def test_a_path_is_the_base_and_the_name(base, expected):
    assert CheckpointFileSystem(base).path("x") == expected
    assert CheckpointFileSystem(base).child("x").base == expected


def test_a_relative_base_means_the_same_directory_after_a_change_of_directory(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    storage = CheckpointFileSystem("here")
    monkeypatch.chdir("/")
    pickle.loads(pickle.dumps(storage)).write_new("a", b"x")
    assert (tmp_path / "here" / "a").read_bytes() == b"x"


def test_an_absolute_name_is_read_from_where_it_says(tmp_path):
    CheckpointFileSystem(str(tmp_path / "other")).write_new("d/a", b"x")
    assert CheckpointFileSystem(str(tmp_path / "own")).read(str(tmp_path / "other/d/a")) == b"x"


def test_an_unknown_kind_of_uri_is_a_checkpoint_error():
    with pytest.raises(CheckpointError, match=r"could not read .*nosuch://x/y"):
        CheckpointFileSystem("nosuch://x").read("y")


def test_an_empty_base_is_refused():
    with pytest.raises(ArgumentError, match="empty"):
        CheckpointFileSystem("")


class Disk:
    """Records what reaches the disk, in order, and fails on command."""

    def __init__(self, monkeypatch, base: Path) -> None:
        self.steps: list[str] = []
        self.fail_at: str | None = None
        self._base = base
        fsync, replace = os.fsync, Path.replace

        def record(step: str) -> None:
            self.steps.append(step)
            if step == self.fail_at:
                raise OSError(errno.ENOSPC, "no space left on device")

        def recorded_fsync(descriptor):
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            name = path.relative_to(base.parent).as_posix()
            record("sync " + ("temporary" if name.endswith(".tmp") else name))
            fsync(descriptor)

        def recorded_replace(path, target):
            record("rename to " + Path(target).relative_to(base.parent).as_posix())
            return replace(path, target)

        monkeypatch.setattr(local.os, "fsync", recorded_fsync)
        monkeypatch.setattr(Path, "replace", recorded_replace)


@pytest.fixture
def disk(monkeypatch, tmp_path):
    return Disk(monkeypatch, tmp_path)


def test_an_atomic_write_syncs_the_bytes_before_and_the_directory_after_the_rename(disk, tmp_path):
    name = tmp_path.name
    CheckpointFileSystem(str(tmp_path)).write_atomic("d/a", b"x")
    assert disk.steps == [
        f"sync {name}",  # the new directory's entry
        "sync temporary",
        f"rename to {name}/d/a",
        f"sync {name}/d",
    ]


def test_a_new_file_is_synced_with_its_directory(disk, tmp_path):
    CheckpointFileSystem(str(tmp_path)).write_new("a", b"x")
    assert disk.steps == [f"sync {tmp_path.name}/a", f"sync {tmp_path.name}"]


def test_without_sync_nothing_waits_for_the_disk(disk, tmp_path):
    CheckpointFileSystem(str(tmp_path), sync=False).write_new("a", b"x")
    assert disk.steps == []


@pytest.mark.parametrize("step", ["sync temporary", "rename to {}/a"], ids=["write", "rename"])
def test_a_failed_atomic_write_leaves_the_old_file_and_no_other(disk, tmp_path, step):
    storage = CheckpointFileSystem(str(tmp_path))
    storage.write_atomic("a", b"old")
    disk.fail_at = step.format(tmp_path.name)
    with pytest.raises(CheckpointError, match="could not write") as raised:
        storage.write_atomic("a", b"new")
    assert "free space" in raised.value.hint
    assert storage.read("a") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_tasks_import_storage_without_a_large_library():
    code = (
        "import sys, penstock.checkpoint.handles; "
        "print(*sorted({'pyarrow', 'pyspark', 'pandas', 'numpy', 'cloudpickle'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


class FileSystem:
    """A file system of pyarrow under another name, which may refuse to rename over a file, and tells its steps."""

    def __init__(self, type_name: str, *, overwrites: bool = True) -> None:
        self.type_name = type_name
        self.steps: list[str] = []
        self._overwrites = overwrites
        self._fs = pytest.importorskip("pyarrow.fs").FileSystem.from_uri("mock:///")[0]

    def __getattr__(self, name):
        self.steps.append(name)
        return getattr(self._fs, name)

    def move(self, source, target):
        self.steps.append("move")
        if not self._overwrites and self._fs.get_file_info(target).is_file:
            raise OSError("rename failed")
        self._fs.move(source, target)


def arrow_files(file_system):
    from penstock.files.arrow import ArrowFiles

    return ArrowFiles(file_system)


@pytest.mark.parametrize(
    ("type_name", "renames"), [("s3", False), ("gcs", False), ("abfs", False), ("hdfs", True)]
)
def test_only_file_systems_with_a_cheap_rename_rename(type_name, renames):
    file_system = FileSystem(type_name)
    file_system._fs.create_dir("d")
    files = arrow_files(file_system)
    files.write_atomic("d/a", b"x")
    assert ("move" in file_system.steps) is renames
    assert files.read("d/a") == b"x"


def test_a_file_system_that_does_not_rename_over_a_file_still_replaces_it():
    files = arrow_files(FileSystem("hdfs", overwrites=False))
    files.write_atomic("d/a", b"old")
    files.write_atomic("d/a", b"new")
    assert (files.read("d/a"), files.scan("d")) == (b"new", [("a", False)])
