"""Timers: order, once, delete, register while firing, restore."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ArgumentTypeError
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.runtime.time.timers import KeyedTimerService, TimerManager


def queue_of(timers=()):
    queue = HashMapKeyedStateBackend(lambda: 0).create_timer_queue("timers")
    for timer in timers:
        queue.register(*timer)
    return queue


def fire(queue, limit):
    fired = []
    queue.fire_until(limit, lambda *timer: fired.append(timer))
    return fired


def test_timers_fire_in_time_order_up_to_the_limit():
    queue = queue_of([(30, "a", None), (10, "b", None), (20, "a", None)])
    assert fire(queue, 9) == []
    assert fire(queue, 20) == [(10, "b", None), (20, "a", None)]
    assert fire(queue, 100) == [(30, "a", None)]
    assert fire(queue, 100) == []


def test_a_timer_that_is_registered_twice_fires_once():
    queue = queue_of([(10, "a", None), (10, "a", None), (10, "a", "window"), (10, "b", None)])
    assert len(queue) == 3
    assert fire(queue, 10) == [(10, "a", None), (10, "a", "window"), (10, "b", None)]


def test_a_timer_that_has_fired_may_be_registered_again():
    queue = queue_of([(10, "a", None)])
    assert fire(queue, 10) == [(10, "a", None)]
    queue.register(10, "a", None)
    assert fire(queue, 10) == [(10, "a", None)]


def test_a_deleted_timer_does_not_fire():
    queue = queue_of([(10, "a", None), (10, "b", None), (20, "a", None)])
    queue.delete(10, "a", None)
    queue.delete(99, "a", None)
    queue.delete(10, "nobody", None)
    assert queue.next_time() == 10
    assert fire(queue, 20) == [(10, "b", None), (20, "a", None)]
    assert queue.next_time() is None


def test_deleting_the_only_timer_of_a_time_moves_the_next_time():
    queue = queue_of([(10, "a", None), (20, "a", None)])
    queue.delete(10, "a", None)
    assert queue.next_time() == 20
    queue.register(10, "a", None)
    assert queue.next_time() == 10


def test_timers_registered_while_firing_fire_in_their_order():
    queue = queue_of([(10, "a", None), (10, "b", None), (20, "a", None)])
    fired = []

    def on_timer(timestamp, key, namespace):
        fired.append((timestamp, key))
        if (timestamp, key) == (10, "a"):
            queue.register(5, "late", None)  # before the rest of the same time
            queue.register(15, "between", None)
            queue.register(99, "after", None)
            queue.delete(20, "a", None)

    queue.fire_until(50, on_timer)
    assert fired == [(10, "a"), (5, "late"), (10, "b"), (15, "between")]
    assert queue.next_time() == 99


def test_a_timer_may_delete_another_of_the_same_time():
    queue = queue_of([(10, "a", None), (10, "b", None)])
    fired = []

    def on_timer(timestamp, key, namespace):
        fired.append(key)
        queue.delete(10, "b", None)

    queue.fire_until(10, on_timer)
    assert fired == ["a"]


def restored(backend):
    deltas = pickle.loads(pickle.dumps(backend.snapshot()))
    other = HashMapKeyedStateBackend(lambda: 0)
    other.apply(deltas)
    return other


def test_pending_timers_survive_a_restore_and_fired_ones_do_not_return():
    backend = HashMapKeyedStateBackend(lambda: 0)
    manager = TimerManager(backend)
    for time in (10, 20, 30):
        manager.event.register(time, "a", None)
        manager.processing.register(time, "a", None)
    manager.advance_watermark(10, lambda *timer: None)
    manager = TimerManager(restored(backend))
    fired = []
    manager.advance_watermark(100, lambda *timer: fired.append(timer))
    assert fired == [(20, "a", None), (30, "a", None)]
    manager.advance_processing_time(20, lambda *timer: fired.append(timer))
    assert fired[2:] == [(10, "a", None), (20, "a", None)]


actions = st.lists(
    st.one_of(
        st.tuples(st.just("register"), st.integers(0, 15), st.sampled_from("abc")),
        st.tuples(st.just("register"), st.integers(0, 15), st.sampled_from("abc")),
        st.tuples(st.just("delete"), st.integers(0, 15), st.sampled_from("abc")),
        st.tuples(st.just("fire"), st.integers(0, 15), st.just("")),
        st.tuples(st.just("restore"), st.just(0), st.just("")),
    ),
    max_size=40,
)


@given(actions)
def test_any_use_equals_a_set_of_timers(steps):
    backend = HashMapKeyedStateBackend(lambda: 0)
    queue, model = backend.create_timer_queue("timers"), set()
    for action, time, key in steps:
        if action == "register":
            queue.register(time, key, None)
            model.add((time, key))
        elif action == "delete":
            queue.delete(time, key, None)
            model.discard((time, key))
        elif action == "fire":
            due = {timer for timer in model if timer[0] <= time}
            fired = [(timestamp, who) for timestamp, who, _ in fire(queue, time)]
            assert set(fired) == due
            assert len(fired) == len(due)
            assert [timestamp for timestamp, _ in fired] == sorted(t for t, _ in due)
            model -= due
        else:
            backend.snapshot()
            full = backend.full_snapshot()
            backend = HashMapKeyedStateBackend(lambda: 0)
            backend.apply(full)
            queue = backend.create_timer_queue("timers")
        assert len(queue) == len(model)
        assert queue.next_time() == min((timer[0] for timer in model), default=None)


def test_the_timer_service_works_on_the_current_key_and_namespace():
    backend = HashMapKeyedStateBackend(lambda: 0)
    manager = TimerManager(backend)
    manager.watermark = 3
    service = KeyedTimerService(manager, lambda: 77, "window")
    backend.current_key = "a"
    service.register_event_time_timer(10)
    service.register_processing_time_timer(11)
    backend.current_key = "b"
    service.register_event_time_timer(12)
    service.delete_event_time_timer(10)  # of key b: there is none
    service.delete_processing_time_timer(11)
    assert service.current_processing_time() == 77
    assert service.current_watermark() == 3
    assert fire(manager.event, 99) == [(10, "a", "window"), (12, "b", "window")]
    assert fire(manager.processing, 99) == [(11, "a", "window")]


@pytest.mark.parametrize("method", ["register", "delete"])
@pytest.mark.parametrize("domain", ["event", "processing"])
def test_the_time_of_a_timer_is_a_whole_number(domain, method):
    backend = HashMapKeyedStateBackend(lambda: 0)
    backend.current_key = "a"
    manager = TimerManager(backend)
    service = KeyedTimerService(manager, lambda: 0)
    call = getattr(service, f"{method}_{domain}_time_timer")
    for wrong in (1.5, float("nan"), "10", None):
        with pytest.raises(ArgumentTypeError, match="invalid timer timestamp"):
            call(wrong)
    getattr(service, f"register_{domain}_time_timer")(10.0)
    queue = getattr(manager, domain)
    assert queue.next_time() == 10
    assert type(queue.next_time()) is int
    call(10.0)
    assert len(queue) == (method == "register")
