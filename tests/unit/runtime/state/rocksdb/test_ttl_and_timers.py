"""State that expires, and timers, where the database keeps them."""

from __future__ import annotations

import random

import pytest

from penstock.runtime.state.rocksdb.key_codec import order_of
from penstock.runtime.time.timers import TimerManager
from penstock.state_descriptors.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.time.durations import Duration
from tests.unit.runtime.state.worlds import World, contents


def expiring(descriptor, **settings):
    builder = StateTtlConfig.new_builder(Duration.of_millis(100))
    for name in settings:
        getattr(builder, name)()
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def stored_keys(world, table):
    return len(list(world.backend.table(table).stored()))


def test_expired_values_are_gone_for_readers(world):
    state = world.backend.get_state(expiring(ValueStateDescriptor("v")))
    world.backend.current_key = "k"
    state.update(1)
    world.barrier()
    world.clock.advance(99)
    assert state.value() == 1
    world.clock.advance(1)
    assert state.value() is None


def test_items_of_a_map_expire_one_by_one(world):
    state = world.backend.get_state(expiring(MapStateDescriptor("m")))
    world.backend.current_key = "k"
    state.put("old", 1)
    world.barrier()
    world.clock.advance(60)
    state.put("new", 2)
    world.barrier()
    world.clock.advance(60)
    assert state.items() == [("new", 2)]
    assert not state.contains("old")
    assert not state.is_empty()
    world.clock.advance(60)
    assert state.is_empty()


def test_reading_prolongs_where_it_is_asked_to(world):
    descriptor = expiring(MapStateDescriptor("m"), update_ttl_on_read_and_write=True)
    state = world.backend.get_state(descriptor)
    world.backend.current_key = "k"
    state.put("a", 1)
    world.barrier()
    for _ in range(3):
        world.clock.advance(80)
        assert state.get("a") == 1
        world.barrier()


def test_unread_expired_entries_are_removed_gradually(rocks):
    value = rocks.backend.get_state(expiring(ValueStateDescriptor("v")))
    items = rocks.backend.get_state(expiring(MapStateDescriptor("m")))
    elements = rocks.backend.get_state(expiring(ListStateDescriptor("l")))
    for key in range(350):
        rocks.backend.current_key = key
        value.update(1)
        items.put("a", 1)
        elements.add(1)
    rocks.barrier()
    rocks.clock.advance(100)
    names = ("state/v", "state/m", "state/l")
    left = [[stored_keys(rocks, name) for name in names]]
    for _ in range(5):
        rocks.barrier()
        left.append([stored_keys(rocks, name) for name in names])
    assert left == [[n] * 3 for n in (350, 250, 150, 50, 0, 0)]


def test_expired_entries_are_looked_for_as_fast_in_epochs_that_write_early(tmp_path):
    world = World("rocksdb", tmp_path, spill_entries=50)
    state = world.backend.get_state(expiring(ValueStateDescriptor("v")))
    for checkpoint_id in range(2):
        for key in range(1_000):
            world.backend.current_key = (checkpoint_id, key)
            state.update("x")
            world.backend.trim_cache()
        world.barrier()
        world.clock.advance(100 * (checkpoint_id == 0))
    assert stored_keys(world, "state/v") == 1_000
    world.backend.close()


def test_the_search_for_expired_entries_goes_on_after_a_restore(rocks):
    def write(keys):
        state = rocks.backend.get_state(expiring(ValueStateDescriptor("v")))
        for key in keys:
            rocks.backend.current_key = key
            state.update(1)
        rocks.barrier()

    write(range(250))
    rocks.clock.advance(50)
    in_order = sorted(range(250), key=rocks.backend.table("state/v").encode_entry)
    write(in_order[:120])
    rocks.clock.advance(60)
    for _ in range(4):
        write(in_order[:1])
        rocks.crash()
    assert stored_keys(rocks, "state/v") == 120


def test_without_cleanup_expired_entries_stay_until_they_are_read(rocks):
    descriptor = expiring(ValueStateDescriptor("v"), disable_cleanup_in_background=True)
    state = rocks.backend.get_state(descriptor)
    rocks.backend.current_key = "k"
    state.update(1)
    rocks.barrier()
    rocks.clock.advance(100)
    rocks.barrier()
    assert stored_keys(rocks, "state/v") == 1
    assert state.value() is None
    rocks.barrier()
    assert stored_keys(rocks, "state/v") == 0


