"""Keyed state at a barrier: what is taken at once, what is written later, and what a write that failed leaves to the next."""

from __future__ import annotations

import copy
import tempfile
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint import handles, shared_files, state_io
from penstock.checkpoint.state_io import CheckpointStateIO
from penstock.errors import CheckpointError
from penstock.graph.deployment import JobSettings, SubtaskRestore
from penstock.graph.state_backend import StateBackendSettings
from penstock.runtime.state.rocksdb import backend as rocksdb
from penstock.runtime.state.rocksdb.settings import RocksDBSettings
from penstock.runtime.task.shared.snapshots import KeyedSnapshots
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from tests.builders import pipes
from tests.builders.examples import examples

VERTEX = pipes.vertex(0, "first", "second", keyed=(0, 1))


class FailingIO(CheckpointStateIO):
    """Storage that is away when it is told to be."""

    away = False

    def _write(self, *arguments):
        self.check()
        return super()._write(*arguments)

    def store_files(self, *arguments):
        self.check()
        return super().store_files(*arguments)

    def check(self):
        if FailingIO.away:
            raise CheckpointError("storage is away")


class Keyed:
    """The keyed state of two operators, dictionaries that say what must be in it, and the snapshots that were taken of it."""

    def __init__(self, backend, directory, *, merges=False):
        FailingIO.away = False
        self.io = FailingIO(f"{directory}/storage", 0, merges=merges)
        local = RocksDBSettings(local_dirs=(f"{directory}/local",), spill_entries=1)
        state = local if backend == "rocksdb" else StateBackendSettings()
        self.settings = JobSettings("job", "job", state_backend=state)
        self.keyed = self.open(SubtaskRestore())
        self.values = [{}, {}]
        self.checkpoint = 0
        self.taken = deque()
        self.written = ({}, [{}, {}])

    def open(self, restore):
        keyed = KeyedSnapshots(VERTEX, 0)
        keyed.restore(self.settings, lambda: 0, self.io, restore)
        return keyed

    def update(self, position, key, value):
        backend = self.keyed.get(position)
        backend.current_key = key
        state = backend.get_state(ValueStateDescriptor("v"))
        if value is None:
            state.clear()
            self.values[position].pop(key, None)
        else:
            held = state.value() or []
            held.append(value)  # the object that the state holds
            state.update(held)
            self.values[position].setdefault(key, []).append(value)
        backend.trim_cache()

    def begin(self):
        self.checkpoint += 1
        upload = self.keyed.begin(self.io, self.checkpoint, f"a{self.checkpoint}")
        self.taken.append((upload, copy.deepcopy(self.values)))

    def write(self, *, away=False):
        """Write the oldest snapshot; return whether that succeeded."""
        upload, values = self.taken.popleft()
        FailingIO.away = away
        try:
            self.written = upload(), values
        except CheckpointError:
            return False
        finally:
            FailingIO.away = False
        return True

    def crash(self):
        """Start again from the last snapshot that was written."""
        chains, self.values = self.written[0], copy.deepcopy(self.written[1])
        self.keyed.close()
        self.taken.clear()
        keyed = {operator: (chain,) for operator, chain in chains.items()}
        self.keyed = self.open(SubtaskRestore(keyed=keyed))

    def found(self):
        tables = []
        for position in (0, 1):
            backend = self.keyed.get(position)
            backend.get_state(ValueStateDescriptor("v"))
            tables.append(dict(backend.table("state/v").items()))
        return tables


@pytest.fixture(params=["hashmap", "rocksdb"])
def state(request, tmp_path):
    made = Keyed(request.param, tmp_path)
    yield made
    made.keyed.close()


def test_changes_after_the_barrier_are_not_in_the_snapshot(state):
    state.update(0, "k", 1)
    state.begin()
    state.update(0, "k", 2)
    state.update(0, "other", 3)
    assert state.write()
    state.crash()
    assert state.found() == [{"k": [1]}, {}]


def test_the_next_snapshot_can_be_taken_before_the_last_one_is_written(state):
    for number in range(40):
        state.update(0, number % 3, number)
        state.begin()
    for _ in range(39):
        assert state.write()
    state.crash()
    assert state.found()[0] == {key: list(range(key, 39, 3)) for key in range(3)}


