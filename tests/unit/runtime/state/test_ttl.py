from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.state_descriptors.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

TTL = 100


class ManualClock:
    def __init__(self):
        self.now = 1000

    def __call__(self):
        return self.now

    def pass_time(self, millis):
        self.now += millis


class Average:
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]


CREATE = {
    "value": lambda: ValueStateDescriptor("s"),
    "list": lambda: ListStateDescriptor("s"),
    "map": lambda: MapStateDescriptor("s"),
    "reducing": lambda: ReducingStateDescriptor("s", lambda a, b: a + b),
    "aggregating": lambda: AggregatingStateDescriptor("s", Average()),
}
WRITE = {
    "value": lambda state, value: state.update(value),
    "list": lambda state, value: state.add(value),
    "map": lambda state, value: state.put("k", value),
    "reducing": lambda state, value: state.add(value),
    "aggregating": lambda state, value: state.add(value),
}
READ = {
    "value": lambda state: state.value(),
    "list": lambda state: next(state.get(), None),
    "map": lambda state: state.get("k"),
    "reducing": lambda state: state.get(),
    "aggregating": lambda state: state.get(),
}
each_kind = pytest.mark.parametrize("kind", list(CREATE))


class Harness:
    def __init__(
        self, kind, *, on_read=False, return_expired=False, configure=None, namespaced=False
    ):
        self.clock = ManualClock()
        self.backend = HashMapKeyedStateBackend(self.clock)
        builder = StateTtlConfig.new_builder(TTL)
        if on_read:
            builder.update_ttl_on_read_and_write()
        if return_expired:
            builder.return_expired_if_not_cleaned_up()
        if configure is not None:
            configure(builder)
        self.descriptor = CREATE[kind]()
        self.descriptor.enable_time_to_live(builder.build())
        self.kind = kind
        self.backend.current_key = "key"
        self.state = self.backend.get_state(self.descriptor, namespaced=namespaced)

    def write(self, value):
        WRITE[self.kind](self.state, value)

    def read(self):
        return READ[self.kind](self.state)

    def stored(self):
        return dict(self.state.table.items())


@each_kind
def test_state_lives_until_its_time_is_over(kind):
    harness = Harness(kind)
    assert harness.read() is None
    harness.write(7)
    harness.clock.pass_time(TTL - 1)
    assert harness.read() == 7
    harness.clock.pass_time(1)
    assert harness.read() is None
    assert harness.stored() == {}


@each_kind
def test_reading_prolongs_life_only_if_asked(kind):
    for on_read, expected in ((True, 7), (False, None)):
        harness = Harness(kind, on_read=on_read)
        harness.write(7)
        harness.clock.pass_time(TTL - 1)
        assert harness.read() == 7
        harness.clock.pass_time(TTL - 1)
        assert harness.read() == expected


@each_kind
def test_expired_state_is_seen_once_more_if_asked(kind):
    harness = Harness(kind, return_expired=True)
    harness.write(7)
    harness.clock.pass_time(TTL)
    assert harness.read() == 7
    assert harness.stored() == {}
    assert harness.read() is None


@each_kind
def test_writing_prolongs_life(kind):
    harness = Harness(kind)
    harness.write(7)
    harness.clock.pass_time(TTL - 1)
    harness.write(7)
    harness.clock.pass_time(TTL - 1)
    assert harness.read() is not None


@each_kind
def test_clearing_removes_the_state(kind):
    harness = Harness(kind)
    harness.write(7)
    harness.state.clear()
    assert harness.read() is None
    assert harness.stored() == {}


