"""Leases on a local file system: a lock of the operating system."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.checkpoint import file_lock
from penstock.checkpoint.heartbeat_lease import HeartbeatLease
from penstock.checkpoint.lease import acquire
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError, FencedError
from tests.builders.unwritable import unwritable_directory

HOLDER = """
import sys
from penstock.checkpoint.lease import acquire
from penstock.checkpoint.storage import CheckpointFileSystem
lease = acquire(CheckpointFileSystem(sys.argv[1]), "the first")
print("held", flush=True)
sys.stdin.read()
lease.release()
"""


@pytest.fixture
def storage(tmp_path):
    return CheckpointFileSystem(str(tmp_path / "job"))


@pytest.fixture
def holder(storage):
    """Another process that has the lease; it releases it when its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, storage.base],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_second_driver_is_rejected_with_the_owner(storage, holder):
    with pytest.raises(FencedError) as raised:
        acquire(storage, "the second")
    assert f"another driver is running this job: pid {holder.pid} on host" in raised.value.message
    assert "'the first'" in raised.value.detail
    assert raised.value.hint


def test_a_driver_that_died_is_not_named_while_the_one_after_it_writes_its_name(
    storage, holder, monkeypatch
):
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    before = dataclasses.replace(LeaseOwner.here("the one before"), pid=died.pid)
    read, found = file_lock._read, [before, before]
    monkeypatch.setattr(file_lock, "_read", lambda path: found.pop() if found else read(path))
    with pytest.raises(FencedError, match=f"another driver is running this job: pid {holder.pid}"):
        acquire(storage, "the second")


@pytest.mark.parametrize("end", ["kill", "release"])
def test_the_next_driver_starts_as_soon_as_the_first_has_ended(storage, holder, end):
    if end == "kill":
        holder.kill()
    holder.communicate()
    acquire(storage, "the second").release()


def test_a_driver_that_is_suspended_keeps_its_job(storage, holder):
    holder.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(FencedError):
            acquire(storage, "the second")
    finally:
        holder.send_signal(signal.SIGCONT)


def test_a_process_cannot_run_a_job_twice(storage):
    lease = acquire(storage, "job")
    with pytest.raises(FencedError, match=f"pid {os.getpid()}") as raised:
        acquire(storage, "job")
    assert "(this process)" in raised.value.detail
    lease.check()
    lease.release()
    acquire(storage, "job").release()


def test_a_released_lease_leaves_no_trace(storage, tmp_path):
    lease = acquire(storage, "job")
    storage.write_new("chk-1/_metadata", b"x")
    lease.release()
    lease.release()
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["chk-1"]
    with pytest.raises(FencedError):
        lease.check()
    storage.delete_tree("chk-1")
    acquire(storage, "job").release()
    assert not storage.exists()


def test_of_many_drivers_that_start_at_once_one_starts(storage):
    barrier = threading.Barrier(8)

    def start(_):
        barrier.wait()
        try:
            return acquire(storage, "job")
        except FencedError:
            return None

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            leases = [lease for lease in pool.map(start, range(8)) if lease is not None]
            assert len(leases) == 1
            leases[0].check()
            leases[0].release()


def test_releasing_and_acquiring_at_the_same_time_never_gives_two_leases(storage):
    held = threading.Lock()
    twice = []

    def run(_):
        for _ in range(200):
            try:
                lease = acquire(storage, "job")
            except FencedError:
                continue
            if not held.acquire(blocking=False):
                twice.append(lease)
                return
            lease.check()
            held.release()
            lease.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert not twice


PARENT = """
import os, sys
from penstock.checkpoint.lease import acquire
from penstock.checkpoint.storage import CheckpointFileSystem
lease = acquire(CheckpointFileSystem(sys.argv[1]), "the first")
if os.fork() == 0:
    print(os.getpid(), flush=True)
lease.owner.pid == os.getpid() and lease.check()
sys.stdin.read()
os._exit(0)
"""


def test_a_child_of_a_driver_that_was_killed_does_not_keep_the_lock(storage):
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, storage.base],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    child = int(process.stdout.readline())
    try:
        with pytest.raises(FencedError):
            acquire(storage, "the second")
        process.kill()
        process.wait()
        os.kill(child, 0)
        acquire(storage, "the second").release()
    finally:
        process.communicate()


def test_a_driver_whose_lock_file_is_deleted_works_no_more(storage, tmp_path):
    lease = acquire(storage, "job")
    (tmp_path / "job" / ".lock").unlink()
    with pytest.raises(FencedError, match="has lost the lease"):
        lease.check()
    other = acquire(storage, "other")
    with pytest.raises(FencedError, match="another driver has taken over this job: pid"):
        lease.check()
    lease.release()
    other.check()
    other.release()


def test_where_locks_do_not_reach_other_machines_the_second_driver_fences_the_first(
    storage, tmp_path
):
    lease = acquire(storage, "job")
    lease.check()
    other = LeaseOwner("other", "far", 1, 0, "token")
    (tmp_path / "job" / ".lock").write_bytes(other.encode())
    with pytest.raises(FencedError, match="pid 1 on host far since 1970-01-01 00:00:00 UTC"):
        lease.check()
    lease.release()