def test_snapshot_after_a_failed_write_contains_the_lost_changes(state):
    state.update(0, "k", 1)
    state.begin()
    assert state.write()
    state.update(0, "k", 2)
    state.update(1, "k", 3)
    state.begin()
    assert not state.write(away=True)
    state.begin()
    assert state.write()
    state.crash()
    assert state.found() == [{"k": [1, 2]}, {"k": [3]}]


def test_changes_that_follow_on_a_snapshot_that_was_not_written_are_not_written_alone(tmp_path):
    state = Keyed("hashmap", tmp_path)
    state.update(0, "k", 1)
    state.begin()
    assert state.write()
    for number in (2, 3, 4):
        state.update(0, "k", number)
        state.begin()
    assert not state.write(away=True)
    with pytest.raises(CheckpointError, match="the previous snapshot was not written"):
        state.taken.popleft()[0]()
    assert not state.write()
    state.begin()
    assert state.write()
    state.crash()
    assert state.found() == [{"k": [1, 2, 3, 4]}, {}]


def test_snapshots_that_are_never_written_leave_nothing_behind(tmp_path):
    state = Keyed("rocksdb", tmp_path)
    state.update(0, "k", 1)
    state.begin()
    assert list(tmp_path.glob("local/**/work-*/CURRENT"))
    state.keyed.close()
    assert not list(tmp_path.glob("local/**/work-*"))


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("update"),
            st.integers(0, 1),
            st.integers(0, 5),
            st.one_of(st.none(), st.integers(0, 9)),
        ),
        st.tuples(st.just("begin")),
        st.tuples(st.just("write"), st.sampled_from([False, False, True])),
        st.tuples(st.just("crash")),
        st.tuples(st.just("merge")),
    ),
    max_size=40,
)


def test_few_changes_never_cost_a_full_snapshot_where_deltas_are_merged(tmp_path):
    state = Keyed("hashmap", tmp_path, merges=True)
    for key in range(1000):
        state.update(0, key, key)
    state.begin()
    assert state.write()
    (first,) = state.written[0]["v0.0"]
    for number in range(100):
        state.update(0, number % 7, number)
        state.update(0, 7 + number % 3, None if number % 2 else number)
        state.begin()
        if number % 3:
            state.begin()
            assert state.write()
        assert state.write()
    chain = state.written[0]["v0.0"]
    assert chain.handles[0] == first
    assert len(chain) <= handles.MAX_DELTAS + 2
    state.crash()
    assert state.found() == state.values


@pytest.mark.parametrize(
    ("backend", "merges"), [("hashmap", False), ("hashmap", True), ("rocksdb", False)]
)
@settings(max_examples=examples(100), deadline=None)
@given(steps=STEPS)
def test_every_snapshot_that_was_written_is_the_state_at_its_barrier(backend, merges, steps):
    """However late the writing is, whatever fails, and whichever files are put off."""
    with (
        tempfile.TemporaryDirectory() as directory,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(handles, "MIN_COMPACTION_BYTES", 400)
        patched.setattr(state_io, "MAX_DELTAS", 2)
        patched.setattr(shared_files, "_AT_ONCE", 1_200)
        patched.setattr(shared_files, "_PART", 500)
        patched.setattr(rocksdb, "_MUCH", 100)
        state = Keyed(backend, Path(directory), merges=merges)
        for kind, *arguments in [*steps, ("begin",)]:
            if kind == "write":
                if state.taken:
                    state.write(away=arguments[0])
            elif kind == "merge":
                for position in (0, 1):
                    store = getattr(state.keyed.get(position), "store", None)
                    if store is not None:
                        store._db.compact_range(None, None)
            else:
                getattr(state, kind)(*arguments)
                if kind == "crash":
                    assert state.found() == state.values
        while state.taken:
            state.write()
        if not state.keyed._lines[0].lost and not state.keyed._lines[1].lost:
            assert state.written[1] == state.values
        state.crash()
        assert state.found() == state.values
        state.keyed.close()
