"""Lists that grow for long: an epoch costs what it appends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.state.rocksdb import lists as rocksdb_lists
from penstock.state.chains import _tables_of as tables_of
from penstock.state_descriptors.descriptors import ListStateDescriptor, StateTtlConfig
from penstock.time.durations import Duration
from tests.builders.examples import examples
from tests.unit.runtime.state.worlds import World, contents

TTL = 100


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(rocksdb_lists, "_CUT_BYTES", 100)


def descriptor(*, expires=False):
    made = ListStateDescriptor("list")
    if expires:
        made.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(TTL)).build())
    return made


def state_of(world, key="key", *, expires=False):
    world.backend.current_key = key
    return world.backend.get_state(descriptor(expires=expires))


def grow(world, epochs, size=10, key="key"):
    """Append numbers that go on from epoch to epoch."""
    state = state_of(world, key)
    for checkpoint_id in range(epochs):
        for number in range(checkpoint_id * size, (checkpoint_id + 1) * size):
            state.add(number)
        world.barrier()


def test_append_writes_and_reads_only_new_elements(rocks, monkeypatch):
    state = state_of(rocks)
    written = []
    for checkpoint_id in range(100):
        if checkpoint_id == 1:
            store = rocks.backend.store
            write = store.write
            monkeypatch.setattr(
                store, "write", lambda batch: (written.append(batch.size), write(batch))
            )
            monkeypatch.setattr(store, "scan", None)
        state.add_all(range(1000, 2000))
        rocks.barrier()
    assert max(written) < 2 * rocksdb_lists._CUT_BYTES + 10_000
    monkeypatch.undo()
    assert list(state) == [*range(1000, 2000)] * 100


@pytest.mark.parametrize("append", ["add", "add_all"])
def test_appending_within_an_epoch_copies_nothing(world, append):
    state = state_of(world)
    state.add(0)
    elements = world.backend.table("state/list").get("key")
    for number in range(10):
        getattr(state, append)(number if append == "add" else [number])
    assert world.backend.table("state/list").get("key") is elements
    assert list(state) == [0, *range(10)]


def test_elements_that_were_appended_count_as_kept_in_memory(tmp_path):
    world = World("rocksdb", tmp_path, spill_entries=50)
    state = state_of(world)
    for number in range(1000):
        state.add(number)
        world.backend.trim_cache()
        assert world.backend.table("state/list").pending() <= 52
    assert list(state) == [*range(1000)]
    world.backend.close()


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("lose_local", [False, True], ids=["local copy", "from storage"])
def test_a_list_of_many_segments_is_found_again(rocks, lose_local):
    grow(rocks, 41)
    grow(rocks, 3, key=("a key", 1.0))
    assert len(list(rocks.backend.store.scan_keys(b"\1", b"\2"))) > 10
    (data,) = [value for _, value in rocks.backend.store.scan(b"\1", b"\2") if value[0] == 2]
    assert rocksdb_lists.load_head(data)[1]  # some elements are in no segment
    rocks.crash(lose_local=lose_local)
    assert list(state_of(rocks)) == [*range(410)]
    assert list(state_of(rocks, ("a key", 1))) == [*range(30)]
    assert set(rocks.backend.keys("state/list")) == {"key", ("a key", 1.0)}
    assert contents(rocks.backend)["state/list"] == {
        "key": [*range(410)],
        ("a key", 1.0): [*range(30)],
    }


@pytest.mark.usefixtures("small_segments")
def test_a_list_of_many_segments_counts_as_one_entry(rocks):
    grow(rocks, 20)
    grow(rocks, 20, key="other")
    assert tables_of(rocks.backend.store, counted=True)["state/list"].entries == 2


def test_appended_elements_are_visible_immediately(rocks):
    grow(rocks, 2)
    state = state_of(rocks)
    state.add("a")
    assert list(state) == [*range(20), "a"]
    state.add("b")
    assert list(state) == [*range(20), "a", "b"]
    assert dict(rocks.backend.table("state/list").items()) == {"key": [*range(20), "a", "b"]}
    rocks.barrier()
    assert list(state) == [*range(20), "a", "b"]


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("segments", [3, 40], ids=["few", "many"])
@pytest.mark.parametrize("new", [[], [5]], ids=["cleared", "updated"])
def test_segments_go_with_their_list(rocks, segments, new):
    grow(rocks, segments * 5)
    state = state_of(rocks)
    state.update(new)
    rocks.barrier()
    state.add(6)
    assert list(state) == [*new, 6]
    rocks.barrier()
    assert len(list(rocks.backend.store.scan_keys(b"\1", b"\2"))) == 1
    rocks.crash(lose_local=True)
    assert list(state_of(rocks)) == [*new, 6]


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("target", ["hashmap", "rocksdb"])
def test_a_list_of_many_segments_follows_its_key_group(rocks, target):
    for key in range(20):
        grow(rocks, 5, key=key)
    parts = [rocks.rescaled([rocks.chain], subtask, 3, target) for subtask in range(3)]
    found = {}
    for backend in parts:
        found.update(contents(backend)["state/list"])
        backend.close()
    assert found == {key: [*range(50)] for key in range(20)}


@pytest.mark.usefixtures("small_segments")
def test_expired_elements_of_a_list_of_many_segments_go_in_the_background(rocks):
    for _ in range(30):
        state_of(rocks, expires=True).add_all(range(10))
        rocks.clock.advance(TTL // 10)
        rocks.barrier()
    rocks.backend.snapshot()
    rows = sum(len(value) for _, value in rocks.backend.store.scan(b"\1", b"\2"))
    assert rows < 1_000
    assert list(state_of(rocks, expires=True)) == [*range(10)] * 9


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 2), st.lists(st.integers(0, 9), max_size=30)),
    st.tuples(st.just("update"), st.integers(0, 2), st.lists(st.integers(0, 9), max_size=30)),
    st.tuples(st.sampled_from(["read", "clear"]), st.integers(0, 2), st.none()),
    st.tuples(st.sampled_from(["barrier", "crash", "write early", "keys"]), st.none(), st.none()),
)


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(STEPS, max_size=40))
def test_any_history_of_lists_is_that_of_python_lists(steps, tmp_path_factory):
    world = World("rocksdb", tmp_path_factory.mktemp("lists"), spill_entries=0)
    now, saved = {}, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocksdb_lists, "_CUT_BYTES", 40)
        for name, key, elements in steps:
            state = state_of(world, key)
            match name:
                case "add":
                    state.add_all(elements)
                    now[key] = now.get(key, []) + elements
                case "update":
                    state.update(elements)
                    now[key] = elements
                case "read":
                    assert list(state) == now.get(key, [])
                case "clear":
                    state.clear()
                    now[key] = []
                case "barrier":
                    world.barrier()
                    saved = dict(now)
                case "crash":
                    world.crash(lose_local=True)
                    now = dict(saved)
                case "write early":
                    world.backend.trim_cache()
                case "keys":
                    found = world.backend.keys("state/list")
                    assert sorted(found) == sorted(key for key in now if now[key])
        expected = {key: elements for key, elements in now.items() if elements}
        assert dict(world.backend.table("state/list").items()) == expected
        assert contents(world.backend).get("state/list", {}) == expected
    world.backend.close()
