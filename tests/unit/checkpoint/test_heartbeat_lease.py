"""Leases on storage without locks: claims with a heartbeat."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint import heartbeat_lease
from penstock.checkpoint.heartbeat_lease import HeartbeatLease, current_claim
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import FencedError
from tests.builders.examples import examples
from tests.builders.lease_builders import remote_owner


class Time:
    """A clock that stands still, except during a sleep; what happens meanwhile is given."""

    def __init__(self, meanwhile=lambda: None):
        self.now = 100.0
        self.meanwhile = meanwhile

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.meanwhile()


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
    return CheckpointFileSystem(
        str(tmp_path / "job") if request.param == "local" else "mock:///job"
    )


def test_a_driver_that_lives_keeps_its_job(plain):
    first = claim(plain, "first")
    with pytest.raises(FencedError, match="another driver is running this job: pid 7 on host far"):
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


def test_later_claim_with_the_same_number_is_withdrawn(plain):
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
    with pytest.raises(FencedError, match="another driver is running this job"):
        HeartbeatLease.acquire(plain, LeaseOwner.here("job"), clock=time, sleep=time.sleep)
    assert time.now == 100
    lease.release()


def test_a_process_cannot_run_a_job_twice_while_the_first_time_is_about_to_begin(plain):
    """One that asks just after the other has found that there is no other claim, and before it knows that it has it."""
    refusals = []

    class Slow:
        base = "job"

        def __getattr__(self, name):
            return getattr(plain, name)

        def list(self, prefix):
            found = plain.list(prefix)
            if found:  # its own claim is there
                with pytest.raises(
                    FencedError, match="another driver is running this job"
                ) as caught:
                    HeartbeatLease.acquire(plain, LeaseOwner.here("job"), beating=False)
                refusals.append(caught.value)
            return found

    lease = HeartbeatLease.acquire(Slow(), LeaseOwner.here("job"), beating=False)
    assert len(refusals) == 1
    lease.check()
    lease.release()
    HeartbeatLease.acquire(plain, LeaseOwner.here("job"), beating=False).release()


def test_a_process_that_is_giving_a_job_up_has_it_until_its_claim_says_so(plain):
    refusals = []

    class Slow:
        base = "job"

        def __getattr__(self, name):
            return getattr(plain, name)

        def write_atomic(self, name, data):
            with pytest.raises(FencedError, match="another driver is running this job") as caught:
                HeartbeatLease.acquire(plain, LeaseOwner.here("job"), beating=False)
            refusals.append(caught.value)
            plain.write_atomic(name, data)

    lease = HeartbeatLease.acquire(Slow(), LeaseOwner.here("job"), beating=False)
    lease.release()
    assert len(refusals) == 1
    HeartbeatLease.acquire(plain, LeaseOwner.here("job"), beating=False).release()


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


def test_deleted_lease_is_lost(plain):
    first = claim(plain, "first")
    plain.delete_tree("lease")
    with pytest.raises(FencedError, match="has lost the lease"):
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
    assert renewed.wait(60)
    lease.release()
    lease._thread.join(60)
    assert not lease._thread.is_alive()


def test_a_claim_that_was_taken_back_does_not_open_the_way_past_the_driver_that_runs(plain):
    """Two drivers claim the same number, one takes it back: a driver that saw only that one must wait for the other."""
    plain.write_new("lease/00000002-back", b"{}")
    running = []

    class Late:
        base = "job"

        def __getattr__(self, name):
            return getattr(plain, name)

        def read(self, name):
            if name.endswith("-back") and not running:
                plain.delete(name)
                running.append(claim(plain, "first"))
            return plain.read(name)

    with pytest.raises(FencedError, match="another driver is running this job"):
        claim(Late(), "second", meanwhile=lambda: running[0].renew())
    running[0].check()


def test_a_driver_that_renews_very_late_does_not_get_a_job_back_that_was_deleted(plain):
    first = claim(plain, "first")
    second = claim(plain, "second")
    assert second.contested
    release(second, forget=True)
    plain.write_atomic(first._claimed(), first._record())  # it stood still before this very call
    with pytest.raises(FencedError):
        first.check()


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b'{"owner": 7, "released": false}',
        b'{"owner": {"job": "j", "host": "h", "pid": 1e400, "started_ms": 0, "token": "t"}, "released": false}',
        b'{"owner": {"job": "j", "host": "h", "pid": -1, "started_ms": 0, "token": "t"}, "released": false}',
        b'{"owner": {"job": "j", "host": "h", "pid": 99999999999, "started_ms": 0, "token": "t"}, "released": false}',
        b'{"owner": {"job": "j", "host": "h", "pid": 1, "started_ms": 1e30, "token": "t"}, "released": false}',
    ],
)
def test_garbage_in_the_place_of_a_claim_is_waited_for_and_then_replaced(plain, garbage):
    plain.write_new("lease/00000005-x", garbage)
    lease = claim(plain, "first")
    assert lease.time.now >= 130
    assert plain.list("lease/") == ["lease/00000006-first"]


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
        if self.waiting != self.running:  # a driver is between two calls
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


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 2), max_size=30), st.integers(2, 3))
def test_however_the_steps_of_drivers_mix_at_most_one_gets_the_job(order, drivers):
    steps = Steps(CheckpointFileSystem("mock:///job"), order)
    steps.running = set(range(drivers))
    got = []

    class Starting(HeartbeatLease):
        def wait_for_the_holder(self):  # here no claim is ever stale
            if self._storage.list("lease/"):
                raise FencedError("held")
            return frozenset()

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
        thread.join(60)
    assert len(got) <= 1
    for lease in got:
        lease._storage = steps.storage
        lease.check()


def test_a_claim_counts_as_renewed_from_before_its_renewal_was_sent(plain):
    """Others count from when they saw it first, which may be before storage has answered."""
    lease = claim(plain, "first")

    class Slow:
        def __getattr__(self, name):
            return getattr(plain, name)

        def write_atomic(self, name, data):
            plain.write_atomic(name, data)
            lease.time.now += 5

    lease._storage = Slow()
    lease.time.now = 200.0
    lease.renew()
    assert (lease.renewed_at, lease.time.now) == (200.0, 205.0)


def test_the_claim_of_a_process_that_has_ended_is_not_current(plain):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = LeaseOwner.here("first")
    first = LeaseOwner("first", here.host, gone.pid, 0, "first", here.machine)
    HeartbeatLease.acquire(plain, first, beating=False)
    assert current_claim(plain) == 1, "this process holds it"
    heartbeat_lease._held.discard("first")
    assert current_claim(plain) is None
    second = claim(plain, "second")
    assert current_claim(plain) == second.number == 2
    release(second)
    assert current_claim(plain) is None
