"""Who gets slots, and when: the pure core of the ResourceManager."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobmanager.resources.slot_pool import SlotPool, SlotRequest


def pool_of(total: int, **held: int) -> SlotPool:
    pool = SlotPool()
    pool.total = total
    for job, slots in held.items():
        ask(pool, job, slots)
        assert pool.try_grant(job) == slots
    return pool


def ask(pool: SlotPool, job: str, slots: int, preferred: int = 0) -> None:
    pool.ask(SlotRequest(job, f"job {job}", slots, preferred))


def test_a_job_gets_what_it_asks_for():
    pool = pool_of(4)
    ask(pool, "a", 3)

    assert pool.try_grant("a") == 3
    assert pool.use().held == {"a": 3}
    assert pool.use().free == 1


@pytest.mark.parametrize(
    ("free", "preferred", "granted"),
    [(4, 6, 4), (8, 6, 6), (4, 0, 3)],
    ids=["as many as there are", "as many as it prefers", "as many as it needs"],
)
def test_spare_slots_go_to_jobs_that_prefer_more(free, preferred, granted):
    pool = pool_of(free)
    ask(pool, "a", 3, preferred)

    assert pool.try_grant("a") == granted


def test_while_others_wait_a_job_gets_no_more_than_it_needs():
    pool = pool_of(8)
    ask(pool, "a", 2, 6)
    ask(pool, "b", 2)

    assert pool.try_grant("a") == 2


def test_a_job_waits_while_others_hold_what_it_needs():
    pool = pool_of(4, a=3)
    ask(pool, "b", 2)
    assert pool.try_grant("b") is None
    assert pool.could_fit("b")

    pool.release("a")
    assert pool.try_grant("b") == 2


def test_a_small_job_does_not_overtake_a_large_one():
    pool = pool_of(4, a=2)
    ask(pool, "large", 4)
    ask(pool, "small", 1)

    assert pool.try_grant("small") is None
    pool.release("a")
    assert pool.try_grant("small") is None
    assert pool.try_grant("large") == 4


def test_what_can_never_be_granted_is_in_nobodys_way():
    pool = pool_of(4)
    ask(pool, "too large", 5)
    ask(pool, "small", 1)

    assert not pool.could_fit("too large")
    assert pool.try_grant("small") == 1


def test_a_job_that_wants_more_waits_for_those_that_have_nothing():
    pool = pool_of(4, a=2)
    ask(pool, "a", 4)
    ask(pool, "b", 2)

    assert pool.try_grant("a") is None
    assert pool.try_grant("b") == 2
    assert pool.use().held == {"a": 2, "b": 2}


def test_a_job_that_asks_again_keeps_its_place_and_what_it_holds():
    pool = pool_of(4, a=3)
    ask(pool, "b", 2)
    ask(pool, "c", 1)
    ask(pool, "b", 1)

    assert pool.try_grant("c") is None
    assert pool.try_grant("b") == 1


@pytest.mark.parametrize("slots", [2, 1, 0], ids=["as many", "fewer", "to share"])
def test_a_job_that_asks_for_no_more_than_it_has_does_not_wait(slots):
    pool = pool_of(2, a=2)
    ask(pool, "b", 2)
    ask(pool, "a", slots)

    assert pool.try_grant("a") == slots


def test_jobs_in_epochs_share_one_slot_that_other_jobs_do_not_get():
    pool = pool_of(3, a=1)
    for job in ("b", "c"):
        ask(pool, job, 0)
        assert pool.try_grant(job) == 0
    ask(pool, "d", 2)

    assert pool.use().free == 1
    assert pool.try_grant("d") is None
    pool.release("b")
    assert pool.try_grant("d") is None
    pool.release("c")
    assert pool.try_grant("d") == 2


def test_a_job_in_epochs_waits_if_all_slots_are_held():
    pool = pool_of(2, a=2)
    ask(pool, "b", 0)

    assert pool.try_grant("b") is None
    pool.release("a")
    assert pool.try_grant("b") == 0


def test_a_job_goes_from_sharing_to_holding_and_back():
    pool = pool_of(2)
    ask(pool, "a", 0)
    pool.try_grant("a")
    ask(pool, "a", 2)
    assert pool.try_grant("a") == 2
    assert not pool.use().sharing
    ask(pool, "a", 0)
    assert pool.try_grant("a") == 0
    assert not pool.use().held


def test_the_holders_of_slots_are_named():
    pool = pool_of(6, a=3, b=2)
    ask(pool, "c", 0)
    pool.try_grant("c")

    assert pool.holders("b") == "'job a' 3, 'job c' in epoch mode 1"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "grant", "release", "withdraw", "total"]),
        st.sampled_from("abcd"),
        st.integers(0, 6),
        st.integers(0, 6),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_slot_is_ever_given_to_two_jobs(steps):
    pool = pool_of(5)
    waiting = set()
    for what, job, number, more in steps:
        before = pool.use()
        match what:
            case "ask":
                ask(pool, job, number, more)
                waiting.add(job)
            case "grant" if job in waiting and pool.try_grant(job) is not None:
                waiting.discard(job)
                use = pool.use()
                held = sum(use.held.values()) + bool(use.sharing)
                assert held <= max(pool.total, sum(before.held.values()) + bool(before.sharing))
            case "release" | "withdraw":
                getattr(pool, what)(job)
                waiting.discard(job)
            case "total":
                pool.total = number


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 5)), max_size=12))
def test_every_request_that_can_be_granted_is_granted_in_the_end(wanted):
    pool, waiting = pool_of(5), {}
    for job, slots in wanted:
        ask(pool, job, slots)
        waiting[job] = slots
    for _ in range(len(waiting)):
        granted = [job for job in waiting if pool.try_grant(job) is not None]
        for job in granted:
            del waiting[job]
            pool.release(job)
    assert waiting == {}
