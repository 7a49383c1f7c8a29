"""State tables and the keyed backend: a table is a dictionary, and its deltas replay to the same state."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidProgramError
from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.runtime.state.hashmap.panes import HashMapPaneTable
from penstock.runtime.state.hashmap.table import HashMapTable
from penstock.runtime.state.table import MISSING
from penstock.state_descriptors.descriptors import ListStateDescriptor, ValueStateDescriptor

names = st.sampled_from("abcdef")
plain_keys = names
namespaced_keys = st.tuples(names, st.integers(0, 3))


def steps_of(keys):
    return st.lists(
        st.one_of(
            st.tuples(st.just("put"), keys, st.integers()),
            st.tuples(st.just("remove"), keys, st.just(0)),
            st.tuples(st.just("merge"), st.none(), st.just(0)),
        ),
        max_size=60,
    )


def run(table, steps):
    """Apply steps to a table and to a dictionary, comparing all the time; return the deltas and the dictionary."""
    model, deltas = {}, []
    for action, key, value in steps:
        if action == "put":
            table.put(key, value)
            model[key] = value
        elif action == "remove":
            table.remove(key)
            model.pop(key, None)
        else:
            deltas.append(pickle.dumps(table.merge()))
        assert dict(table.items()) == model
        assert len(table) == len(model)
        if key is not None:
            assert table.get(key, MISSING) == model.get(key, MISSING)
    deltas.append(pickle.dumps(table.merge()))
    return deltas, model


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        pytest.param(lambda: HashMapTable(namespaced=False), plain_keys, id="per key"),
        pytest.param(lambda: HashMapTable(namespaced=True), namespaced_keys, id="per window"),
        pytest.param(HashMapPaneTable, namespaced_keys, id="panes"),
    ],
)
def test_any_use_equals_a_dictionary_and_the_deltas_replay_to_it(kind, keys):
    @given(steps_of(keys))
    def check(steps):
        table = kind()
        deltas, model = run(table, steps)
        replayed = kind()
        for delta in deltas:
            replayed.apply(pickle.loads(delta))
        assert dict(replayed.items()) == model
        copied = kind()
        copied.apply(pickle.loads(pickle.dumps(table.full())))
        assert dict(copied.items()) == model
        assert not replayed.merge().written  # what was restored is not a change

    check()


@given(steps_of(plain_keys))
def test_a_delta_names_all_that_was_touched_since_the_last_and_nothing_else(steps):
    table = HashMapTable(namespaced=False)
    model, touched, before = {}, set(), set()
    for action, key, value in [*steps, ("merge", None, 0)]:
        if action == "put":
            table.put(key, value)
            model[key] = value
            touched.add(key)
        elif action == "remove":
            table.remove(key)
            model.pop(key, None)
            touched.add(key)
        else:
            delta = table.merge()
            assert delta.written == {key: model[key] for key in touched & set(model)}
            assert set(delta.removed) == touched & before - set(model)
            assert len(set(delta.removed)) == len(delta.removed)
            before, touched = set(model), set()


def test_entry_added_and_removed_between_barriers_is_not_in_the_delta():
    table = HashMapTable(namespaced=False)
    table.put("a", 1)
    table.remove("a")
    delta = table.merge()
    assert (delta.written, delta.removed) == ({}, [])


def test_get_distinguishes_missing_entries_from_none():
    table = HashMapTable(namespaced=False)
    table.put("a", None)
    assert table.get("a", MISSING) is None
    assert table.get("b", MISSING) is MISSING
    assert repr(MISSING) == "MISSING"


backend_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["t1", "t2"]), st.integers(0, 30), st.integers()),
        st.tuples(
            st.just("windows"), st.tuples(st.integers(0, 30), st.integers(0, 2)), st.integers()
        ),
        st.tuples(
            st.just("panes/w"), st.tuples(st.integers(0, 30), st.integers(0, 2)), st.integers()
        ),
        st.tuples(st.just("barrier"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def namespaced(name):
    return name in {"windows", "panes/w"}


def contents(backend):
    return {
        name: dict(backend.table(name, namespaced=namespaced(name)).items())
        for name in ("t1", "t2", "windows", "panes/w")
    }


@given(backend_steps, st.integers(1, 5))
def test_rescaling_gives_every_entry_to_exactly_its_owner(steps, parallelism):
    backend, chain = HashMapKeyedStateBackend(lambda: 0), []
    for name, key, value in [*steps, ("barrier", 0, 0)]:
        if name == "barrier":
            chain.append(pickle.dumps(backend.snapshot()))
        elif value % 5 == 0:
            backend.table(name, namespaced=namespaced(name)).remove(key)
        else:
            backend.table(name, namespaced=namespaced(name)).put(key, value)
    merged = {name: {} for name in contents(backend)}
    for subtask in range(parallelism):
        owned = key_group_range(subtask, parallelism, 128)
        part = HashMapKeyedStateBackend(lambda: 0)
        for delta in chain:
            part.apply(pickle.loads(delta), lambda key: key_group_of(key, 128) in owned)
        for name, entries in contents(part).items():
            for entry in entries:
                key = entry[0] if namespaced(name) else entry
                assert key_group_of(key, 128) in owned
                assert entry not in merged[name]
            merged[name].update(entries)
    assert merged == contents(backend)


def test_a_snapshot_leaves_out_tables_without_changes():
    backend = HashMapKeyedStateBackend(lambda: 0)
    backend.table("a").put("k", 1)
    backend.table("b")
    assert list(backend.snapshot()) == ["a"]
    assert backend.snapshot() == {}
    assert backend.full_snapshot()["a"].written == {"k": 1}


def test_a_table_is_either_per_key_or_per_key_and_window():
    backend = HashMapKeyedStateBackend(lambda: 0)
    backend.table("a")
    with pytest.raises(InvalidProgramError, match="both as global state and as window state"):
        backend.table("a", namespaced=True)


def test_one_name_is_one_state_of_one_kind():
    backend = HashMapKeyedStateBackend(lambda: 0)
    state = backend.get_state(ValueStateDescriptor("n", None))
    assert backend.get_state(ValueStateDescriptor("n", None)) is state
    with pytest.raises(InvalidProgramError, match="registered as value state"):
        backend.get_state(ListStateDescriptor("n", None))


def test_keys_are_unique_across_windows():
    backend = HashMapKeyedStateBackend(lambda: 0)
    windows = backend.table("w", namespaced=True)
    for entry in [("a", 1), ("b", 1), ("a", 2)]:
        windows.put(entry, 0)
    backend.table("s").put("x", 0)
    assert backend.keys("w") == ["a", "b"]
    assert backend.keys("s") == ["x"]
    assert backend.keys("nothing") == []
    assert backend.has_entries("s")
    assert not backend.has_entries("nothing")
