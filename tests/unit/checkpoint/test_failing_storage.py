from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError, ConfigurationError
from penstock.files import faults as fault_hooks
from penstock.files import local, retries
from penstock.files.retries import is_transient, retried
from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.builders.checkpoint_builders import manifest
from tests.builders.examples import examples


@pytest.fixture
def pauses(monkeypatch):
    """Waits take no time; their lengths are recorded."""
    found = []
    monkeypatch.setattr(retries.time, "sleep", found.append)
    return found


@pytest.fixture(params=["local", "arrow"])
def storage(request, tmp_path, pauses):
    return CheckpointFileSystem(
        str(tmp_path / "base") if request.param == "local" else "mock:///base"
    )


@pytest.mark.parametrize(
    ("code", "transient"),
    [
        (errno.EIO, True),
        (errno.EAGAIN, True),
        (errno.ETIMEDOUT, True),
        (errno.ECONNRESET, True),
        (errno.ESTALE, True),
        (errno.EMFILE, True),
        (None, True),
        (errno.ENOSPC, False),
        (errno.EDQUOT, False),
        (errno.EACCES, False),
        (errno.EPERM, False),
        (errno.EROFS, False),
        (errno.ENOENT, False),
        (errno.EEXIST, False),
        (errno.EINVAL, False),
    ],
    ids=lambda value: errno.errorcode.get(value, "none") if not isinstance(value, bool) else "",
)
def test_some_failures_pass_by_themselves(code, transient):
    assert is_transient(OSError(code, "x") if code else OSError("x")) is transient


def test_a_call_is_tried_three_times_with_growing_pauses(pauses, caplog):
    calls = []

    def fail():
        calls.append(1)
        raise OSError(errno.EIO, "i/o error")

    with caplog.at_level(logging.WARNING), pytest.raises(OSError, match="i/o error"):
        retried(fail, "write checkpoint file 'x'")
    assert (len(calls), pauses) == (3, [0.05, 0.2])
    assert caplog.text.count("could not write checkpoint file 'x': [Errno 5] i/o error") == 2


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "its answer is lost"])
@pytest.mark.parametrize("action", ["write_new", "write_atomic", "create"])
def test_storage_that_fails_every_third_write_makes_progress(storage, pauses, action, after):
    rule = StorageFaults(every=3, after=after)
    with storage_faults(rule) as faults:
        for number in range(20):
            getattr(storage, action)(f"d/{number}", b"%d" % number)
    assert len(faults.struck) == 9
    assert len(pauses) == 9
    assert [storage.read(f"d/{number}") for number in range(20)] == [
        b"%d" % number for number in range(20)
    ]
    assert len(storage.list()) == 20


@pytest.mark.parametrize("action", ["read", "look for", "list", "delete"])
def test_other_calls_are_tried_again_too(storage, action):
    storage.write_new("d/a", b"x")
    call = {
        "read": lambda: storage.read("d/a") == b"x",
        "look for": lambda: storage.exists("d/a"),
        "list": lambda: storage.list("d/") == ["d/a"],
        "delete": lambda: storage.delete("d/a") is None,
    }[action]
    with storage_faults(StorageFaults(last=2, action=action)) as faults:
        assert call()
    assert faults.counted == 3


def test_storage_that_fails_three_times_is_an_error_that_names_the_file(storage):
    with storage_faults(StorageFaults()), pytest.raises(CheckpointError) as raised:
        storage.write_new("d/a", b"x")
    assert "could not write checkpoint file" in raised.value.message
    assert "base/d/a'" in raised.value.message
    assert "check that the driver and every executor reach" in raised.value.hint
    storage.write_new("d/a", b"x")


def test_a_full_disk_is_said_at_once_with_what_to_do(storage, pauses):
    rule = StorageFaults(full=True)
    with storage_faults(rule) as faults, pytest.raises(CheckpointError) as raised:
        storage.write_new("d/a", b"x")
    assert (faults.counted, pauses) == (1, [])
    assert "checkpoint storage is full" in raised.value.message
    assert "free space" in raised.value.hint
    assert storage.list() == []


