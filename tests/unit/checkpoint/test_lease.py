from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from checkpoint_builders import manifest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint import file_lock, heartbeat_lease
from penstock.checkpoint.file_lock import FileLock
from penstock.checkpoint.heartbeat_lease import HeartbeatLease
from penstock.checkpoint.lease import acquire
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointStorage
from penstock.errors import ArgumentError, CheckpointError, FencedError

HOLDER = """
import sys
from penstock.checkpoint.lease import acquire
from penstock.checkpoint.storage import CheckpointStorage
lease = acquire(CheckpointStorage(sys.argv[1]), "the first")
print("held", flush=True)
sys.stdin.read()
lease.release()
"""


@pytest.fixture
def storage(tmp_path):
    return CheckpointStorage(str(tmp_path / "job"))


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


# A local file system


def test_a_second_driver_is_refused_and_told_who_runs_the_job(storage, holder):
    with pytest.raises(FencedError) as raised:
        acquire(storage, "the second")
    assert f"another driver runs this job: pid {holder.pid} on host" in raised.value.message
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
    with pytest.raises(FencedError, match=f"another driver runs this job: pid {holder.pid}"):
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
from penstock.checkpoint.storage import CheckpointStorage
lease = acquire(CheckpointStorage(sys.argv[1]), "the first")
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
    with pytest.raises(FencedError, match="has lost its job"):
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
    with pytest.raises(CheckpointError, match=r"\.lock'") as raised:
        acquire(storage, "job")
    assert not isinstance(raised.value, FencedError)
    assert hint in raised.value.hint


def test_a_file_in_the_place_of_the_directory_is_a_clean_error(storage, tmp_path):
    (tmp_path / "job").write_text("x")
    with pytest.raises(CheckpointError, match="could not lock") as raised:
        acquire(storage, "job")
    assert "File exists" in raised.value.detail


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
    assert "has no file locks" in caplog.text
    with pytest.raises(FencedError):
        acquire(storage, "job")
    lease.release()


def test_a_lease_that_is_stale_at_once_makes_no_sense(storage):
    with pytest.raises(ArgumentError, match="stale after 0"):
        acquire(storage, "job", stale_after_s=0)


# Storage without locks


class Time:
    """A clock that stands still, except when somebody sleeps; what happens meanwhile is given."""

    def __init__(self, meanwhile=lambda: None):
        self.now = 100.0
        self.meanwhile = meanwhile

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.meanwhile()


def remote_owner(name, host="far"):
    return LeaseOwner(name, host, 7, 0, name)


def claim(storage, name, meanwhile=lambda: None):
    time = Time(meanwhile)
    lease = HeartbeatLease.acquire(
        storage, remote_owner(name), beating=False, clock=time, sleep=time.sleep
    )
    heartbeat_lease._held.discard(name)  # the drivers of these tests are other processes
    lease.time = time
    return lease


def release(lease, **options):
    heartbeat_lease._held.add(lease.owner.token)
    lease.release(**options)


@pytest.fixture(params=["local", "arrow"])
def plain(request, tmp_path):
    """Storage as `HeartbeatLease` uses it, on a directory and on a file system of pyarrow."""
    return CheckpointStorage(str(tmp_path / "job") if request.param == "local" else "mock:///job")


def test_a_driver_that_lives_keeps_its_job(plain):
    first = claim(plain, "first")
    with pytest.raises(FencedError, match="another driver runs this job: pid 7 on host far"):
        claim(plain, "second", meanwhile=first.renew)
    first.check()
    assert len(plain.list("lease/")) == 1


def test_a_driver_that_is_silent_for_too_long_loses_its_job_and_notices(plain, caplog):
    first = claim(plain, "first")
    with caplog.at_level(logging.WARNING):
        second = claim(plain, "second")
    assert second.time.now >= 130
    assert "taking over the job" in caplog.text
    for action in (first.check, first.renew, first.check):
        with pytest.raises(FencedError, match="another driver has taken over this job"):
            action()
    second.check()
    release(first)
    second.check()


def test_a_driver_notices_the_next_one_before_that_has_tidied_up(plain):
    first = claim(plain, "first")
    plain.write_new("lease/00000002-second", b"{")
    with pytest.raises(FencedError):
        first.check()


