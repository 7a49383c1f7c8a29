"""What stays on the disk of an executor, and what goes."""

from __future__ import annotations

import errno
import gc
import os
import stat
import sys
import tempfile
import time

import pytest

from penstock.errors import ConfigurationError, FileError
from penstock.processes import temporary
from penstock.runtime.state.rocksdb import local_directory
from penstock.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.runtime.state.rocksdb.local_directory import LocalDirectory
from penstock.state_descriptors.descriptors import ValueStateDescriptor

A_WEEK_AGO = time.time() - 7 * 24 * 3600
HERE = temporary.this_process()
DEAD = HERE.replace(f".{os.getpid()}.", ".999999999.")
REUSED = HERE.rpartition(".")[0] + ".1"  # its number has gone to this process, which started later
ELSEWHERE = "0" * 12 + ".999999999.1"


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    monkeypatch.setattr(local_directory, "_swept", set())


def leave(root, name, *, modified):
    """Make a directory as a job has it, last changed at some time."""
    path = root / f"penstock-rocksdb-{os.geteuid()}" / "other-job" / "0.0-0" / name
    LocalDirectory((str(root),), "other-job", "0.0", 0).find(
        "nothing"
    )  # makes the user's own directory
    path.mkdir(parents=True)
    (path / "000012.sst").write_bytes(b"x")
    for directory in (path, path.parent, path.parent.parent):
        os.utime(directory, (modified, modified))
    return path


@pytest.mark.parametrize(
    ("name", "modified", "stays"),
    [
        pytest.param(f"work-{HERE}-3", A_WEEK_AGO, True, id="idle, its process lives"),
        pytest.param(f"work-{ELSEWHERE}-3", A_WEEK_AGO, True, id="on another machine"),
        pytest.param(f"work-{REUSED}-3", A_WEEK_AGO, False, id="another process has its number"),
        pytest.param(f"work-{DEAD}-3", A_WEEK_AGO, False, id="its process is gone"),
        pytest.param("snap-7-op-0-a1", A_WEEK_AGO, False, id="a snapshot that was never opened"),
        pytest.param(f"work-{DEAD}-3", time.time(), True, id="not forgotten yet"),
    ],
)
def test_files_of_inactive_jobs_are_deleted_after_a_day(tmp_path, name, modified, stays):
    left = leave(tmp_path, name, modified=modified)
    LocalDirectory((str(tmp_path),), "this-job", "0.0", 0).new()
    assert left.exists() == stays


@pytest.mark.parametrize(
    ("owner", "stays"),
    [
        pytest.param(HERE, True, id="this process"),
        pytest.param(ELSEWHERE, True, id="on another machine"),
        pytest.param(DEAD, False, id="gone"),
        pytest.param(REUSED, False, id="another process has its number"),
    ],
)
def test_databases_in_use_are_left_alone_when_a_checkpoint_is_complete(tmp_path, owner, stays):
    place = LocalDirectory((str(tmp_path),), "job", "0.0", 0)
    work = place.new().with_name(f"work-{owner}-77")
    work.mkdir()
    place.prune(())
    assert work.exists() == stays


# What lies there is unpickled: another user must not have put it there.


def own(root):
    return root / f"penstock-rocksdb-{os.geteuid()}"


def test_the_directory_is_the_users_own(tmp_path):
    LocalDirectory((str(tmp_path / "new"),), "job", "0.0", 0).new()
    found = own(tmp_path / "new").stat()
    assert stat.S_IMODE(found.st_mode) == 0o700
    assert found.st_uid == os.geteuid()


@pytest.mark.parametrize("reported", ["", None], ids=["empty", "unset"])
def test_without_spark_it_is_in_the_directory_for_temporary_files(tmp_path, monkeypatch, reported):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    if reported is not None:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", reported)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert LocalDirectory((), "job", "0.0", 0).job == own(tmp_path) / "job"


def of_another_user(path, monkeypatch):
    path.mkdir(mode=0o700)
    real = os.lstat(path)
    fields = list(real)
    fields[stat.ST_UID] = os.geteuid() + 1
    monkeypatch.setattr(type(path), "lstat", lambda _: os.stat_result(fields))


def linked(path, monkeypatch):
    (path.parent / "elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.parent / "elsewhere")


def a_file(path, monkeypatch):
    path.write_bytes(b"")


def writable(path, monkeypatch):
    path.mkdir()
    path.chmod(0o770)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(of_another_user, "it belongs to user", id="another user's"),
        pytest.param(linked, "it is not a directory of its own", id="a link"),
        pytest.param(a_file, "it is not a directory of its own", id="a file"),
        pytest.param(writable, "mode 770", id="writable for others"),
    ],
)
@pytest.mark.parametrize(
    "use", [lambda place: place.new(), lambda place: place.find("7-op-0-a1")], ids=["new", "find"]
)
def test_a_directory_that_others_could_have_filled_is_refused(
    tmp_path, monkeypatch, made, reason, use
):
    made(own(tmp_path), monkeypatch)
    with pytest.raises(ConfigurationError, match="is not safe to use") as caught:
        use(LocalDirectory((str(tmp_path),), "job", "0.0", 0))
    assert reason in caught.value.detail
    assert "state.backend.rocksdb.localdir" in caught.value.hint


def test_a_directory_that_others_may_only_read_is_used(tmp_path):
    own(tmp_path).mkdir()
    own(tmp_path).chmod(0o755)
    assert LocalDirectory((str(tmp_path),), "job", "0.0", 0).new().parent.is_dir()


def test_subtasks_are_spread_over_the_directories(tmp_path):
    roots = [str(tmp_path / "a"), str(tmp_path / "b")]
    used = [LocalDirectory(roots, "job", "0.0", subtask).path for subtask in range(4)]
    assert [path.parents[2].name for path in used] == ["a", "b", "a", "b"]


def test_a_backend_for_tests_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    backend = RocksDBKeyedStateBackend.temporary(lambda: 0)
    backend.current_key = "k"
    backend.get_state(ValueStateDescriptor("v")).update(1)
    backend.snapshot()
    assert len(list(tmp_path.iterdir())) == 1
    backend.close()
    del backend
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_file_instead_of_the_local_directory_names_the_option(tmp_path):
    (tmp_path / "state").write_text("x")
    with pytest.raises(FileError) as caught:
        LocalDirectory((str(tmp_path / "state"),), "job", "0.0", 0).new()
    assert caught.value.message == (
        f"could not create the directory for state databases '{tmp_path}/state': "
        f"'{tmp_path}/state' is a file, not a directory"
    )
    assert caught.value.hint == "delete the file or set another state.backend.rocksdb.localdir"


def test_a_disk_that_is_full_may_not_be_on_another_machine(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(local_directory, "_make", full)
    with pytest.raises(OSError, match="no space left") as caught:
        LocalDirectory((str(tmp_path),), "job", "0.0", 0).new()
    assert type(caught.value) is OSError  # Spark tries the task again, perhaps elsewhere


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no /proc")
def test_uncreatable_local_directory_names_the_option():
    with pytest.raises(FileError) as caught:
        LocalDirectory(("/proc/nowhere",), "job", "0.0", 0).new()
    assert (
        caught.value.message == "could not create the directory for state databases '/proc/nowhere'"
    )
    assert (
        caught.value.hint
        == "'/proc/nowhere' cannot be created: set another state.backend.rocksdb.localdir"
    )