def test_storage_goes_on_when_there_is_space_again(storage):
    outcomes = []
    with storage_faults(StorageFaults(first=3, last=5, full=True)):
        for number in range(8):
            try:
                storage.write_new(f"{number}", b"x")
                outcomes.append(True)
            except CheckpointError:
                outcomes.append(False)
    assert outcomes == [True, True, False, False, False, True, True, True]


class Disk:
    """A disk whose n-th sync fails, after the bytes were written."""

    def __init__(self, monkeypatch, code, failing):
        self.syncs = 0
        fsync = os.fsync

        def failing_fsync(descriptor):
            self.syncs += 1
            if self.syncs in failing:
                raise OSError(code, os.strerror(code))
            fsync(descriptor)

        monkeypatch.setattr(local.os, "fsync", failing_fsync)


ACTIONS = ["write_new", "write_atomic", "create"]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("failing", [{1}, {2}, {1, 2}, {2, 3}])
def test_a_write_that_fails_half_way_is_done_again(tmp_path, monkeypatch, pauses, action, failing):
    Disk(monkeypatch, errno.EIO, failing)
    storage = CheckpointFileSystem(str(tmp_path))
    getattr(storage, action)("a", b"data")
    assert (tmp_path / "a").read_bytes() == b"data"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_disk_that_is_full_half_way_keeps_no_half_file(tmp_path, monkeypatch, action):
    Disk(monkeypatch, errno.ENOSPC, {1})
    storage = CheckpointFileSystem(str(tmp_path))
    with pytest.raises(CheckpointError, match="storage is full"):
        getattr(storage, action)("a", b"data")
    assert os.listdir(tmp_path) == []
    getattr(storage, action)("a", b"data")


def test_leftover_of_a_failed_attempt_does_not_block_the_next(tmp_path, monkeypatch, pauses):
    Disk(monkeypatch, errno.EIO, {1})
    monkeypatch.setattr(local, "_discard", lambda path: path.write_bytes(b"da"))
    CheckpointFileSystem(str(tmp_path)).write_new("a", b"data")
    assert (tmp_path / "a").read_bytes() == b"data"


def test_foreign_file_is_not_treated_as_a_leftover(tmp_path, monkeypatch, pauses):
    storage = CheckpointFileSystem(str(tmp_path))

    def another_process(path):
        path.write_bytes(b"other")

    Disk(monkeypatch, errno.EIO, {1})
    monkeypatch.setattr(local, "_discard", another_process)
    with pytest.raises(CheckpointError, match="exists already"):
        storage.write_new("a", b"data")
    assert (tmp_path / "a").read_bytes() == b"other"


def test_a_file_that_exists_survives_a_failure_to_open_it(tmp_path, monkeypatch, pauses):
    (tmp_path / "a").write_bytes(b"other")

    def no_descriptors(*_):
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(local.os, "open", no_descriptors)
        with pytest.raises(CheckpointError, match="could not write"):
            CheckpointFileSystem(str(tmp_path)).write_new("a", b"data")
    assert (tmp_path / "a").read_bytes() == b"other"


