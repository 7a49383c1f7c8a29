"""The two kinds of file systems behave alike."""

from __future__ import annotations

import pytest

from penstock.connectors.files.committer import CommitPolicy, FileCommitter, InProgressFile
from penstock.connectors.sink import CommitRequest
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.files.filesystem import (
    ArrowFileSystem,
    LocalFileSystem,
    is_hidden,
    normalize,
    resolve,
)


def arrow_local():
    import pyarrow.fs

    return ArrowFileSystem(pyarrow.fs.LocalFileSystem())


@pytest.fixture(params=[LocalFileSystem, arrow_local], ids=["local", "arrow"])
def files(request):
    return request.param()


def put(files, path, data):
    out = files.open_output(str(path))
    out.write(data)
    files.finish(out)


def test_files_are_written_described_moved_and_deleted(files, tmp_path):
    one, two = str(tmp_path / "a" / "b" / "one"), str(tmp_path / "a" / "two")
    put(files, one, b"12345")
    assert files.info(one).size == 5
    assert files.info(one).mtime_ns > 0
    assert files.info(str(tmp_path / "a")) is None
    assert files.is_directory(str(tmp_path / "a"))
    assert not files.is_directory(one)
    files.rename(one, two)
    files.sync_directories([str(tmp_path / "a"), str(tmp_path / "missing")])
    assert not files.exists(one)
    assert [file.path for file in files.walk(str(tmp_path))] == [two]
    with files.open_input(two) as stream:
        stream.seek(2)
        assert stream.read() == b"345"
    files.delete(two)
    files.delete(two)
    assert not files.exists(two)
    assert list(files.walk(str(tmp_path / "missing"))) == []


def test_files_are_published_on_both(files, tmp_path):
    parts = []
    for epoch in (1, 2):
        name = f".part-0-{epoch}-0.inprogress.{epoch}.aa.bb"
        put(files, tmp_path / "x" / name, b"%d\n" % epoch)
        parts.append(InProgressFile("x", name, f"part-0-{epoch}-0", 0, epoch, 2, 1, 0, 0))
    committer = FileCommitter(str(tmp_path), CommitPolicy(at_once=False, suffix=".txt"), files)
    request = CommitRequest(2, parts, final=True)
    for _ in range(2):
        assert committer.commit(request) is None
        (result,) = (tmp_path / "x").iterdir()
        assert result.read_bytes() == b"1\n2\n"


@pytest.mark.parametrize(
    ("path", "below", "hidden"),
    [
        ("/a/b", "", False),
        ("/a/.b", "", True),
        ("/a/_b/c", "/a", True),
        ("/.a/b", "/.a", False),
        ("/a/b_c.d", "/a", False),
    ],
)
def test_what_is_hidden(path, below, hidden):
    assert is_hidden(path, below) is hidden


def test_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert normalize("x/../y") == str(tmp_path / "y")
    assert normalize((tmp_path / "a b").as_uri()) == str(tmp_path / "a b")
    assert normalize("s3://bucket/key/") == "s3://bucket/key"
    with pytest.raises(ArgumentTypeError):
        normalize(5)


def test_a_scheme_that_nothing_opens_is_refused():
    with pytest.raises(ArgumentError, match="cannot open the file system"):
        resolve("nosuchscheme://host/path")
