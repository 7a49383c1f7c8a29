"""Where ranges of the database end: nothing at the edge of a table, a window, a map or a key group is passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.key_groups import key_group_of
from penstock.runtime.state.rocksdb import state_backend
from penstock.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend, entries_of
from penstock.runtime.state.rocksdb.store import after
from penstock.state_descriptors.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.windowing import TimeWindow
from tests.unit.runtime.state.worlds import MAX_PARALLELISM, contents

LAST = 2**63 - 1
MOST_GROUPS = 32_768


@given(st.binary(max_size=4), st.binary(max_size=4), st.binary(max_size=4))
def test_the_end_of_a_prefix_is_after_all_that_begin_with_it_and_before_all_others(
    start, rest, other
):
    prefix = b"\x01" + start
    assert prefix + rest < after(prefix)
    key = b"\x01" + other
    if not key.startswith(prefix) and key > prefix:
        assert key >= after(prefix)


@pytest.mark.parametrize("prefix", [b"a", b"a\xff", b"a\xff\xff", b"\x01\xfe", b"\x01\x00"])
def test_the_end_of_a_prefix_ends_a_scan_of_the_database(rocks, prefix):
    inside = [prefix, prefix + b"\0", prefix + b"\xff" * 20]
    outside = [prefix[:-1] + bytes([prefix[-1] - 1]) if prefix[-1] else b"\0", after(prefix)]
    rocks.backend.create_timer_queue("timers/event").register(1, "k", None)
    rocks.barrier()
    batch = rocks.backend.store.batch()
    for key in (*inside, *outside):
        batch.put(key, b"")
    rocks.backend.store.write(batch)
    assert list(rocks.backend.store.scan_keys(prefix, after(prefix))) == inside


def test_a_window_that_ends_with_time_itself_is_read_and_dropped(world):
    window = TimeWindow(0, LAST)
    table = world.backend.table("panes/p", namespaced=True)
    for number in range(3):
        table.put((f"k{number}", window), number)
    world.barrier()
    world.crash()
    table = world.backend.table("panes/p", namespaced=True)
    assert table.namespaces() == [window]
    assert table.pop_pane(window) == {"k0": 0, "k1": 1, "k2": 2}
    world.barrier()
    world.crash()
    assert "panes/p" not in contents(world.backend)


def test_the_windows_of_a_table_are_found_without_a_look_at_each_key(rocks, monkeypatch):
    table = rocks.backend.table("panes/p", namespaced=True)
    for number in range(300):
        table.put((number, TimeWindow(number % 3, LAST)), number)
    rocks.barrier()
    seeks = []
    store = type(rocks.backend.store)
    original = store.scan
    monkeypatch.setattr(store, "scan", lambda *args: seeks.append(args) or original(*args))
    rocks.backend._tables.clear()
    assert len(rocks.backend.table("panes/p", namespaced=True).namespaces()) == 3
    assert len(seeks) == 4


def in_group(wanted):
    """A key of one of the last key groups that there can be."""
    return next(n for n in range(10**6) if key_group_of(n, MOST_GROUPS) in wanted)


def fill(backend, key):
    """Write something of every kind under a key."""
    backend.current_key = key
    backend.get_state(ValueStateDescriptor("value")).update("v")
    backend.get_state(MapStateDescriptor("map")).put_all({n: n for n in range(40)})
    elements = backend.get_state(ListStateDescriptor("list"))
    elements.add_all(["x" * 9_000, "y" * 9_000])
    backend.table("panes/p", namespaced=True).put((key, TimeWindow(0, LAST)), "pane")
    backend.create_timer_queue("timers/event").register(LAST, key, None)
    backend.snapshot()
    elements.add("z")
    backend.snapshot()


EVERYTHING = {
    "state/value": "v",
    "state/map": {n: n for n in range(40)},
    "state/list": ["x" * 9_000, "y" * 9_000, "z"],
    "panes/p": "pane",
    "timers/event": True,
}


@pytest.mark.parametrize("groups", [range(1), range(MOST_GROUPS - 256, MOST_GROUPS)])
def test_state_of_the_first_and_the_last_key_groups_is_read_and_removed(groups):
    backend = RocksDBKeyedStateBackend.temporary(lambda: 0, MOST_GROUPS)
    key = in_group(groups)
    fill(backend, key)
    found = contents(backend)
    assert {name: list(entries.values()) for name, entries in found.items()} == {
        name: [value] for name, value in EVERYTHING.items()
    }
    for name in EVERYTHING:
        assert len(list(entries_of(backend.store, name, groups))) >= 1
        assert list(entries_of(backend.store, name, range(1, 2))) == []
    backend.get_state(ValueStateDescriptor("value")).clear()
    backend.get_state(MapStateDescriptor("map")).clear()
    backend.get_state(ListStateDescriptor("list")).clear()
    assert backend.table("panes/p", namespaced=True).pop_pane(TimeWindow(0, LAST)) == {key: "pane"}
    backend.create_timer_queue("timers/event").fire_until(LAST, lambda *_: None)
    assert contents(backend) == {}
    for name in EVERYTHING:  # not even hidden
        assert list(entries_of(backend.store, name, None)) == []
    backend.close()


def test_a_table_ends_where_the_next_one_begins(rocks):
    """Names of which one begins with the other, and all there is in them."""
    for name in ("a", "a/b", "ab", "b"):
        state = rocks.backend.get_state(ValueStateDescriptor(name))
        for key in range(50):
            rocks.backend.current_key = key
            state.update(name)
    rocks.barrier()
    rocks.crash()
    assert contents(rocks.backend) == {
        f"state/{name}": dict.fromkeys(range(50), name) for name in ("a", "a/b", "ab", "b")
    }


def test_several_snapshots_are_taken_over_whole(rocks):
    chains = []
    for part in range(2):
        backend = rocks.create(subtask=part)
        backend.create_timer_queue("timers/event").register(LAST, f"k{part}", None)
        chains.append(rocks.write(backend, force=True))
        backend.close()
    whole = rocks.create()
    assert whole.restore(rocks.io, tuple(chains), None, MAX_PARALLELISM) is None
    assert sorted(contents(whole)["timers/event"]) == [("k0", (None, LAST)), ("k1", (None, LAST))]
    whole.close()


def test_another_backend_reads_all_of_a_database(rocks):
    fill(rocks.backend, "k")
    rocks.barrier()
    read = state_backend.RocksDBStateBackendFactory().read(
        rocks.io, rocks.chain, MAX_PARALLELISM, None
    )
    found = {name: list(d.written.values()) for deltas in read for name, d in deltas.items()}
    assert found == {name: [value] for name, value in EVERYTHING.items()}
