"""Jobs in threads that ask the ResourceManager for slots."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.errors import JobCancelledError
from penstock.graph.stage import SlotDemand
from penstock.jobmanager.modes import InsufficientSlotsError
from penstock.jobmanager.resources.resource_manager import ResourceManager
from tests.builders.conditions import ManualCondition
from tests.builders.waiting import wait_until


def never():
    return False


def demand(job: str, slots: int, **more):
    return SlotDemand(job, f"job {job}", slots, **more)


@pytest.fixture
def manager():
    return ResourceManager()


@pytest.fixture
def changes():
    return ManualCondition()


@pytest.fixture
def manager_on_its_own_clock(changes):
    return ResourceManager(changes.clock, changes)


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_a_job_that_needs_more_than_there_are_is_refused_at_once_with_the_numbers(
    manager_on_its_own_clock, changes
):
    manager = manager_on_its_own_clock
    with pytest.raises(
        InsufficientSlotsError, match="needs 5 slots to run in pipelined mode, but Spark has 4"
    ):
        manager.acquire(demand("a", 5), lambda: 4, never)
    assert changes.waits == 0
    assert manager.use().waiting == 0


def test_a_job_waits_for_executors_that_are_on_their_way(manager):
    totals = iter([0, 2, 4])

    assert manager.acquire(demand("a", 4), lambda: next(totals), never, arriving_s=30) == 4


def test_a_job_waits_for_as_long_as_a_cluster_has_no_executors(manager_on_its_own_clock, changes):
    began = changes.now

    def total():
        return 4 if changes.now - began > 3600 else 0

    manager = manager_on_its_own_clock
    wanted = demand("a", 4, waits=False)
    assert manager.acquire(wanted, total, never, arriving_s=30) == 4
    assert changes.now - began > 3600


def test_a_timeout_ends_the_wait_for_a_cluster_without_executors(manager_on_its_own_clock):
    with pytest.raises(InsufficientSlotsError, match="but Spark has 0 after 40 s"):
        manager_on_its_own_clock.acquire(
            demand("a", 4, timeout_s=40), lambda: 0, never, arriving_s=30
        )


def test_a_job_waits_until_others_have_ended(manager, threads):
    manager.acquire(demand("a", 3), lambda: 4, never)
    waiting = threads.submit(manager.acquire, demand("b", 2), lambda: 4, never)
    wait_until(lambda: manager.use().waiting == 1)
    assert not waiting.done()

    manager.release("a")

    assert waiting.result(60) == 2


def test_after_the_timeout_a_job_is_refused_with_who_holds_what(manager_on_its_own_clock, changes):
    manager = manager_on_its_own_clock
    manager.acquire(demand("a", 3), lambda: 4, never)
    began = changes.now

    with pytest.raises(
        InsufficientSlotsError, match=r"needs 2 slots .* only 1 of Spark's 4 are free after 2 s"
    ) as refusal:
        manager.acquire(demand("b", 2, timeout_s=2), lambda: 4, never)

    assert changes.now - began == pytest.approx(2, abs=0.11)  # it looks ten times a second

    assert "allocated to 'job a' 3" in str(refusal.value)
    assert manager.use().waiting == 0


def test_with_a_timeout_a_job_waits_for_a_cluster_to_grow(manager_on_its_own_clock, changes):
    sizes = iter([2, 2, 2, 4])

    assert (
        manager_on_its_own_clock.acquire(demand("a", 4, timeout_s=20), lambda: next(sizes), never)
        == 4
    )
    assert changes.waits == 3


def test_a_job_that_can_do_otherwise_does_not_wait(manager_on_its_own_clock, changes):
    manager = manager_on_its_own_clock
    manager.acquire(demand("a", 3), lambda: 4, never)

    with pytest.raises(InsufficientSlotsError):
        manager.acquire(demand("b", 2, waits=False), lambda: 4, never)
    assert changes.waits == 0


def test_a_job_that_is_cancelled_while_it_waits_is_in_nobodys_way(manager, threads):
    manager.acquire(demand("a", 3), lambda: 4, never)
    cancelled = threading.Event()
    waiting = threads.submit(manager.acquire, demand("b", 4), lambda: 4, cancelled.is_set)
    wait_until(lambda: manager.use().waiting == 1)
    cancelled.set()

    with pytest.raises(JobCancelledError):
        waiting.result(60)
    assert manager.acquire(demand("c", 1), lambda: 4, never) == 1


def test_a_job_in_epochs_needs_no_cluster_while_no_job_holds_slots(manager):
    assert manager.share_at_once(demand("a", 0))
    assert not manager.share_at_once(demand("b", 1))
    manager.acquire(demand("b", 1), lambda: 2, never)
    assert not manager.share_at_once(demand("c", 0))


def test_it_is_full_when_stages_hold_all(manager):
    assert not manager.is_full(2)
    manager.acquire(demand("a", 2), lambda: 2, never)
    assert manager.in_use
    assert manager.is_full(2)
    assert not manager.is_full(3)


def test_many_jobs_get_their_turn_and_never_more_than_there_is(manager, threads):
    most = 0

    def live(number):
        nonlocal most
        manager.acquire(demand(str(number), 1 + number % 3), lambda: 3, never)
        most = max(most, sum(manager.use().held.values()))
        manager.release(str(number))
        return True

    assert all(threads.map(live, range(24)))
    assert most <= 3
    assert not manager.in_use