def test_a_file_is_created_once(storage):
    assert storage.create("d/a", b"one")
    assert not storage.create("d/a", b"two")
    assert not storage.create("d/a", b"one")
    assert storage.read("d/a") == b"one"
    assert storage.list() == ["d/a"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_links_still_creates_files_once(tmp_path, monkeypatch, code):
    def no_links(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(local.os, "link", no_links)
    storage = CheckpointFileSystem(str(tmp_path))
    assert [storage.create("a", data) for data in (b"one", b"two")] == [True, False]
    assert (tmp_path / "a").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a"]


def test_a_created_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    steps = []
    fsync, link = os.fsync, os.link

    def recorded_fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        steps.append("sync file" if path.is_file() else "sync directory")
        fsync(descriptor)

    def recorded_link(source, target):
        steps.append("link")
        link(source, target)

    monkeypatch.setattr(local.os, "fsync", recorded_fsync)
    monkeypatch.setattr(local.os, "link", recorded_link)
    CheckpointFileSystem(str(tmp_path)).create("a", b"x")
    assert steps == ["sync file", "link", "sync directory"]


@pytest.mark.parametrize("after", [False, True])
def test_a_manifest_whose_first_write_fails_is_written(tmp_path, pauses, after):
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), "job")
    with storage_faults(StorageFaults(last=1, after=after, path="_metadata")) as faults:
        store.write(manifest(1))
    assert faults.struck
    assert store.latest() == manifest(1)


@settings(max_examples=examples(40), deadline=None)
@given(every=st.integers(2, 5), after=st.booleans(), count=st.integers(1, 30))
def test_any_storage_that_fails_now_and_then_makes_progress(tmp_path_factory, every, after, count):
    base = CheckpointFileSystem(str(tmp_path_factory.mktemp("base")), sync=False)
    store = ManifestStore(base, "job")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries.time, "sleep", lambda _: None)
        with storage_faults(StorageFaults(every=every, after=after)):
            for checkpoint_id in range(1, count + 1):
                store.write(manifest(checkpoint_id))
    assert store.list_checkpoint_ids() == list(range(1, count + 1))


# An object store


class Bucket:
    """A pyarrow file system that is an object store by name; a stream that fails keeps what was written to it."""

    type_name = "s3"

    def __init__(self):
        import pyarrow.fs as fs

        self._fs = fs.FileSystem.from_uri("mock:///")[0]
        self._fs.create_dir("d")
        self.fail = 0
        self.rival: bytes | None = None

    def __getattr__(self, name):
        return getattr(self._fs, name)

    def open_output_stream(self, path, compression=None):
        return Upload(self, path)


class Upload:
    def __init__(self, bucket, path):
        self._bucket, self._path, self._data = bucket, path, b""

    def __enter__(self):
        return self

    def write(self, data):
        if self._bucket.fail:
            self._bucket.fail -= 1
            self._data = bytes(data[:2])
            raise OSError("connection lost")
        self._data = bytes(data)

    def __exit__(self, *_):
        with self._bucket._fs.open_output_stream(self._path) as stream:
            stream.write(self._data)
        if self._bucket.rival is not None:
            with self._bucket._fs.open_output_stream(self._path) as stream:
                stream.write(self._bucket.rival)


@pytest.fixture
def bucket(pauses):
    return Bucket()


def bucket_storage(bucket):
    from penstock.files.arrow import ArrowFiles

    storage = CheckpointFileSystem("mock:///d")
    storage._opened = ArrowFiles(bucket), "d"
    return storage


@pytest.mark.parametrize("action", ["write_new", "write_atomic"])
def test_a_part_of_an_upload_that_became_visible_is_replaced(bucket, action):
    bucket.fail = 2
    storage = bucket_storage(bucket)
    getattr(storage, action)("a", b"data")
    assert storage.read("a") == b"data"


def test_a_part_of_a_new_file_does_not_stay_when_the_upload_fails_for_good(bucket):
    bucket.fail = 3
    storage = bucket_storage(bucket)
    with pytest.raises(CheckpointError, match="could not write"):
        storage.write_new("a", b"data")
    assert storage.list() == []


def test_of_two_uploads_of_a_manifest_the_first_sees_that_it_was_overwritten(bucket):
    bucket.rival = b"other"
    assert bucket_storage(bucket).create("a", b"data") is False


# The rules themselves


