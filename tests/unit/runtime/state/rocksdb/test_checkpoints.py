"""Checkpoints of a database: what is written, what is shared, what a restore needs, what damage does."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from penstock.checkpoint.handles import DamagedStateError, StateChain, checkpoint_id_of_file
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.graph.key_groups import key_group_of
from penstock.processes import temporary
from penstock.state_descriptors.descriptors import MapStateDescriptor, ValueStateDescriptor
from tests.unit.runtime.state.worlds import MAX_PARALLELISM, World, contents


def fill(backend, keys, value="x"):
    state = backend.get_state(ValueStateDescriptor("count"))
    for key in keys:
        backend.current_key = key
        state.update(value)


def test_a_checkpoint_writes_only_files_that_are_new(rocks):
    fill(rocks.backend, range(5000), "x" * 100)
    first = rocks.barrier()
    before = {path.name for path in rocks.files()}
    fill(rocks.backend, range(3))
    second = rocks.barrier()
    new = [path for path in rocks.files() if path.name not in before]
    tables = {file.name for file in first.database.files}
    assert tables < {file.name for file in second.database.files}
    assert sum(path.stat().st_size for path in new) < first.size / 10
    assert second.continues(first)
    fill(rocks.backend, [1], "z")
    third = rocks.barrier()
    assert third.continues(second)
    assert not third.continues(first)


def test_without_incremental_checkpoints_every_one_has_files_of_its_own(tmp_path):
    world = World("rocksdb", tmp_path, incremental=False)
    fill(world.backend, range(100))
    first = world.barrier()
    fill(world.backend, [1])
    second = world.barrier()
    assert not set(first.files()) & set(second.files())
    world.crash(lose_local=True)
    assert len(contents(world.backend)["state/count"]) == 100
    world.backend.close()


def test_an_epoch_without_changes_writes_nothing(world):
    fill(world.backend, range(3))
    first = world.barrier()
    before = world.files()
    assert world.write(chain=first) is None
    assert world.files() == before


def test_an_operator_without_state_has_no_database(rocks):
    rocks.backend.get_state(ValueStateDescriptor("count"))
    assert rocks.write() is None
    assert rocks.backend.store is None
    assert not list(rocks.directory.glob("local/**/CURRENT"))


@pytest.mark.parametrize("lose_local", [False, True], ids=["local copy", "from storage"])
def test_a_restore_finds_the_last_checkpoint(world, lose_local):
    fill(world.backend, range(100), "first")
    world.barrier()
    fill(world.backend, range(50), "second")
    world.barrier()
    fill(world.backend, range(100), "lost")
    world.crash(lose_local=lose_local)
    found = contents(world.backend)["state/count"]
    assert [found[key] for key in range(100)] == ["second"] * 50 + ["first"] * 50


def test_spilled_entries_are_lost_with_the_attempt(rocks):
    fill(rocks.backend, range(10), "kept")
    rocks.barrier()
    fill(rocks.backend, range(10), "lost")
    rocks.backend._write_out()
    rocks.crash()
    assert set(contents(rocks.backend)["state/count"].values()) == {"kept"}


def test_a_checkpoint_that_no_manifest_names_is_not_gone_on_from(rocks):
    fill(rocks.backend, range(10), "kept")
    rocks.barrier()
    fill(rocks.backend, range(10), "lost")
    rocks.write(chain=rocks.chain)
    rocks.crash()
    assert set(contents(rocks.backend)["state/count"].values()) == {"kept"}
    fill(rocks.backend, [1], "next")
    rocks.barrier()
    rocks.crash(lose_local=True)
    found = contents(rocks.backend)["state/count"]
    assert (found[1], found[2]) == ("next", "kept")


@pytest.mark.parametrize(
    "interrupted", ["checkpoint", "store_files", "publish", "prune"], ids=lambda step: f"in {step}"
)
def test_an_attempt_that_dies_between_two_steps_leaves_the_last_checkpoint_as_it_was(
    rocks, interrupted, monkeypatch
):
    fill(rocks.backend, range(10), "kept")
    rocks.barrier()
    fill(rocks.backend, range(10), "lost")

    def die(*args, **kwargs):
        raise OSError("the process is gone")

    owner = {
        "checkpoint": rocks.backend.store,
        "store_files": type(rocks.io),
        "publish": rocks.backend.place,
        "prune": rocks.backend.place,
    }[interrupted]
    with monkeypatch.context() as patched:
        patched.setattr(owner, interrupted, die)
        with pytest.raises(OSError, match="the process is gone"):
            rocks.write(chain=rocks.chain)
    rocks.crash()
    assert set(contents(rocks.backend)["state/count"].values()) == {"kept"}
    rocks.crash(lose_local=True)
    assert set(contents(rocks.backend)["state/count"].values()) == {"kept"}


@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
def test_a_damaged_file_is_detected_and_named(rocks, damage):
    fill(rocks.backend, range(1000))
    rocks.barrier()
    (path,) = [path for path in rocks.files() if path.suffix == ".sst"]
    data = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(data[:-10])
    elif damage == "altered":
        path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    else:
        path.unlink()
    expected = CheckpointError if damage == "missing" else DamagedStateError
    with pytest.raises(expected, match=path.name):
        rocks.crash(lose_local=True)


def damage(file, start, end):
    """Alter the bytes of a file from one place to another, given as fractions of its size."""
    content = bytearray(file.read_bytes())
    part = slice(int(start * len(content)), int(end * len(content)))
    content[part] = bytes(byte ^ 85 for byte in content[part])
    file.write_bytes(content)


def test_a_damaged_local_copy_is_replaced_from_storage(rocks):
    fill(rocks.backend, range(1000))
    rocks.barrier()
    (current,) = rocks.directory.glob("local/**/snap-*/CURRENT")
    current.write_text("MANIFEST-999999\n")
    rocks.crash()
    assert len(contents(rocks.backend)["state/count"]) == 1000


@pytest.mark.parametrize("place", [(0, 0.1), (0.98, 1)], ids=["beginning", "end"])
def test_a_local_copy_whose_tables_cannot_be_read_is_replaced_from_storage(rocks, place):
    fill(rocks.backend, range(1000))
    rocks.barrier()
    (file,) = rocks.directory.glob("local/**/snap-*/*.sst")
    damage(file, *place)
    rocks.crash()
    assert len(contents(rocks.backend)["state/count"]) == 1000


def read_one_by_one(backend):
    state = backend.get_state(ValueStateDescriptor("count"))
    for key in range(1000):
        backend.current_key = key
        state.value()


def read_ahead(backend):
    backend.get_state(ValueStateDescriptor("count"))
    table = backend.table("state/count")
    table._worth = True
    table.expect(range(1000))


@pytest.mark.parametrize(
    "read",
    [
        read_one_by_one,
        read_ahead,
        lambda backend: backend.keys("state/count"),
        lambda backend: list(backend.store.scan_keys(b"\0", b"\xff")),
        lambda backend: list(backend.table("timers/event", namespaced=True).items()),
    ],
    ids=["get", "get many", "scan", "scan keys", "timers"],
)
def test_a_block_that_cannot_be_read_is_an_error_and_the_next_attempt_reads_from_storage(
    rocks, read
):
    rocks.settings = replace(rocks.settings, block_size=512)
    rocks.backend = rocks.create()
    fill(rocks.backend, range(1000))
    timers = rocks.backend.create_timer_queue("timers/event")
    for time in range(1000):
        timers.register(time, "key", None)
    rocks.barrier()
    restored_from_a_damaged_copy(rocks)
    with pytest.raises(CheckpointError, match="could not read"):
        read(rocks.backend)
    rocks.crash()
    found = contents(rocks.backend)
    assert len(found["state/count"]) == len(found["timers/event"]) == 1000


def test_an_error_of_the_database_that_user_code_has_caught_fails_the_epoch(rocks):
    rocks.settings = replace(rocks.settings, block_size=512)
    rocks.backend = rocks.create()
    fill(rocks.backend, range(1000))
    rocks.barrier()
    restored_from_a_damaged_copy(rocks)
    with pytest.raises(CheckpointError):
        read_one_by_one(rocks.backend)
    fill(rocks.backend, [5000])
    with pytest.raises(CheckpointError, match="an earlier read or write failed"):
        rocks.barrier()
    rocks.crash()
    assert len(contents(rocks.backend)["state/count"]) == 1000


def restored_from_a_damaged_copy(world):
    world.backend.close()
    (file,) = world.directory.glob("local/**/snap-*/*.sst")
    damage(file, 0.15, 0.7)
    world.backend = world.create()
    world.backend.restore(world.io, (world.chain,), None, MAX_PARALLELISM)


def test_local_copies_of_old_checkpoints_go_away(rocks):
    for checkpoint_id in range(6):
        fill(rocks.backend, [checkpoint_id])
        rocks.barrier()
    assert len(list(rocks.directory.glob("local/**/snap-*"))) == 2
    assert len(list(rocks.directory.glob("local/**/work-*"))) == 1
    rocks.backend.close()
    assert not list(rocks.directory.glob("local/**/work-*"))


def test_the_files_of_a_database_are_known_by_their_epoch(rocks):
    rocks.checkpoint_id = 41
    fill(rocks.backend, range(10))
    chain = rocks.barrier()
    assert {checkpoint_id_of_file(name) for name in chain.files()} == {42}


def test_another_job_uploads_all_files_again(rocks, tmp_path):
    fill(rocks.backend, range(100))
    chain = rocks.barrier().relocated(CheckpointFileSystem(f"{tmp_path}/storage"))
    assert all(name.startswith("/") for name in chain.files())
    other = World("rocksdb", tmp_path / "other")
    other.chain = chain
    other.crash()
    fill(other.backend, [1], "y")
    other.barrier()
    assert not any(name.startswith("/") for name in other.chain.files())
    for path in rocks.files():
        path.unlink()
    other.crash(lose_local=True)
    assert len(contents(other.backend)["state/count"]) == 100
    other.backend.close()


def test_a_chain_survives_the_manifest(rocks):
    fill(rocks.backend, range(10))
    chain = rocks.barrier()
    assert StateChain.from_json(chain.to_json()) == chain


@pytest.mark.parametrize("target", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("steps", [[1, 3, 2], [2, 1, 4]], ids=["1-3-2", "2-1-4"])
def test_state_follows_its_key_groups_to_another_parallelism(world, steps, target):
    chains, expected = [], {}
    kind = world.kind
    for step, parallelism in enumerate(steps):
        if step:
            backends = [world.rescaled(chains, i, parallelism, kind) for i in range(parallelism)]
        else:
            world.backend.close()
            backends = [world.create(subtask) for subtask in range(parallelism)]
        chains = []
        for subtask, backend in enumerate(backends):
            count = backend.get_state(ValueStateDescriptor("count"))
            items = backend.get_state(MapStateDescriptor("items"))
            timers = backend.create_timer_queue("timers/event")
            panes = backend.table("panes/x", namespaced=True)
            owned = range(
                -(-subtask * MAX_PARALLELISM // parallelism),
                -(-(subtask + 1) * MAX_PARALLELISM // parallelism),
            )
            for key in [k for k in range(200) if key_group_of(k, MAX_PARALLELISM) in owned]:
                backend.current_key = key
                assert count.value() == expected.get(key)
                count.update(step)
                items.put(f"step {step}", key)
                assert len(items.items()) == step + 1
                timers.register(100 * step + key, key, None)
                panes.put((key, step), key)
                expected[key] = step
            chains.append(world.write(backend, None, force=True))
            backend.close()
        kind = target
    total = {}
    for subtask in range(2):
        backend = world.rescaled(chains, subtask, 2, target)
        for name, entries in contents(backend).items():
            assert not total.get(name, {}).keys() & entries.keys()
            total.setdefault(name, {}).update(entries)
        backend.close()
    last = len(steps) - 1
    assert total["state/count"] == dict.fromkeys(range(200), last)
    assert len(total["timers/event"]) == 200 * len(steps)
    assert len(total["panes/x"]) == 200 * len(steps)
    assert total["state/items"][7] == {f"step {n}": 7 for n in range(len(steps))}


@pytest.mark.parametrize("other", ["hashmap", "rocksdb"])
def test_the_backend_may_change_between_two_runs(world, other):
    fill(world.backend, range(100))
    items = world.backend.get_state(MapStateDescriptor("items"))
    for key in range(10):
        world.backend.current_key = key
        items.put_all({"a": key, "b": -key})
    world.backend.create_timer_queue("timers/event").register(5, "a", None)
    before = contents(world.backend)
    world.barrier()
    world.backend.close()
    world.kind = other
    world.backend = world.create()
    world.backend.restore(world.io, (world.chain,), None, MAX_PARALLELISM)
    assert contents(world.backend) == before
    world.chain = world.write(force=True)
    world.crash(lose_local=True)
    assert contents(world.backend) == before


def test_a_database_that_is_opened_again_has_its_options(rocks):
    fill(rocks.backend, range(100))
    rocks.barrier()
    for lose_local in (False, True):
        rocks.crash(lose_local=lose_local)
        fill(rocks.backend, range(100))
        rocks.backend.snapshot()
        rocks.backend.store.compact()
        properties = rocks.backend.store._db.property_value("rocksdb.aggregated-table-properties")
        assert "filter block size=0" not in properties


DEAD = temporary.this_process().replace(f".{os.getpid()}.", ".999999999.")


def test_files_of_dead_processes_are_deleted(rocks):
    fill(rocks.backend, [1])
    rocks.barrier()
    stale = rocks.backend.place.path / f"work-{DEAD}-0"
    stale.mkdir()
    fill(rocks.backend, [2])
    rocks.barrier()
    assert not stale.exists()