def test_a_claim_with_the_same_number_is_taken_back_by_whoever_came_later(plain):
    first = claim(plain, "first")
    plain.write_new("lease/00000001-late", b"{")
    first.check()


def test_a_clock_that_differs_on_the_other_machine_does_not_matter(plain):
    first = claim(plain, "first")
    first.time.now -= 1e6
    with pytest.raises(FencedError):
        claim(plain, "second", meanwhile=first.renew)


def test_a_released_job_is_free_at_once_and_the_number_goes_on(plain):
    first = claim(plain, "first")
    release(first)
    with pytest.raises(FencedError):
        first.check()
    second = claim(plain, "second")
    assert second.time.now == 100
    with pytest.raises(FencedError):
        first.check()
    assert plain.list("lease/") == ["lease/00000002-second"]


def test_a_job_that_is_released_while_another_driver_waits_is_free(plain):
    first = claim(plain, "first")
    second = claim(plain, "second", meanwhile=lambda: release(first))
    assert second.time.now < 110


def test_a_forgotten_lease_leaves_no_trace(plain):
    lease = claim(plain, "first")
    release(lease, forget=True)
    assert plain.list() == []


def test_a_driver_of_this_machine_that_has_died_is_replaced_at_once(plain):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = LeaseOwner.here("first")
    first = LeaseOwner("first", here.host, gone.pid, 0, "first", here.machine)
    HeartbeatLease.acquire(plain, first, beating=False)
    heartbeat_lease._held.discard("first")
    assert claim(plain, "second").time.now == 100


def test_the_same_number_of_a_process_in_another_container_says_nothing(plain):
    first = LeaseOwner("first", "far", 2**22 + 1, 0, "first", "another machine")
    assert not first.is_gone
    assert LeaseOwner("first", "far", 2**22 + 1, 0, "first", "").is_gone is False


def test_a_process_without_locks_cannot_run_a_job_twice(plain):
    lease = HeartbeatLease.acquire(plain, LeaseOwner.here("job"), beating=False)
    time = Time()
    with pytest.raises(FencedError, match="another driver runs this job"):
        HeartbeatLease.acquire(plain, LeaseOwner.here("job"), clock=time, sleep=time.sleep)
    assert time.now == 100
    lease.release()


def test_a_claim_that_cannot_be_read_counts_as_one_that_lives_until_it_is_stale(plain):
    plain.write_new("lease/00000005-x", b"{")
    second = claim(plain, "second")
    assert second.time.now >= 130
    assert plain.list("lease/") == ["lease/00000006-second"]


def test_a_check_renews_a_claim_that_the_thread_did_not_come_to(plain):
    first = claim(plain, "first")
    (name,) = plain.list("lease/")
    before = plain.read(name)
    first.check()
    assert plain.read(name) == before
    first.time.now += 8
    first.check()
    assert json.loads(plain.read(name))["beats"] == 1


def test_a_lease_that_somebody_deleted_is_lost(plain):
    first = claim(plain, "first")
    plain.delete_tree("lease")
    with pytest.raises(FencedError, match="has lost its job"):
        first.check()


def test_a_thread_renews_a_lease_until_it_is_released(plain):
    renewed = threading.Event()
    lease = HeartbeatLease.acquire(plain, LeaseOwner.here("job"), stale_after_s=0.2)
    write = lease._storage.write_atomic

    class Watched:
        def __getattr__(self, name):
            return getattr(plain, name)

        def write_atomic(self, name, data):
            write(name, data)
            renewed.set()

    lease._storage = Watched()
    assert renewed.wait(10)
    lease.release()
    assert not lease._thread.is_alive()


# Any order of the steps of two or three drivers


class Steps:
    """Lets drivers that run in threads go on one call of storage at a time, in a given order."""

    def __init__(self, storage, order):
        self.storage = storage
        self.order = list(order)
        self.turn = threading.Condition()
        self.waiting: set[int] = set()
        self.running: set[int] = set()

    def enter(self, driver):
        with self.turn:
            self.waiting.add(driver)
            self.turn.notify_all()
            self.turn.wait_for(lambda: self.chosen() == driver)
            self.waiting.discard(driver)

    def leave(self, driver):
        with self.turn:
            if self.order:
                self.order.pop(0)
            self.turn.notify_all()

    def chosen(self):
        if self.waiting != self.running:  # somebody is between two calls
            return None
        wanted = self.order[0] if self.order else 0
        ordered = sorted(self.running)
        return ordered[wanted % len(ordered)] if ordered else None

    def finish(self, driver):
        with self.turn:
            self.running.discard(driver)
            self.turn.notify_all()


