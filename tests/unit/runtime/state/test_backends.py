"""The backends that there are, and what a new one needs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock import options
from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.errors import UnsupportedOperationError
from penstock.graph.state_backend import StateBackendSettings
from penstock.options.configuration import Configuration
from penstock.runtime.state import backends
from penstock.runtime.state.backends import BACKENDS
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.runtime.state.hashmap.state_backend import HashMapStateBackendFactory
from penstock.runtime.state.keyed import KeyedStateBackend
from penstock.runtime.state.state_backend import StatePlace
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from penstock.testing import OperatorHarness
from tests.unit.runtime.state.worlds import World

PLACE = StatePlace("job", "counter", "0.0", 0, 128)
TABLES = StateChain((StateHandle("full", 0, 0, (0, 127), data=b""),))
DATABASE = StateChain((StateHandle("full", 0, 0, (0, 127), data=b"", snapshot="7-op-0-a1"),))


def test_the_option_has_the_names_of_all_backends():
    for name in BACKENDS:
        configuration = Configuration.from_dict({"state.backend.type": name})
        assert backends.backend_settings(configuration).name == name
    assert backends.backend_settings(Configuration()).name == "hashmap"
    assert set(options.STATE_BACKEND.choices) == set(BACKENDS)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_is_made_by_its_name(name, tmp_path):
    settings = BACKENDS[name].settings(Configuration()).in_directory(str(tmp_path))
    made = backends.create_backend(settings, lambda: 7, PLACE)
    assert isinstance(made, KeyedStateBackend)
    assert (made.operator, made.clock()) == ("counter", 7)
    made.current_key = "k"
    made.get_state(ValueStateDescriptor("v")).update(1)
    made.snapshot()
    assert bool(list(tmp_path.iterdir())) is (not made.in_memory)
    made.close()
    backends.remove_local_state(settings, "job")
    assert list(tmp_path.glob("*/*")) == []


@pytest.mark.parametrize(
    ("chain", "reader"), [(TABLES, "hashmap"), (DATABASE, "rocksdb"), (StateChain(), "hashmap")]
)
def test_every_chain_has_one_reader(chain, reader):
    assert [name for name, backend in BACKENDS.items() if backend.reads(chain)] == [reader]


def test_only_a_backend_with_a_database_reads_one(tmp_path):
    with pytest.raises(UnsupportedOperationError, match="has no database to read"):
        BACKENDS["hashmap"].read_files(tmp_path, 128)


class Loud(HashMapKeyedStateBackend):
    """Keeps its snapshots to itself, and says so."""

    def begin_snapshot(self, state_io, chain, name, *, force):
        taken = SimpleNamespace(database=None, loud=self.snapshot())
        return taken, lambda chain, follows: taken


class LoudBackend(HashMapStateBackendFactory):
    """A third backend: what a folder of its own would hold."""

    def create(self, settings, clock, place, read_chain):
        return Loud(clock, place.operator, read_chain)

    def create_temporary(self, clock, operator, max_parallelism):
        return Loud(clock, operator)

    def reads(self, chain):
        return hasattr(chain, "loud")

    def read(self, state_io, chain, max_parallelism, owned):
        yield chain.loud


def test_a_third_backend_is_one_line(monkeypatch, tmp_path):
    """And the others start from what it wrote."""
    monkeypatch.setitem(BACKENDS, "loud", LoudBackend())
    made = backends.create_backend(StateBackendSettings("loud"), lambda: 0, PLACE)
    made.current_key = "k"
    made.get_state(ValueStateDescriptor("v")).update(1)
    chain, _ = made.begin_snapshot(None, None, None, force=False)
    for kind in ("hashmap", "rocksdb"):
        world = World(kind, tmp_path / kind)
        world.backend.restore(None, (chain,), None, 128)
        world.backend.current_key = "k"
        assert world.backend.get_state(ValueStateDescriptor("v")).value() == 1
        world.backend.close()


def test_the_harness_takes_any_backend(monkeypatch):
    from penstock.graph.operator_specs import MapSpec

    monkeypatch.setitem(BACKENDS, "loud", LoudBackend())
    assert isinstance(OperatorHarness(MapSpec(str), state_backend="loud").keyed_state, Loud)
    with pytest.raises(ValueError, match="'hashmap' or 'rocksdb' or 'loud', not 'other'"):
        OperatorHarness(MapSpec(str), state_backend="other")
