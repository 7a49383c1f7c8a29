"""Checkpoint storage on S3: what it promises, and what it asks the server for."""

from __future__ import annotations

import pytest
from pyarrow import fs

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.files import s3_conditions
from penstock.files.uris import open_file_system


@pytest.fixture
def storage(s3):
    return CheckpointFileSystem(s3.uri("job"))


def test_files_are_written_listed_read_and_deleted(storage, s3, tmp_path):
    assert (storage.list(), storage.exists()) == ([], False)
    storage.write_atomic("chk-1/_metadata", b"first")
    storage.write_atomic("chk-1/_metadata", b"second")
    storage.write_atomic("chk-12/_metadata", b"")
    storage.write_new("shared/1-a.state", b"state")
    s3.write("job/shared/.hidden", b"x")
    assert storage.list("chk-") == ["chk-1/_metadata", "chk-12/_metadata"]
    assert storage.list("chk-1/") == ["chk-1/_metadata"]
    assert storage.list() == ["chk-1/_metadata", "chk-12/_metadata", "shared/1-a.state"]
    assert [storage.read(name) for name in ("chk-1/_metadata", "chk-12/_metadata")] == [
        b"second",
        b"",
    ]
    assert storage.read(storage.path("shared/1-a.state")) == b"state"
    with (tmp_path / "copy").open("w+b") as copy:
        storage.copy_into("shared/1-a.state", copy)
    assert (tmp_path / "copy").read_bytes() == b"state"
    for _ in range(2):
        storage.delete_tree("chk-1")
        storage.delete("shared/1-a.state")
        assert storage.list() == ["chk-12/_metadata"]


def test_a_file_of_a_name_that_is_taken_is_not_written(storage):
    assert storage.create("chk-1/_metadata", b"one") is True
    assert storage.create("chk-1/_metadata", b"two") is False
    with pytest.raises(CheckpointError, match="exists already"):
        storage.write_new("chk-1/_metadata", b"three")
    assert storage.read("chk-1/_metadata") == b"one"


def test_of_two_that_create_a_manifest_at_the_same_moment_one_does(storage, s3, monkeypatch):
    """The other one writes after this one has looked."""
    write = s3_conditions._put

    def late(client, bucket, key, data):
        s3.write("job/chk-1/_metadata", b"another's")
        return write(client, bucket, key, data)

    monkeypatch.setattr(s3_conditions, "_put", late)
    assert storage.create("chk-1/_metadata", b"mine") is False
    assert storage.read("chk-1/_metadata") == b"another's"


@pytest.mark.parametrize(("status", "code"), [(501, "NotImplemented"), (403, "AccessDenied")])
def test_what_a_store_says_of_a_condition_counts(s3, status, code):
    put = s3_conditions.conditional_put(s3.uri("job"))
    with s3.server.refusing(status, code):
        if status == 501:
            assert put(f"streams/{s3.prefix}/a", b"x") is None
        else:
            with pytest.raises(PermissionError, match=code):
                put(f"streams/{s3.prefix}/a", b"x")


def test_where_there_is_no_boto3_a_line_says_what_it_would_give(s3, monkeypatch, caplog):
    monkeypatch.setattr(s3_conditions.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(s3_conditions, "_reported", set())
    storage = CheckpointFileSystem(s3.uri("job"))
    with caplog.at_level("INFO", s3_conditions.__name__):
        assert [storage.create(name, b"x") for name in ("a", "b", "a")] == [True, True, False]
    (record,) = caplog.records
    assert "penstock-stream[s3]" in record.getMessage()


def test_a_file_of_several_parts_is_there_as_a_whole(storage):
    data = bytes(range(256)) * 48_000
    storage.write_new("shared/large", memoryview(data))
    assert storage.read("shared/large") == data


def test_a_missing_file_is_named(storage):
    with pytest.raises(CheckpointError, match=r"job/chk-1/_metadata\?.*' does not exist") as raised:
        storage.read("chk-1/_metadata")
    assert isinstance(raised.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(lambda s: s.write_atomic("a", b"x"), ["PUT"], id="write"),
        pytest.param(lambda s: s.write_new("n", b"x"), ["HEAD", "PUT"], id="new"),
        pytest.param(lambda s: s.create("n", b"x"), ["HEAD", "PUT", "HEAD", "GET"], id="create"),
        pytest.param(lambda s: s.read("d/a"), ["HEAD", "GET"], id="read"),
        pytest.param(lambda s: s.list("d/"), ["LIST"], id="list"),
    ],
)
def test_a_small_file_costs_few_requests(storage, s3, call, expected):
    storage.write_atomic("d/a", b"x")
    with s3.server.requests() as asked:
        call(storage)
    assert [str(each).partition(" ")[0] for each in asked] == expected


def test_many_files_are_deleted_at_once(storage, s3):
    names = ("shared/1", "shared/2", "shared/3", "shared/4")
    for name in names:
        s3.write(f"job/{name}", b"x")
    with s3.server.gathering("DELETE", len(names)):
        ManifestStore.at(storage).delete_files(names)
    assert s3.list("job") == []


def test_a_directory_that_was_deleted_by_halves_is_deleted(storage, s3):
    store = ManifestStore.at(storage)
    for name in ("chk-2/_metadata", "chk-1/.unfinished", "chk-3/.unfinished"):
        s3.write(f"job/{name}", b"x")
    s3.make_directory("job/chk-0")
    store.sweep_checkpoints()
    assert storage.list_directories("chk-") == ["chk-2", "chk-3"]


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        pytest.param(403, "AccessDenied", "check the credentials", id="no permission"),
        pytest.param(403, "InvalidAccessKeyId", "check the credentials", id="unknown key"),
        pytest.param(404, "NoSuchBucket", "check the URI, or set another", id="no bucket"),
    ],
)
def test_permanent_server_error_is_not_retried(storage, s3, caplog, status, code, text):
    with s3.server.refusing(status, code), pytest.raises(CheckpointError) as raised:
        storage.write_atomic("a", b"x")
    assert raised.value.message.startswith("could not write checkpoint file 's3://streams/")
    assert text in (raised.value.hint or "")
    assert caplog.records == []


def test_environment_variables_say_where_the_server_is(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{s3.server.endpoint}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    CheckpointFileSystem(f"s3://streams/{s3.prefix}").write_atomic("a", b"x")
    assert CheckpointFileSystem(f"s3a://streams/{s3.prefix}").read("a") == b"x"
    assert s3.list() == ["a"]


@pytest.mark.parametrize("path", ["", "/", "/a", "/a/", "/a%20b", "/%C3%A4/x", "/a+b", "/a//b"])
def test_path_matches_pyarrow(s3, path):
    uri = s3.uri().replace(f"/{s3.prefix}", path)
    assert open_file_system(uri)[1] == fs.FileSystem.from_uri(uri)[1]


def test_a_bucket_is_opened_once_in_a_process(s3):
    assert open_file_system(s3.uri("a"))[0] is open_file_system(s3.uri("b/c"))[0]
