"""The two kinds of file systems behave alike, when nothing fails and when something does."""

from __future__ import annotations

import errno
import io
import os

import pytest

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.connectors.base.sink import CommitRequest
from penstock.connectors.filesystem.committer import CommitPolicy, FileCommitter, InProgressFile
from penstock.errors import ArgumentError, CheckpointError, FileError, MissingFileError
from penstock.files import file_system, local, retries
from penstock.files.arrow import ArrowFiles
from penstock.files.file_system import FileSystem, resolve
from penstock.files.local import LocalFiles
from penstock.files.streams import RetryingInput
from penstock.testing.storage_faults import StorageFaults, storage_faults


def local_files():
    return FileSystem(LocalFiles())


def arrow_local():
    import pyarrow.fs

    return FileSystem(ArrowFiles(pyarrow.fs.LocalFileSystem()))


@pytest.fixture(params=[local_files, arrow_local], ids=["local", "arrow"])
def files(request, pauses):
    return request.param()


@pytest.fixture
def pauses(monkeypatch):
    """Waits take no time; their lengths are recorded."""
    found = []
    monkeypatch.setattr(retries.time, "sleep", found.append)
    return found


def put(files, path, *pieces):
    out = files.open_output(str(path))
    for piece in pieces:
        out.write(piece)
    files.finish(out)


def test_files_are_written_described_moved_and_deleted(files, tmp_path):
    one, two = str(tmp_path / "a" / "b" / "one"), str(tmp_path / "a" / "two")
    put(files, one, b"12345")
    assert files.info(one).size == 5
    assert files.info(one).mtime_ns > 0
    assert files.info(str(tmp_path / "a")) is None
    assert files.exists(str(tmp_path / "a"))
    assert not files.has_file(str(tmp_path / "a"))
    assert files.has_file(one)
    files.rename(one, two)
    files.sync_directories([str(tmp_path / "a"), str(tmp_path / "missing")])
    assert not files.has_file(one)
    assert [file.path for file in files.walk(str(tmp_path))] == [two]
    with files.open_input(two) as stream:
        stream.seek(2)
        assert stream.read() == b"345"
        assert stream.seek(-4, os.SEEK_END) == 1
        assert stream.read(2) == b"23"
    files.delete(two)
    files.delete(two)
    assert not files.has_file(two)
    assert list(files.walk(str(tmp_path / "missing"))) == []


def test_files_are_published_on_both(files, tmp_path):
    parts = []
    for checkpoint_id in (1, 2):
        name = f".part-0-{checkpoint_id}-0.inprogress.{checkpoint_id}.aa.bb"
        put(files, tmp_path / "x" / name, b"%d\n" % checkpoint_id)
        parts.append(
            InProgressFile("x", name, f"part-0-{checkpoint_id}-0", 0, checkpoint_id, 2, 1, 0, 0)
        )
    committer = FileCommitter(str(tmp_path), CommitPolicy(at_once=False, suffix=".txt"), files)
    request = CommitRequest(2, parts, final=True)
    for _ in range(2):
        assert committer.commit(request) is None
        (result,) = (tmp_path / "x").iterdir()
        assert result.read_bytes() == b"1\n2\n"


def test_a_scheme_that_nothing_opens_is_refused():
    with pytest.raises(ArgumentError, match="cannot open the file system") as caught:
        resolve("nosuchscheme://host/path")
    assert "no file system for 'nosuchscheme://'" in str(caught.value)


def test_checkpoint_directory_with_unknown_scheme_is_reported():
    with pytest.raises(CheckpointError) as caught:
        CheckpointFileSystem("nosuchscheme://host/path").list()
    assert "no file system for 'nosuchscheme://'" in str(caught.value.detail)
    assert caught.value.hint == "check the URI, or set another execution.checkpointing.dir"


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "its answer is lost"])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_stream_is_written_and_read_although_calls_fail_now_and_then(
    files, tmp_path, monkeypatch, after, large
):
    monkeypatch.setattr(file_system, "_KEPT", 1 << 30)
    data = os.urandom((1 << 20 if large else 10) + 7)
    pieces = [data[start : start + 100_003] for start in range(0, len(data), 100_003)]
    path = str(tmp_path / "a")
    with storage_faults(StorageFaults(every=2, after=after)) as faults:
        for _ in range(3):
            put(files, path, *pieces)
    assert faults.struck
    assert (tmp_path / "a").read_bytes() == data
    with storage_faults(StorageFaults(every=2, after=after, action="read")) as faults:
        with files.open_input(path) as stream:
            stream.seek(3)
            found = b"".join(iter(lambda: stream.read(70_001), b""))
        copy = io.BytesIO(b"before")
        copy.seek(0, os.SEEK_END)
        files.copy_into(path, copy)
    assert len(faults.struck) >= 2
    assert found == data[3:]
    assert copy.getvalue() == b"before" + data


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "its answer is lost"])
def test_a_file_is_moved_once_although_the_first_try_fails(files, tmp_path, after):
    put(files, tmp_path / "one", b"1")
    with storage_faults(StorageFaults(last=1, after=after)) as faults:
        files.rename(str(tmp_path / "one"), str(tmp_path / "two"))
    assert faults.counted == 2
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