@each_kind
def test_every_key_ages_by_itself(kind):
    harness = Harness(kind)
    harness.write(1)
    harness.clock.pass_time(TTL // 2)
    harness.backend.current_key = "other"
    harness.write(2)
    harness.clock.pass_time(TTL // 2)
    assert harness.read() == 2
    harness.backend.current_key = "key"
    assert harness.read() is None


@each_kind
def test_state_of_a_window_ages_too(kind):
    harness = Harness(kind, namespaced=True)
    harness.backend.current_namespace = (0, 10)
    harness.write(7)
    harness.backend.current_namespace = (10, 20)
    assert harness.read() is None
    harness.backend.current_namespace = (0, 10)
    assert harness.read() == 7
    harness.clock.pass_time(TTL)
    assert harness.read() is None


@each_kind
def test_age_survives_a_restore(kind):
    harness = Harness(kind)
    harness.write(7)
    deltas = harness.backend.snapshot()
    restored = Harness(kind)
    restored.backend.apply(deltas)
    restored.clock.pass_time(TTL - 1)
    assert restored.read() == 7
    restored.clock.pass_time(1)
    assert restored.read() is None


def test_a_value_can_be_set_to_none():
    harness = Harness("value")
    harness.write(7)
    harness.write(None)
    assert harness.read() is None
    assert harness.stored() == {}


def test_elements_of_a_list_expire_one_by_one():
    harness = Harness("list")
    harness.state.add(1)
    harness.clock.pass_time(60)
    harness.state.add_all([2, 3])
    harness.clock.pass_time(39)
    assert list(harness.state) == [1, 2, 3]
    harness.clock.pass_time(1)
    assert list(harness.state.get()) == [2, 3]
    assert harness.stored() == {"key": [(2, 1060), (3, 1060)]}
    harness.state.update([9])
    harness.clock.pass_time(TTL - 1)
    assert list(harness.state) == [9]
    harness.state.update([])
    assert list(harness.state) == []


def test_reading_a_list_refreshes_only_live_elements():
    harness = Harness("list", on_read=True)
    harness.state.add(1)
    harness.clock.pass_time(60)
    harness.state.add(2)
    harness.clock.pass_time(40)
    assert list(harness.state) == [2]
    harness.clock.pass_time(99)
    assert list(harness.state) == [2]


def test_expired_elements_of_a_list_are_seen_until_all_have_expired():
    harness = Harness("list", return_expired=True)
    harness.state.add(1)
    harness.clock.pass_time(60)
    harness.state.add(2)
    harness.clock.pass_time(40)
    assert list(harness.state) == [1, 2]
    assert list(harness.state) == [1, 2]
    harness.clock.pass_time(60)
    assert list(harness.state) == [1, 2]
    assert list(harness.state) == []


def test_entries_of_a_map_expire_one_by_one():
    harness = Harness("map")
    state = harness.state
    state.put("a", 1)
    harness.clock.pass_time(60)
    state.put_all({"b": 2, "c": None})
    harness.clock.pass_time(39)
    assert state.items() == [("a", 1), ("b", 2), ("c", None)]
    harness.clock.pass_time(1)
    assert not state.contains("a")
    assert "b" in state
    assert state["b"] == 2
    assert state.contains("c")
    assert (state.keys(), state.values(), list(state)) == (["b", "c"], [2, None], ["b", "c"])
    state.remove("b")
    assert state.items() == [("c", None)]
    assert not state.is_empty()
    harness.clock.pass_time(60)
    assert state.is_empty()
    assert state.items() == []
    assert harness.stored() == {}


def test_reading_one_entry_of_a_map_prolongs_that_entry():
    harness = Harness("map", on_read=True)
    harness.state.put_all({"a": 1, "b": 2})
    harness.clock.pass_time(60)
    assert harness.state.get("a") == 1
    harness.clock.pass_time(60)
    assert harness.state.is_empty() is False
    assert harness.state.items() == [("a", 1)]


def test_iterating_over_a_map_prolongs_all_entries():
    harness = Harness("map", on_read=True)
    harness.state.put_all({"a": 1, "b": 2})
    harness.clock.pass_time(60)
    assert harness.state.keys() == ["a", "b"]
    harness.clock.pass_time(60)
    assert harness.state.items() == [("a", 1), ("b", 2)]


def test_expired_entries_of_a_map_are_seen_once_more_if_asked():
    harness = Harness("map", return_expired=True)
    harness.state.put("a", 1)
    harness.clock.pass_time(60)
    harness.state.put("b", 2)
    harness.clock.pass_time(40)
    assert harness.state.is_empty() is False
    assert harness.state.items() == [("a", 1), ("b", 2)]
    assert harness.state.items() == [("b", 2)]
    harness.clock.pass_time(60)
    assert harness.state.contains("b") is True
    assert harness.state.contains("b") is False


@pytest.mark.parametrize(
    ("return_expired", "reduced", "averaged"),
    [(False, 5, 5.0), (True, 8, 4.0)],
    ids=["never", "if not cleaned up"],
)
def test_a_fold_builds_on_an_expired_value_only_if_it_may_be_seen(
    return_expired, reduced, averaged
):
    for kind, expected in (("reducing", reduced), ("aggregating", averaged)):
        harness = Harness(kind, return_expired=return_expired)
        harness.write(3)
        harness.clock.pass_time(TTL)
        harness.write(5)
        assert harness.read() == expected


def test_folds_go_on_while_alive():
    harness = Harness("reducing")
    harness.write(3)
    harness.clock.pass_time(60)
    harness.write(5)
    harness.clock.pass_time(60)
    assert harness.read() == 8


def grown(harness, keys=50):
    for key in range(keys):
        harness.backend.current_key = key
        harness.write(key)
    harness.backend.snapshot()
    harness.clock.pass_time(TTL)
    harness.backend.current_key = "busy"
    return harness


@each_kind
def test_unread_expired_state_is_removed_in_the_background(kind):
    harness = grown(Harness(kind))
    for _ in range(12):
        harness.write(1)
    assert list(harness.stored()) == ["busy"]
    assert len(harness.backend.snapshot()["state/s"].removed) == 50


@each_kind
def test_the_cleanup_goes_on_over_barriers(kind):
    harness = grown(Harness(kind))
    for key in range(40):
        harness.backend.current_key = f"busy {key}"
        harness.write(1)
        harness.backend.snapshot()
    assert not any(isinstance(key, int) for key in harness.stored())


def test_an_access_looks_at_a_bounded_number_of_entries():
    harness = grown(Harness("value", configure=lambda b: b.cleanup_incrementally(3, False)))
    harness.write(1)  # finds the beginning
    before = len(harness.stored())
    harness.write(1)
    assert before - len(harness.stored()) == 3


def test_the_background_cleanup_can_be_turned_off():
    harness = grown(Harness("value", configure=lambda b: b.disable_cleanup_in_background()))
    for _ in range(20):
        harness.write(1)
    assert len(harness.stored()) == 51


def test_the_cleanup_leaves_the_current_key_to_its_reader():
    harness = Harness("value", return_expired=True)
    harness.write(7)
    harness.backend.snapshot()
    harness.clock.pass_time(TTL)
    harness.state.access("key")
    harness.state.access("key")
    assert harness.read() == 7


@each_kind
def test_full_snapshots_leave_expired_state_out(kind):
    def only_snapshots(builder):
        builder.disable_cleanup_in_background().cleanup_full_snapshot()

    harness = grown(Harness(kind, configure=only_snapshots))
    harness.write(1)
    harness.backend.snapshot()
    assert list(harness.backend.full_snapshot()["state/s"].written) == ["busy"]
    assert len(harness.stored()) == 51


def test_full_snapshots_are_complete_without_any_cleanup():
    harness = grown(Harness("value", configure=lambda b: b.disable_cleanup_in_background()))
    assert len(harness.backend.full_snapshot()["state/s"].written) == 50


def test_full_snapshots_hold_only_the_living_elements():
    harness = Harness("list")
    harness.state.add(1)
    harness.clock.pass_time(60)
    harness.state.add(2)
    harness.clock.pass_time(60)
    harness.backend.snapshot()
    assert harness.backend.full_snapshot()["state/s"].written == {"key": [(2, 1060)]}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 3)),
            st.tuples(st.just("get"), st.integers(0, 3)),
            st.tuples(st.just("wait"), st.integers(1, 80)),
            st.tuples(st.just("barrier"), st.just(0)),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_a_map_with_time_to_live_agrees_with_a_simple_model(steps, on_read):
    harness = Harness("map", on_read=on_read)
    model = {}
    for step, (action, argument) in enumerate(steps):
        now = harness.clock.now
        model = {key: item for key, item in model.items() if item[1] + TTL > now}
        if action == "put":
            harness.state.put(argument, step)
            model[argument] = (step, now)
        elif action == "get":
            expected = model.get(argument)
            assert harness.state.get(argument) == (expected[0] if expected else None)
            if expected and on_read:
                model[argument] = (expected[0], now)
        elif action == "wait":
            harness.clock.pass_time(argument)
        else:
            harness.backend.snapshot()
    alive = {key: value for key, (value, at) in model.items() if at + TTL > harness.clock.now}
    assert dict(harness.state.items()) == alive