class Stepwise:
    """The storage of one driver: each call waits for its turn."""

    base = "job"

    def __init__(self, steps, driver):
        self._steps, self._driver = steps, driver

    def __getattr__(self, name):
        method = getattr(self._steps.storage, name)

        def call(*arguments):
            self._steps.enter(self._driver)
            try:
                return method(*arguments)
            finally:
                self._steps.leave(self._driver)

        return call


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=30), st.integers(2, 3))
def test_however_the_steps_of_drivers_mix_at_most_one_gets_the_job(order, drivers):
    steps = Steps(CheckpointStorage("mock:///job"), order)
    steps.running = set(range(drivers))
    got = []

    class Starting(HeartbeatLease):
        def _wait_for_the_holder(self):  # here nobody is ever stale
            if self._storage.list("lease/"):
                raise FencedError("held")
            return 0

    def run(driver):
        time = Time()
        lease = Starting(
            Stepwise(steps, driver), remote_owner(f"{driver}"), clock=time, sleep=time.sleep
        )
        try:
            lease._claim()
            got.append(lease)
        except FencedError:
            pass
        finally:
            steps.finish(driver)

    threads = [threading.Thread(target=run, args=(driver,)) for driver in range(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) <= 1
    for lease in got:
        lease._storage = steps.storage
        lease.check()


# The store of manifests


def test_a_fenced_driver_changes_nothing(tmp_path):
    store = ManifestStore(CheckpointStorage(str(tmp_path)), "job")
    store.acquire("job")
    store.write(manifest(1))
    store.write(manifest(2))
    store.storage.write_new("shared/1-a.state", b"x")
    (tmp_path / "job" / ".lock").write_bytes(remote_owner("other").encode())
    before = sorted(store.storage.list())
    for change in (
        lambda: store.write(manifest(3)),
        lambda: store.delete(1),
        lambda: store.delete_files(("shared/1-a.state",)),
        lambda: store.set_aside(2),
        store.delete_working_files,
        store.delete_all,
    ):
        with pytest.raises(FencedError, match="taken over"):
            change()
    assert sorted(store.storage.list()) == before
    store.release()


def test_a_second_store_is_refused_until_the_first_is_released(tmp_path):
    first, second = (ManifestStore(CheckpointStorage(str(tmp_path)), "job") for _ in range(2))
    first.acquire("job")
    with pytest.raises(FencedError):
        second.acquire("job")
    second.release()
    first.check_lease()
    first.release()
    second.acquire("job")
    second.release()
    ManifestStore(CheckpointStorage(str(tmp_path)), "job").release()


@pytest.mark.parametrize("kind", ["lock", "heartbeat"])
def test_deleting_all_of_a_job_deletes_its_lease_too(tmp_path, monkeypatch, kind):
    if kind == "heartbeat":
        monkeypatch.setattr(FileLock, "acquire", unsupported)
    store = ManifestStore(CheckpointStorage(str(tmp_path)), "job")
    store.acquire("job")
    store.write(manifest(1))
    store.storage.write_new("chk-2/_damaged", b"x")
    store.delete_all()
    store.release()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    store.acquire("job")
    store.release()


def unsupported(*_, **__):
    raise file_lock.LocksNotSupportedError(errno.ENOLCK, "no locks available")


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5))
def test_of_drivers_that_write_the_same_checkpoint_at_once_one_succeeds(tmp_path_factory, drivers):
    base = CheckpointStorage(str(tmp_path_factory.mktemp("race")), sync=False)
    barrier = threading.Barrier(drivers)

    def write(driver):
        store = ManifestStore(base, "job")
        mine = manifest(1, files=(f"shared/1-{driver}",))
        barrier.wait()
        try:
            store.write(mine)
        except CheckpointError as error:
            assert "exists already" in error.message  # noqa: PT017 - the other outcome is no failure
            return None
        return mine

    with ThreadPoolExecutor(drivers) as pool:
        written = [found for found in pool.map(write, range(drivers)) if found is not None]
    assert len(written) == 1
    assert ManifestStore(base, "job").latest() == written[0]