def test_rename_of_a_missing_file_fails(files, tmp_path):
    with storage_faults(StorageFaults(last=1)), pytest.raises(FileError):
        files.rename(str(tmp_path / "one"), str(tmp_path / "two"))


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(file_system, "_KEPT", 1000)
    monkeypatch.setattr(file_system, "_KEPT_REMOTE", 1000)


def test_a_large_file_is_written_piece_by_piece(files, tmp_path, little_memory):
    out = files.open_output(str(tmp_path / "d" / "a"))
    for piece in (b"x" * 900, b"y" * 900, b"z"):
        out.write(piece)
    assert out.tell() == 1801
    assert (tmp_path / "d" / "a").exists()
    files.finish(out)
    assert (tmp_path / "d" / "a").read_bytes() == b"x" * 900 + b"y" * 900 + b"z"


def test_written_part_of_a_large_file_is_not_repeated(files, tmp_path, little_memory):
    out = files.open_output(str(tmp_path / "a"))
    out.write(b"x" * 2000)
    with storage_faults(StorageFaults(last=1)) as faults:
        with pytest.raises(FileError, match="could not write file"):
            out.write(b"y" * 2000)
        assert faults.counted == 1
    out.close()


def test_aborted_small_file_is_never_created(files, tmp_path):
    out = files.open_output(str(tmp_path / "a"))
    out.write(b"x")
    out.close()
    assert list(tmp_path.iterdir()) == []


def failing_syncs(monkeypatch, count):
    fsync, calls = os.fsync, []

    def failing(descriptor):
        calls.append(descriptor)
        if len(calls) <= count:
            raise OSError(errno.EIO, "i/o error")
        fsync(descriptor)

    monkeypatch.setattr(local.os, "fsync", failing)
    return calls


def test_small_file_is_written_again_after_a_failed_sync(tmp_path, monkeypatch, pauses):
    files = local_files()
    calls = failing_syncs(monkeypatch, 2)
    put(files, tmp_path / "a", b"x")
    assert (len(calls), len(pauses)) == (3, 2)
    assert (tmp_path / "a").read_bytes() == b"x"


def test_after_a_failed_sync_a_large_file_is_not_synced_again(
    tmp_path, monkeypatch, pauses, little_memory
):
    # It would succeed, whatever was lost.
    files = local_files()
    calls = failing_syncs(monkeypatch, 1)
    with pytest.raises(FileError, match="could not write file") as raised:
        put(files, tmp_path / "a", b"x" * 2000)
    assert (len(calls), pauses) == (1, [])
    assert str(tmp_path / "a") in raised.value.message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda files, path: files.read(path), "does not exist"),
        (lambda files, path: files.open_input(path), "does not exist"),
        (lambda files, path: files.copy_into(path, io.BytesIO()), "does not exist"),
    ],
    ids=["read", "open", "copy"],
)
def test_a_missing_file_is_named(files, tmp_path, call, message):
    with pytest.raises(MissingFileError, match=message) as raised:
        call(files, str(tmp_path / "missing"))
    assert str(tmp_path / "missing") in raised.value.message
    assert "misspelt" in raised.value.hint


def test_a_full_disk_is_said_at_once_with_what_to_do(files, tmp_path, pauses):
    with storage_faults(StorageFaults(full=True)), pytest.raises(FileError) as raised:
        put(files, tmp_path / "a", b"x")
    assert raised.value.message.startswith("the file system is full: could not write file")
    assert "free space" in raised.value.hint
    assert pauses == []


class Broken(io.BytesIO):
    """A connection that fails after some bytes, and stays broken."""

    def __init__(self, data, good):
        super().__init__(data)
        self._good = good

    def readinto(self, target):
        if self._good <= 0:
            raise OSError(errno.ECONNRESET, "connection reset")
        self._good -= 1
        return super().readinto(target)


def test_a_connection_that_broke_is_made_again_at_the_same_place():
    data = bytes(range(250))
    opened = []

    def connect():
        opened.append(Broken(data, 2))
        return opened[-1]

    def call(read):
        return retries.retried(read, "read", sleep=lambda _: None)

    with io.BufferedReader(RetryingInput(connect, call), 16) as stream:
        assert b"".join(iter(lambda: stream.read(16), b"")) == data
    assert len(opened) > 3
    assert all(each.closed for each in opened)