def test_a_full_snapshot_has_no_expired_entries(world):
    state = world.backend.get_state(expiring(MapStateDescriptor("m")))
    world.backend.current_key = "k"
    state.put("old", 1)
    world.clock.advance(60)
    state.put("new", 2)
    world.clock.advance(60)
    assert contents(world.backend)["state/m"] == {"k": {"new": (2, 1060)}}


# Timers


def fire(timers, limit):
    fired = []
    timers.advance_watermark(limit, lambda *timer: fired.append(timer))
    return fired


@pytest.mark.parametrize("lose_local", [False, True], ids=["local copy", "from storage"])
def test_timers_survive_and_fire_in_time_order(world, lose_local):
    timers = TimerManager(world.backend)
    for time in (30, 10, 20, 2**40, -5):
        timers.event.register(time, f"k{time}", None)
    world.barrier()
    world.crash(lose_local=lose_local)
    timers = TimerManager(world.backend)
    timers.event.register(15, "new", "window")
    assert timers.event.next_time() == -5
    assert len(timers.event) == 6
    assert fire(timers, 20) == [
        (-5, "k-5", None),
        (10, "k10", None),
        (15, "new", "window"),
        (20, "k20", None),
    ]
    world.barrier()
    world.crash(lose_local=lose_local)
    timers = TimerManager(world.backend)
    assert fire(timers, 2**50) == [(30, "k30", None), (2**40, f"k{2**40}", None)]


def test_a_timer_in_the_past_that_was_registered_after_later_ones_fired_is_found(world):
    timers = TimerManager(world.backend)
    timers.event.register(100, "a", None)
    world.barrier()
    assert fire(timers, 100) == [(100, "a", None)]
    world.barrier()
    timers.event.register(50, "late", None)
    world.barrier()
    world.crash()
    assert fire(TimerManager(world.backend), 100) == [(50, "late", None)]


def test_firing_a_few_of_many_timers_reads_a_few(rocks, monkeypatch):
    queue = rocks.backend.create_timer_queue("timers/event")
    for time in range(5000):
        queue.register(time, time, None)
    rocks.barrier()
    read = []
    original = type(queue)._decode
    monkeypatch.setattr(type(queue), "_decode", lambda *args: read.append(1) or original(*args))
    rocks.crash()
    timers = TimerManager(rocks.backend)
    assert len(fire(timers, 9)) == 10
    rocks.barrier()
    assert len(read) < 100
    assert timers.event.next_time() == 10


def test_timers_that_have_fired_are_not_passed_by_again(rocks):
    queue = rocks.backend.create_timer_queue("timers/event")
    for time in range(1000):
        queue.register(time, time, None)
    rocks.barrier()
    fired = []
    queue.fire_until(899, lambda *timer: fired.append(timer))
    rocks.barrier()
    assert len(fired) == 900
    rocks.crash()
    queue = rocks.backend.create_timer_queue("timers/event")
    assert queue._position == queue.prefix + order_of(900)
    assert queue.next_time() == 900


def test_timers_that_fire_all_at_once_do_not_keep_all_they_touch_in_memory(tmp_path):
    world = World("rocksdb", tmp_path, spill_entries=1_000)
    queue = world.backend.create_timer_queue("timers/event")
    for time in range(10_000):
        queue.register(time, time, None)
    world.barrier()
    state = world.backend.get_state(ValueStateDescriptor("count"))
    kept = []

    def fire_one(time, key, namespace):
        world.backend.current_key = key
        state.update(time)
        kept.append(world.backend.table("state/count").pending() + queue.pending())

    queue.fire_until(10_000, fire_one)
    assert len(kept) == 10_000
    assert max(kept) < 4_000
    world.barrier()
    world.crash(lose_local=True)
    found = contents(world.backend)
    assert found["state/count"] == {time: time for time in range(10_000)}
    assert "timers/event" not in found
    world.backend.close()


def test_space_of_expired_state_is_free_again(rocks):
    state = rocks.backend.get_state(expiring(ValueStateDescriptor("v")))
    noise = random.Random(0)
    for key in range(2_000):
        rocks.backend.current_key = key
        state.update(noise.randbytes(100))
    rocks.barrier()
    full = rocks.chain.size
    rocks.clock.advance(100)
    for _ in range(30):
        for key in range(100):
            rocks.backend.current_key = ("other", key)
            state.update(noise.randbytes(100))
        rocks.clock.advance(10)
        rocks.barrier()
    rocks.backend.store.compact()  # it comes about by itself, after some more epochs
    state.update("x")
    rocks.barrier()
    assert rocks.chain.size < full / 4
    assert len(contents(rocks.backend)["state/v"]) == 100