def test_a_driver_that_was_fenced_leaves_the_lock_file_to_the_one_that_fenced_it(storage, tmp_path):
    lease = acquire(storage, "job")
    other = LeaseOwner("other", "far", 1, 0, "token").encode()
    (tmp_path / "job" / ".lock").write_bytes(other)
    lease.release()
    assert (tmp_path / "job" / ".lock").read_bytes() == other


def test_two_drivers_that_write_their_names_in_the_same_moment_do_not_write_the_same_time(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(file_lock.time, "time_ns", lambda: 10**18)
    times = set()
    for name in "abc":
        acquire(CheckpointFileSystem(str(tmp_path / name)), "job")
        times.add((tmp_path / name / ".lock").stat().st_mtime_ns)
    assert len(times) == 3


@pytest.mark.parametrize(
    ("before", "contested"),
    [
        (None, False),
        (b"", False),
        (LeaseOwner("job", "far", 1, 0, "t").encode(), True),
        (b"{", True),
    ],
    ids=["unknown", "unknown to the end", "another machine", "garbage"],
)
def test_previous_owner_of_unknown_state_contests_the_lease(storage, tmp_path, before, contested):
    if before is not None:
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / ".lock").write_bytes(before)
    lease = acquire(storage, "job")
    assert lease.contested is contested
    lease.release()


def test_a_driver_of_this_machine_that_was_killed_is_not_at_work(storage, holder):
    holder.kill()
    holder.wait()
    lease = acquire(storage, "job")
    assert not lease.contested
    lease.release()


def test_lease_of_another_machine_has_a_hint_for_a_dead_host(storage, tmp_path):
    lease = acquire(storage, "job")
    (tmp_path / "job" / ".lock").write_bytes(LeaseOwner("job", "far", 1, 0, "t").encode())
    with pytest.raises(FencedError) as raised:
        acquire(storage, "job")
    assert f"If far has died and its file server keeps the lock, delete '{tmp_path}" in (
        raised.value.hint
    )
    lease.release()


def test_a_lock_file_that_was_only_touched_is_still_the_own_one(storage, tmp_path):
    lease = acquire(storage, "job")
    os.utime(tmp_path / "job" / ".lock", (1, 1))
    lease.check()
    lease.check()
    lease.release()


def test_a_check_of_a_lock_is_one_look_at_the_file(storage, monkeypatch):
    lease = acquire(storage, "job")
    calls = []
    stat = os.stat
    monkeypatch.setattr(file_lock.os, "stat", lambda path: calls.append(path) or stat(path))
    monkeypatch.setattr(file_lock, "_read", pytest.fail)
    lease.check()
    assert len(calls) == 1
    monkeypatch.undo()
    lease.release()


@pytest.mark.parametrize(
    ("code", "hint"),
    [(errno.EROFS, "read-only"), (errno.EACCES, "let the user"), (errno.ENOSPC, "free space")],
    ids=["read-only", "not allowed", "full"],
)
def test_a_directory_that_cannot_be_written_is_a_clean_error(storage, monkeypatch, code, hint):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(file_lock.os, "open", refuse)
    with pytest.raises(
        CheckpointError, match="could not create the checkpoint directory"
    ) as raised:
        acquire(storage, "job")
    assert not isinstance(raised.value, FencedError)
    assert "lock" not in raised.value.message
    assert hint in raised.value.hint


def test_a_file_in_the_place_of_the_directory_is_named(storage, tmp_path):
    (tmp_path / "job").write_text("x")
    with pytest.raises(CheckpointError) as raised:
        acquire(storage, "job")
    assert raised.value.message == (
        f"could not create the checkpoint directory '{tmp_path}/job': '{tmp_path}/job' is a file, not a directory"
    )
    assert raised.value.hint == "delete the file or set another execution.checkpointing.dir"


def test_a_directory_that_may_not_be_made_is_named():
    with unwritable_directory() as place, pytest.raises(CheckpointError) as raised:
        acquire(CheckpointFileSystem(str(place)).child("job"), "job")
    assert raised.value.message == (
        f"could not create the checkpoint directory '{place}/job': permission denied"
    )
    assert raised.value.hint == (
        "let the user that runs the job read and write the checkpoint directory"
    )


def test_a_directory_that_cannot_be_made_at_all_is_named():
    with pytest.raises(CheckpointError) as raised:
        acquire(CheckpointFileSystem("/proc/nowhere/job"), "job")
    assert raised.value.message == "could not create the checkpoint directory '/proc/nowhere/job'"
    assert "'/proc/nowhere' cannot be created" in raised.value.hint


def test_a_lock_that_cannot_be_written_into_is_given_back(storage, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(file_lock.os, "pwrite", full)
        with pytest.raises(CheckpointError, match="storage is full"):
            acquire(storage, "job")
    acquire(storage, "job").release()


def test_without_locks_a_heartbeat_is_used(storage, monkeypatch, caplog):
    import fcntl

    def flock(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with caplog.at_level(logging.WARNING):
        lease = acquire(storage, "job")
    assert isinstance(lease, HeartbeatLease)
    assert "does not support file locks" in caplog.text
    with pytest.raises(FencedError):
        acquire(storage, "job")
    lease.release()


def test_a_lease_that_is_stale_at_once_makes_no_sense(storage):
    with pytest.raises(ArgumentError, match="invalid lease timeout of 0"):
        acquire(storage, "job", stale_after_s=0)
