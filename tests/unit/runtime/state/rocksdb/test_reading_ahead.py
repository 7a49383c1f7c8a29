"""Entries of the keys of a batch are read in one call, where that is worth it."""

from __future__ import annotations

import random

import pytest

from penstock.runtime.state.rocksdb.tables import load
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from tests.unit.runtime.state.worlds import World


class Counted:
    """A world whose database counts its reads: single ones, and calls that read several."""

    def __init__(self, directory):
        self.world = World("rocksdb", directory)
        self.singles = self.calls = 0
        self.open()
        self.batch(range(100), ahead=False)
        self.barrier()

    def open(self):
        self.state = self.world.backend.get_state(ValueStateDescriptor("count"))

    def count(self):
        store = self.world.backend.store
        get = store._db.get

        def counting(key):
            if isinstance(key, list):
                self.calls += 1
            else:
                self.singles += 1
            return get(key)

        store._get = counting

    def barrier(self):
        self.world.barrier()
        self.count()

    def crash(self):
        self.world.crash()
        self.open()
        self.count()

    def batch(self, keys, *, ahead=True, touched=None):
        """Process records with these keys; only some of them look at their state if `touched` says so."""
        keys = list(keys)
        self.singles = self.calls = 0
        if ahead:
            self.world.backend.expect(keys)
        for key in keys if touched is None else touched:
            self.world.backend.current_key = key
            self.state.update((self.state.value() or 0) + 1)
        return self.calls, self.singles


@pytest.fixture
def counted(tmp_path):
    made = Counted(tmp_path)
    yield made
    made.world.backend.close()


def test_a_table_learns_from_a_batch_that_its_keys_are_read(counted):
    assert counted.batch(range(10)) == (0, 10)
    assert counted.batch(range(10, 20)) == (1, 0)
    counted.barrier()
    assert counted.batch(range(20)) == (1, 0)
    assert counted.batch(range(20)) == (0, 0)


def test_table_stops_prefetching_unused_entries(counted):
    counted.batch(range(10))
    assert counted.batch(range(10, 20), touched=[]) == (1, 0)
    assert counted.batch(range(20, 30), touched=[21]) == (0, 1)
    assert counted.batch(range(30, 40)) == (0, 10)
    assert counted.batch(range(40, 50)) == (1, 0)


def test_prefetch_decision_is_stored_for_other_processes(counted):
    counted.batch(range(10))
    counted.barrier()
    counted.crash()
    assert counted.batch(range(10)) == (1, 0)
    counted.batch(range(20, 30), touched=[20])
    counted.barrier()
    counted.crash()
    assert counted.batch(range(20), touched=[1]) == (0, 1)


def test_keys_without_an_entry_are_not_looked_for_twice(counted):
    counted.batch(range(10))
    assert counted.batch(range(200, 210)) == (1, 0)


def test_prefetched_entries_are_dropped_on_spill(counted):
    counted.batch(range(10))
    counted.world.backend.expect(range(50, 60))
    counted.world.backend.current_key = 50
    counted.state.update(77)
    counted.world.backend._write_out()
    counted.world.backend.current_key = 50
    assert counted.state.value() == 77


@pytest.mark.parametrize("seed", range(5))
def test_reading_ahead_changes_no_result(tmp_path, seed):
    chance = random.Random(seed)
    counted, expected = Counted(tmp_path), dict.fromkeys(range(100), 1)
    for _ in range(30):
        keys = [chance.randrange(150) for _ in range(20)]
        touched = chance.sample(keys, chance.randrange(20))
        counted.batch(keys, touched=touched)
        for key in touched:
            expected[key] = expected.get(key, 0) + 1
        if chance.random() < 0.2:
            counted.world.backend.current_key = keys[0]
            counted.state.clear()
            expected.pop(keys[0], None)
        chance.choice([lambda: None, counted.barrier, counted.world.backend._write_out])()
    found = {}
    for key in range(150):
        counted.world.backend.current_key = key
        found[key] = counted.state.value()
    assert {key: value for key, value in found.items() if value is not None} == expected
    counted.world.backend.close()


def test_many_keys_are_read_in_their_order_by_several_threads(counted):
    counted.batch(range(1000), ahead=False)
    counted.barrier()
    table = counted.world.backend._tables["state/count"]
    keys = list(range(1200, -1, -1))
    found = counted.world.backend.store.get_many([table.encode_entry(key) for key in keys])
    assert [value is not None for value in found] == [key < 1000 for key in keys]
    assert [load(value) for value in found if value is not None] == [
        2 if key < 100 else 1 for key in keys if key < 1000
    ]
    assert counted.calls > 1
