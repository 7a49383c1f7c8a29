"""Large files that a merge has made are written over several epochs: what a checkpoint adds, and what a restore finds."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.checkpoint import shared_files
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.runtime.state.rocksdb import backend as rocksdb
from penstock.runtime.state.rocksdb import store as rocksdb_store
from penstock.state_descriptors.descriptors import MapStateDescriptor, ValueStateDescriptor
from tests.builders.examples import examples
from tests.unit.runtime.state.worlds import World, contents

AT_ONCE = 20_000
PART = 15_000
KEYS = 3_000


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    monkeypatch.setattr(shared_files, "_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(shared_files, "_PART", PART)
    monkeypatch.setattr(rocksdb, "_MUCH", 1_000)


class Filled:
    """A database of some hundred kilobytes, and a dictionary that says what must be in it."""

    def __init__(self, world):
        self.world = world
        self.expected = {}
        self.random = random.Random(3)
        self.update(range(KEYS))
        world.barrier()

    def update(self, keys):
        state = self.world.backend.get_state(ValueStateDescriptor("count"))
        for key in keys:
            self.world.backend.current_key = key
            value = self.expected[key] = self.random.randbytes(100)
            state.update(value)

    def remove(self, key):
        state = self.world.backend.get_state(ValueStateDescriptor("count"))
        self.world.backend.current_key = key
        state.clear()
        self.expected.pop(key, None)

    def merge(self):
        """Let the database merge all its files, as it does by itself when there are many."""
        database = self.world.backend.store._db
        database.flush()
        database.compact_range(None, None)

    def checkpoint_id(self, *keys):
        """Run an epoch; return the bytes that its checkpoint has added."""
        before = {path.name for path in self.world.files()}
        self.update(keys)
        self.world.barrier()
        new = [path for path in self.world.files() if path.name not in before]
        return sum(path.stat().st_size for path in new)

    def check(self):
        assert contents(self.world.backend)["state/count"] == self.expected


@pytest.fixture
def filled(tmp_path):
    made = Filled(World("rocksdb", tmp_path))
    yield made
    made.world.backend.close()


def waits(chain):
    """Whether a snapshot is an older one and changes."""
    return any(file.local.startswith("changes@") for file in chain.database.files)


def test_compacted_files_are_uploaded_in_parts(filled):
    filled.merge()
    added = [filled.checkpoint_id(checkpoint_id, checkpoint_id + 1) for checkpoint_id in range(40)]
    assert max(added) < AT_ONCE + 5_000
    assert sum(added) > KEYS * 100
    assert not waits(filled.world.chain)
    assert not any("later/" in file.local for file in filled.world.chain.database.files)
    filled.world.crash(lose_local=True)
    filled.check()


@pytest.mark.parametrize("lose_local", [False, True], ids=["local copy", "from storage"])
@pytest.mark.parametrize("epochs", [1, 2, 5, 40])
def test_a_restore_finds_everything_at_any_time(filled, epochs, lose_local):
    filled.merge()
    for checkpoint_id in range(epochs):
        filled.checkpoint_id(checkpoint_id, 7)
    filled.remove(8)
    filled.checkpoint_id(9)
    assert waits(filled.world.chain) == (epochs < 40)
    filled.world.crash(lose_local=lose_local)
    filled.check()
    filled.checkpoint_id(10)
    filled.world.crash(lose_local=True)
    filled.check()


def test_several_databases_may_start_from_a_snapshot_that_waits(filled):
    filled.merge()
    filled.checkpoint_id(1)
    filled.checkpoint_id(2)
    assert waits(filled.world.chain)
    groups = [filled.world.rescaled([filled.world.chain], index, 2) for index in range(2)]
    found = [contents(backend)["state/count"] for backend in groups]
    assert found[0] | found[1] == filled.expected
    assert all(found)
    for backend in groups:
        backend.close()


def test_the_other_backend_reads_a_snapshot_that_waits(filled):
    filled.merge()
    filled.checkpoint_id(1)
    assert waits(filled.world.chain)
    backend = filled.world.create(kind="hashmap")
    backend.restore(filled.world.io, (filled.world.chain,), None, 16)
    assert contents(backend)["state/count"] == filled.expected


def database(directory, lineage, **files):
    """A directory as a database leaves it for a checkpoint."""
    directory.mkdir()
    for name, content in files.items():
        (directory / f"{name}.sst").write_bytes(content)
    (directory / "CURRENT").write_text("MANIFEST")
    (directory / shared_files.LINEAGE).write_text(lineage)
    return directory


@pytest.mark.parametrize("lineage", ["same", "other"])
def test_files_written_ahead_count_only_in_databases_that_go_on_from_them(tmp_path, lineage):
    storage = CheckpointFileSystem(str(tmp_path / "storage"))

    def upload(directory, checkpoint_id, base):
        name = SimpleNamespace(
            checkpoint_id=checkpoint_id,
            operator="op",
            subtask=0,
            attempt=f"a{checkpoint_id}",
            key_groups=(0, 1),
        )
        return shared_files.upload(storage, directory, name, base)

    first = upload(database(tmp_path / "first", "same", old=b"o" * 50), 1, None)
    merged = random.Random(1).randbytes(2 * PART)
    directory = database(tmp_path / "second", "same", merged=merged)
    (directory / shared_files.CHANGES).write_bytes(b"changes")
    second = upload(directory, 2, first)
    (ahead,) = [file for file in second.files if file.local == "later/same/merged.sst@0"]
    # The other one has a file of the same name and size.
    content = merged if lineage == "same" else merged[::-1]
    third = upload(database(tmp_path / "third", lineage, merged=content), 3, second)
    assert (ahead.name in {file.name for file in third.files}) == (lineage == "same")
    restored = tmp_path / "restored"
    restored.mkdir()
    shared_files.download(storage, third, restored)
    assert (restored / "merged.sst").read_bytes() == content


def test_deferred_uploads_continue_from_a_local_copy(filled):
    filled.merge()
    filled.checkpoint_id(1)
    ahead = {file.name for file in filled.world.chain.database.files if "later/" in file.local}
    filled.world.crash()
    filled.checkpoint_id(2)
    assert ahead <= {file.name for file in filled.world.chain.database.files}


def test_an_epoch_that_changes_much_puts_nothing_off(filled):
    filled.merge()
    filled.checkpoint_id(*range(KEYS))
    assert not waits(filled.world.chain)


def test_nothing_is_put_off_when_changes_are_not_known(filled, monkeypatch):
    monkeypatch.setattr(rocksdb_store, "_MOST_CHANGED_BYTES", 100)
    filled.merge()
    filled.checkpoint_id(1, 2, 3)
    assert not waits(filled.world.chain)
    filled.merge()
    assert filled.checkpoint_id() == 0
    filled.world.crash(lose_local=True)
    filled.check()


@pytest.mark.parametrize(
    ("limit", "value"), [("_MOST_CHANGES", 3), ("_MOST_CHANGED_BYTES", 620)], ids=["many", "large"]
)
def test_a_restore_has_a_limited_number_of_changes_to_apply(filled, monkeypatch, limit, value):
    monkeypatch.setattr(shared_files, limit, value)
    filled.merge()
    waited = []
    for checkpoint_id in range(6):
        filled.checkpoint_id(checkpoint_id)
        waited.append(waits(filled.world.chain))
    assert waited == [True, True, True, False, False, False]


def test_without_incremental_checkpoints_nothing_is_put_off(tmp_path):
    filled = Filled(World("rocksdb", tmp_path, incremental=False))
    filled.merge()
    assert filled.checkpoint_id(1) > AT_ONCE
    assert not waits(filled.world.chain)
    filled.world.backend.close()


def test_ranges_that_were_deleted_stay_deleted(filled):
    backend = filled.world.backend
    items = backend.get_state(MapStateDescriptor("items"))
    backend.current_key = 1
    for number in range(100):
        items.put(number, number)
    filled.world.barrier()
    filled.merge()
    items.clear()
    items.put(3, "new")
    filled.world.barrier()
    assert waits(filled.world.chain)
    filled.world.crash(lose_local=True)
    assert contents(filled.world.backend)["state/items"] == {1: {3: "new"}}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.integers(0, 40)),
        st.tuples(st.just("remove"), st.integers(0, 40)),
        st.tuples(
            st.sampled_from(["merge", "barrier", "lost", "crash", "crash elsewhere"]), st.none()
        ),
    ),
    max_size=30,
)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck), deadline=None)
@given(steps=STEPS)
def test_any_history_of_merges_and_crashes_restores_the_last_checkpoint(steps, tmp_path_factory):
    filled = Filled(World("rocksdb", tmp_path_factory.mktemp("world")))
    completed = dict(filled.expected)
    for step, key in steps:
        if step == "update":
            filled.update([key, key + 100])
        elif step == "remove":
            filled.remove(key)
        elif step == "merge":
            filled.merge()
        elif step == "barrier":
            filled.world.barrier()
            completed = dict(filled.expected)
        else:
            if step == "lost":  # the subtask's snapshot was written, and the epoch failed elsewhere
                filled.world.write(chain=filled.world.chain)
            filled.world.crash(lose_local=step == "crash elsewhere")
            filled.expected = dict(completed)
            filled.check()
    filled.world.barrier()
    filled.world.crash(lose_local=True)
    filled.check()
    filled.world.backend.close()


@pytest.mark.parametrize("follows", [True, False], ids=["written", "lost"])
def test_files_are_put_off_only_if_the_changes_before_were_written(rocks, follows):
    filled = Filled(rocks)
    filled.merge()
    for keys, is_written in (([1, 2], follows), ([3], True)):
        filled.update(keys)
        _, write = rocks.begin(chain=rocks.chain)
        if is_written:
            rocks.chain = write(rocks.chain, follows)
    names = [file.local for file in rocks.chain.database.files]
    assert any(name.startswith("changes@") for name in names) == follows
    rocks.crash(lose_local=True)
    filled.check()