@pytest.mark.parametrize(
    ("rule", "text", "struck"),
    [
        (StorageFaults(), "every=1", [1, 2, 3, 4, 5, 6]),
        (StorageFaults(every=3), "every=3", [3, 6]),
        (StorageFaults(first=2, last=4), "first=2,last=4", [2, 3, 4]),
        (StorageFaults(last=2), "last=2", [1, 2]),
        (StorageFaults(first=5, full=True), "first=5,full=1", [5, 6]),
        (StorageFaults(full=True), "full=1", [1, 2, 3, 4, 5, 6]),
        (StorageFaults(slow_s=0.5), "slow_s=0.5", []),
        (StorageFaults(slow_s=0.5, every=2), "every=2,slow_s=0.5", [2, 4, 6]),
        (
            StorageFaults(every=2, path="chk-", while_exists="/x", action="read"),
            "every=2,action=read,path=chk-,while_exists=/x",
            [2, 4, 6],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rule_says_which_calls_fail_and_travels_as_text(rule, text, struck):
    assert rule.environment() == {"PENSTOCK_STORAGE_FAULTS": text}
    assert [number for number in range(1, 7) if StorageFaults.parse(text).strikes(number)] == struck
    if text != "every=1":
        assert StorageFaults.parse(text) == rule


@pytest.mark.parametrize("text", ["", "each=3", "every=x", "every"])
def test_invalid_fault_rule_is_rejected(text):
    with pytest.raises(ConfigurationError, match="is not a valid storage fault rule"):
        StorageFaults.parse(text)


@pytest.mark.parametrize(
    "values",
    [{"every": 0}, {"first": 0}, {"every": 2, "last": 3}, {"action": "rename"}, {"path": "a,b"}],
    ids=str,
)
def test_a_rule_that_makes_no_sense_is_refused(values):
    with pytest.raises(ArgumentError):
        StorageFaults(**values)


def test_a_rule_holds_for_some_files_and_for_some_time(tmp_path, pauses):
    switch = tmp_path / "switch"
    storage = CheckpointFileSystem(str(tmp_path / "base"))
    with storage_faults(StorageFaults(full=True, path="shared/", while_exists=str(switch))):
        storage.write_new("shared/1", b"x")
        switch.touch()
        storage.write_new("chk-1", b"x")
        with pytest.raises(CheckpointError):
            storage.write_new("shared/2", b"x")
        switch.unlink()
        storage.write_new("shared/2", b"x")


def test_slow_storage_is_slow(tmp_path, pauses):
    with storage_faults(StorageFaults(slow_s=1.5)):
        CheckpointFileSystem(str(tmp_path)).write_new("a", b"x")
    assert pauses == [1.5]


def test_rules_end_with_their_block_and_hold_for_storage_that_was_open_before(storage):
    storage.write_new("a", b"x")
    with storage_faults(StorageFaults(full=True)), pytest.raises(CheckpointError):
        storage.write_new("b", b"x")
    storage.write_new("b", b"x")
    assert fault_hooks._hook is None


WRITER = """
import sys
from penstock.checkpoint.storage import CheckpointFileSystem
storage = CheckpointFileSystem(sys.argv[1])
print("penstock.files.storage_faults" in sys.modules)
storage.write_new("a", b"x")
print("penstock.files.storage_faults" in sys.modules, "pyspark" in sys.modules)
try:
    storage.write_new("b", b"x")
except Exception as error:
    print(error.message.partition(":")[0])
"""


def run_writer(directory, **variables):
    return subprocess.run(
        [sys.executable, "-c", WRITER, str(directory)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


def test_an_environment_variable_carries_a_rule_into_other_processes(tmp_path):
    rule = StorageFaults(first=2, full=True)
    assert run_writer(tmp_path, **rule.environment()) == [
        "False",
        "True False",
        "checkpoint storage is full",
    ]


def test_without_a_rule_nothing_is_loaded(tmp_path):
    assert run_writer(tmp_path, PENSTOCK_STORAGE_FAULTS="") == ["False", "False False"]
