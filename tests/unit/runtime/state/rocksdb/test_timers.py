"""Timers in the database, step by step: every way in which a timer comes, goes, or is read again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.state.rocksdb import timers as timers_module
from penstock.windowing import TimeWindow
from tests.builders.examples import examples
from tests.unit.runtime.state.worlds import MAX_PARALLELISM, World, contents

NAME = "timers/event"
FIRST, LAST = -(2**63), 2**63 - 1


def queue_of(world):
    return world.backend.create_timer_queue(NAME)


def fire(queue, limit, then=None):
    fired = []

    def on_timer(*timer):
        fired.append(timer)
        if then is not None:
            then(*timer)

    queue.fire_until(limit, on_timer)
    return fired


def stored(world, timers):
    """Write timers to the database and return the queue."""
    queue = queue_of(world)
    for time, key in timers:
        queue.register(time, key, None)
    world.barrier()
    return queue


@pytest.mark.parametrize("lose_local", [None, False, True], ids=["goes on", "local", "storage"])
@pytest.mark.parametrize("time", [FIRST, -1, 0, LAST], ids=["first", "-1", "0", "last"])
def test_a_timer_at_either_end_of_time_fires(world, time, lose_local):
    queue = stored(world, [(time, "k")])
    if lose_local is not None:
        world.crash(lose_local=lose_local)
        queue = queue_of(world)
    assert queue.next_time() == time
    assert len(queue) == 1
    if time > FIRST:
        assert fire(queue, time - 1) == []
    assert fire(queue, time) == [(time, "k", None)]
    assert queue.next_time() is None
    world.barrier()
    assert NAME not in contents(world.backend)


def test_timers_at_the_end_of_time_follow_their_key_groups(world):
    queue = stored(world, [(LAST, f"k{n}") for n in range(20)])
    assert len(queue) == 20
    parts = [world.rescaled([world.chain], subtask, 2) for subtask in range(2)]
    fired = [fire(part.create_timer_queue(NAME), LAST) for part in parts]
    assert all(fired)
    assert sorted(key for part in fired for _, key, _ in part) == sorted(f"k{n}" for n in range(20))
    for part in parts:
        part.close()


def test_a_timer_is_one_however_often_and_wherever_it_was_registered(world):
    queue = stored(world, [(5, "k"), (5, "k")])
    queue.register(5, "k", None)
    assert len(queue) == 1
    assert list(queue_entries(world)) == [("k", (None, 5))]
    assert fire(queue, 5) == [(5, "k", None)]
    assert fire(queue, 5) == []
    world.barrier()
    world.crash()
    assert fire(queue_of(world), 5) == []


def queue_entries(world):
    return [entry for entry, _ in world.backend.table(NAME, namespaced=True).items()]


@pytest.mark.parametrize("again", [False, True], ids=["gone", "registered again"])
@pytest.mark.parametrize("where", ["in memory", "in the database", "in both"])
def test_a_deleted_timer_does_not_fire(world, where, again):
    queue = stored(world, [(5, "k"), (6, "other")] if where != "in memory" else [(6, "other")])
    if where != "in the database":
        queue.register(5, "k", None)
    assert queue.next_time() == 5
    queue.delete(5, "k", None)
    assert queue.next_time() == 6
    assert queue_entries(world) == [("other", (None, 6))]
    if again:
        queue.register(5, "k", None)
        assert queue.next_time() == 5
    world.barrier()
    world.crash()
    expected = [(5, "k", None)] if again else []
    assert fire(queue_of(world), 9) == [*expected, (6, "other", None)]


def test_a_timer_that_fires_may_register_one_that_is_due_before_the_others(world):
    queue = stored(world, [(10, "a"), (20, "b")])

    def then(time, key, namespace):
        if key == "a":
            queue.register(3, "late", None)
            queue.register(15, "between", None)

    assert fire(queue, 20, then) == [
        (10, "a", None),
        (3, "late", None),
        (15, "between", None),
        (20, "b", None),
    ]
    world.barrier()
    world.crash()
    assert queue_of(world).next_time() is None


def test_a_timer_that_fires_may_register_itself_again(world):
    queue = stored(world, [(10, "a")])
    times = iter([True, False])

    def then(time, key, namespace):
        if next(times):
            queue.register(time, key, namespace)

    assert fire(queue, 10, then) == [(10, "a", None)] * 2
    assert len(queue) == 0


def test_a_timer_that_fires_may_delete_the_next(world):
    queue = stored(world, [(10, "a"), (10, "b"), (11, "c")])
    assert len(fire(queue, 11, lambda *_: [queue.delete(10, k, None) for k in "ab"])) == 2
    assert len(queue) == 0


def test_timers_come_from_memory_and_database_in_one_order(world):
    queue = stored(world, [(time, f"s{time}") for time in (10, 30, 50)])
    for time in (20, 40, 60):
        queue.register(time, f"m{time}", None)
    assert [time for time, _, _ in fire(queue, 45)] == [10, 20, 30, 40]
    assert queue.next_time() == 50
    assert [time for time, _, _ in fire(queue, 60)] == [50, 60]


@pytest.mark.parametrize("count", [31, 32, 33, 1024 + 32, 1024 + 33, 2 * 1024 + 32])
def test_more_timers_than_are_read_at_once_all_fire_once(rocks, count):
    queue = stored(rocks, [(time, time) for time in range(count)])
    assert queue.next_time() == 0
    assert [time for time, _, _ in fire(queue, count)] == list(range(count))
    assert queue.next_time() is None
    rocks.barrier()
    rocks.crash()
    assert len(queue_of(rocks)) == 0


def test_timers_are_read_ahead_more_at_a_time_when_the_first_were_not_enough(rocks, monkeypatch):
    queue = stored(rocks, [(time, time) for time in range(3_000)])
    reads = []
    original = type(queue)._decode
    monkeypatch.setattr(type(queue), "_decode", lambda *a: reads.append(1) or original(*a))
    counts = []
    for limit in (0, 31, 32):
        fire(queue, limit)
        counts.append(len(reads))
    few, many = timers_module._FEW, timers_module._MANY
    assert counts == [few, few + many, few + many]
    rocks.barrier()
    reads.clear()
    assert queue.next_time() == 33
    assert len(reads) == few  # a new epoch begins with a few


def test_an_earlier_timer_that_came_after_a_look_ahead_is_first_after_a_barrier(rocks):
    queue = stored(rocks, [(time, time) for time in range(100, 200)])
    assert queue.next_time() == 100
    queue.register(50, "early", None)
    rocks.barrier()
    assert queue.next_time() == 50
    assert [time for time, _, _ in fire(queue, 101)] == [50, 100, 101]


def test_a_later_timer_is_found_although_all_others_had_fired(rocks):
    queue = stored(rocks, [(1, "a")])
    fire(queue, 1)
    rocks.barrier()
    assert queue.next_time() is None
    queue.register(5, "b", None)
    assert queue.next_time() == 5
    rocks.barrier()
    assert queue.next_time() == 5
    rocks.crash()
    assert fire(queue_of(rocks), 5) == [(5, "b", None)]


def test_barrier_without_changes_keeps_prefetched_timers(rocks):
    queue = stored(rocks, [(time, time) for time in range(5)])
    assert queue.next_time() == 0
    rocks.barrier()
    assert [time for time, _, _ in fire(queue, 9)] == [0, 1, 2, 3, 4]


def test_one_timer_of_a_table_is_looked_up_in_memory_and_in_the_database(world):
    table = world.backend.table(NAME, namespaced=True)
    entry = ("k", ("window", 5))
    assert table.get(entry) is None
    assert table.get(entry, "none") == "none"
    table.put(entry, True)
    assert table.get(entry) is True
    world.barrier()
    assert table.get(entry) is True
    assert table.get(("k", (None, 5))) is None
    table.remove(entry)
    assert table.get(entry) is None
    world.barrier()
    assert table.get(entry) is None


KEYS = [True, 1.0, "text", b"\xff\xff", ("t", 1), None, frozenset({1}), TimeWindow(0, LAST)]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_keys_and_windows_come_back_as_the_objects_they_were(world, key):
    queue = queue_of(world)
    queue.register(5, key, None)
    queue.register(6, "k", key)
    world.barrier()
    world.crash(lose_local=True)
    found = fire(queue_of(world), 9)
    assert [(time, repr(who), repr(what)) for time, who, what in found] == [
        (5, repr(key), "None"),
        (6, "'k'", repr(key)),
    ]


def test_timers_count_as_long_as_they_are_kept_as_objects(tmp_path):
    world = World("rocksdb", tmp_path, spill_entries=10)
    queue = queue_of(world)
    assert queue.pending() == 0
    for time in range(8):
        queue.register(time, time, None)
    assert queue.pending() == 8
    world.backend.trim_cache()
    assert queue.pending() == 8
    for time in range(8, 11):
        queue.register(time, time, None)
    world.backend.trim_cache()
    assert queue.pending() == 0  # written early
    for time in range(3):
        queue.delete(time, time, None)
    assert queue.pending() == 3
    assert len(queue) == 8
    world.backend.close()


def test_timers_of_another_backend_are_taken_over(world):
    queue = stored(world, [(LAST, "a"), (5, "b"), (6, "gone"), (1, "fired")])
    assert fire(queue, 1) == [(1, "fired", None)]
    queue.delete(6, "gone", None)
    world.barrier()
    other = "hashmap" if world.kind == "rocksdb" else "rocksdb"
    backend = world.create(kind=other)
    assert backend.restore(world.io, (world.chain,), None, MAX_PARALLELISM) is None
    assert fire(backend.create_timer_queue(NAME), LAST) == [(5, "b", None), (LAST, "a", None)]
    backend.close()


TIMES = st.sampled_from([FIRST, 0, 1, 2, LAST])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["register", "delete"]), TIMES, st.sampled_from("ab")),
    st.tuples(st.just("fire"), TIMES),
    st.tuples(st.sampled_from(["barrier", "trim_cache", "crash"])),
)


@settings(max_examples=examples(60))
@given(st.lists(STEPS, max_size=25))
def test_any_use_equals_a_set_of_timers(steps):
    with tempfile.TemporaryDirectory() as directory:
        world = World("rocksdb", Path(directory), spill_entries=2)
        queue, model, kept = queue_of(world), set(), set()
        for name, *args in steps:
            match name:
                case "register":
                    queue.register(*args, None)
                    model.add((*args, None))
                case "delete":
                    queue.delete(*args, None)
                    model.discard((*args, None))
                case "fire":
                    fired = fire(queue, *args)
                    due = {timer for timer in model if timer[0] <= args[0]}
                    assert [timer[0] for timer in fired] == sorted(timer[0] for timer in due)
                    assert set(fired) == due
                    model -= due
                case "barrier":
                    world.barrier()
                    kept = set(model)
                case "trim_cache":
                    world.backend.trim_cache()
                case "crash":
                    world.crash()
                    queue, model = queue_of(world), set(kept)
            assert queue.next_time() == min((timer[0] for timer in model), default=None)
            assert len(queue) == len(model)
        world.backend.close()
