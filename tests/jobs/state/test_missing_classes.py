"""State of classes that are not there: lists go on, values say what is missing."""

from __future__ import annotations

import re
import sys
import types

import pytest

from penstock import state
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import CheckpointError, RestoreRefusedError
from penstock.state.unpickling import load, load_leniently
from tests.builders.environments import stateful_environment
from tests.jobs.state.jobs import MONOTONOUS, checkpoint, script


@pytest.fixture
def shop():
    """A module of the job, with a class that its state holds."""
    module = sys.modules["vanishing_shop"] = types.ModuleType("vanishing_shop")
    exec(
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Order:\n    item: str\n    key: int = 0\n",
        module.__dict__,
    )
    yield module
    sys.modules.pop("vanishing_shop", None)


class Orders(KeyedProcessFunction):
    def open(self, context):
        self.last = context.get_state(ValueStateDescriptor("last"))
        self.all = context.get_list_state(ListStateDescriptor("all"))
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        order = sys.modules["vanishing_shop"].Order(value[0], value[1])
        self.last.update(order)
        self.all.add(order)
        self.count.update((self.count.value() or 0) + 1)


@pytest.fixture
def orders(backend, cluster, tmp_path, shop):
    env = stateful_environment(backend, tmp_path)
    source = env.from_source(script([("tea", 1)], [("tea", 2)]), MONOTONOUS, "orders")
    processed = source.uid("source").key_by(lambda pair: pair[0]).process(Orders()).uid("orders")
    with processed.execute_and_collect() as found:
        assert list(found) == []
    savepoint = state.edit(checkpoint(tmp_path, 2)).write(tmp_path / "savepoints")
    del sys.modules["vanishing_shop"]
    return {"checkpoint": checkpoint(tmp_path, 2), "savepoint": savepoint}


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_operators_can_be_listed(orders, kind):
    snapshot = state.read(orders[kind])
    states = {each.name: each.entries for each in snapshot.operator("orders").states}
    assert (states["last"], states["all"], states["count"]) == (1, 1, 1)


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_values_with_missing_classes_name_the_class(orders, kind):
    snapshot = state.read(orders[kind])
    with pytest.raises(CheckpointError) as raised:
        list(snapshot.state("orders", "last"))
    assert "cannot import" in raised.value.message
    assert "vanishing_shop" in str(raised.value)
    assert "PYTHONPATH" in raised.value.hint


def test_unreadable_state_error_names_operator_and_state(orders, backend, tmp_path):
    options = {"execution.state-recovery.path": orders["savepoint"]}
    with pytest.raises(RestoreRefusedError) as raised:
        count_orders(stateful_environment(backend, tmp_path / "second", **options))
    assert re.search("in state 'state/(last|all)' of operator 'orders'", str(raised.value))
    assert "vanishing_shop" in str(raised.value)


def test_a_state_of_a_class_that_is_gone_can_be_dropped(orders, backend, cluster, tmp_path):
    editor = state.edit(orders["savepoint"])
    editor.drop_state("orders", "last").drop_state("orders", "all")
    options = {"execution.state-recovery.path": editor.write(tmp_path / "dropped")}
    env = stateful_environment(backend, tmp_path / "second", **options)
    assert count_orders(env) == [3]


class Counted(KeyedProcessFunction):
    """Counts orders, and has no use for them otherwise."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


def count_orders(env):
    source = env.from_source(script([("tea", 1)], [("tea", 2)], [("tea", 3)]), MONOTONOUS, "orders")
    counted = source.uid("source").key_by(lambda pair: pair[0]).process(Counted()).uid("orders")
    with counted.execute_and_collect() as found:
        return list(found)


def test_with_the_class_values_are_read(orders, shop):
    sys.modules["vanishing_shop"] = shop
    for path in orders.values():
        assert list(state.read(path).state("orders", "last")) == [("tea", shop.Order("tea", 2))]


def test_unknown_objects_are_equal_if_their_parts_are(shop):
    import pickle

    pickles = [pickle.dumps(shop.Order(item)) for item in ("tea", "tea", "jam")]
    del sys.modules["vanishing_shop"]
    one, same, other = map(load_leniently, pickles)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert "vanishing_shop.Order" in repr(one)


def test_a_damaged_pickle_is_named():
    with pytest.raises(CheckpointError, match="could not unpickle the splits of source 'x'"):
        load(b"\x80\x05nonsense", "the splits of source 'x'")


def test_a_class_that_has_changed_does_not_keep_lists_from_going_on(shop):
    import pickle

    data = pickle.dumps({"orders": [shop.Order("tea")], "count": 1})
    exec("class Order:\n    def __setstate__(self, state): raise ValueError('no')", shop.__dict__)
    shop.Order.__module__ = "vanishing_shop"
    found = load_leniently(data)
    assert (found["count"], len(found["orders"])) == (1, 1)
    with pytest.raises(CheckpointError, match="could not unpickle"):
        load(data, "the state")


def test_a_module_that_cannot_be_imported_any_more_does_not_either(tmp_path, monkeypatch):
    import pickle

    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "soon_broken.py"
    file.write_text("class Thing:\n    pass\n")
    from soon_broken import Thing

    data = pickle.dumps([Thing()])
    monkeypatch.delitem(sys.modules, "soon_broken")
    file.write_text("raise RuntimeError('no')")
    assert len(load_leniently(data)) == 1
