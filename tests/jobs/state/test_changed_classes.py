"""A class whose fields have changed is noticed when its state is restored, before user code reads an old object."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import state
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction, MapFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import RestoreRefusedError
from tests.builders.environments import stateful_environment
from tests.jobs.state.jobs import MONOTONOUS, checkpoint, script

MODULE = "renaming_shop"
ORDER = (
    "import dataclasses\n@dataclasses.dataclass\nclass Order:\n    item: str\n    price: int = 0\n"
)


def program(source: str) -> None:
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    exec(source, module.__dict__)


@pytest.fixture(autouse=True)
def _without_the_module() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


class Orders(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.last = context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        before = self.last.value()
        self.last.update(sys.modules[MODULE].Order(value[0]))
        yield f"{value[1]} {before!r}"


def run(env: Any, *records: Any) -> list[str]:
    source = env.from_source(script(*([each] for each in records)), MONOTONOUS, "orders")
    processed = source.uid("source").key_by(lambda pair: pair[0]).process(Orders()).uid("orders")
    with processed.execute_and_collect() as found:
        return list(found)


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_a_renamed_field_is_refused_and_a_new_one_with_a_default_is_not(
    backend: str, cluster: object, tmp_path: Path, kind: str
) -> None:
    program(ORDER)
    run(stateful_environment(backend, tmp_path), ("tea", 1), ("tea", 2))
    start = str(checkpoint(tmp_path, 2))
    if kind == "savepoint":
        start = str(state.edit(start).write(tmp_path / "savepoints"))
    options = {"execution.state-recovery.path": start, "restart-strategy.type": "exponential-delay"}
    records = [("tea", 1), ("tea", 2), ("tea", 3)]

    program(ORDER.replace("price", "amount"))
    with pytest.raises(RestoreRefusedError) as refused:
        run(stateful_environment(backend, tmp_path / "second", **options), *records)
    assert refused.value.message == (
        "state 'last' of operator 'KEYED PROCESS' has objects of the class renaming_shop.Order, which has changed"
    )
    assert (
        refused.value.detail
        == "fields in the state: item, price; fields of the program: item, amount"
    )

    program(f"{ORDER}    tax: int = 7\n")
    found = run(stateful_environment(backend, tmp_path / "third", **options), *records)
    # Started from a checkpoint, the job publishes the output of that checkpoint first.
    assert found[-1] == "3 Order(item='tea', price=0, tax=7)"


def test_changed_keyed_state_is_not_compared_with_the_old_classes(
    backend: str, cluster: object, tmp_path: Path
) -> None:
    program(ORDER)
    run(stateful_environment(backend, tmp_path), ("tea", 1), ("tea", 2))
    edit = state.edit(str(checkpoint(tmp_path, 2)))
    edit.change("orders", "last", lambda _, order: order.item)
    path = str(edit.write(tmp_path / "savepoints"))

    program(ORDER.replace("price", "amount"))
    options = {"execution.state-recovery.path": path}
    env = stateful_environment(backend, tmp_path / "second", **options)
    assert run(env, ("tea", 1), ("tea", 2), ("tea", 3)) == ["3 'tea'"]


class Kept(MapFunction, CheckpointedFunction):
    def __init__(self, method: str) -> None:
        self.method = method

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.kept = getattr(store, self.method)(ListStateDescriptor("kept"))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> str:
        self.kept.add(sys.modules[MODULE].Order(value[0]))
        return f"{value[1]} {list(self.kept)!r}"


def run_kept(env: Any, method: str, *records: Any) -> list[str]:
    source = env.from_source(script(*([each] for each in records)), MONOTONOUS, "orders")
    with source.uid("source").map(Kept(method)).uid("orders").execute_and_collect() as found:
        return list(found)


def kept_orders(method: str, tmp_path: Path) -> str:
    """Run a job with objects in operator state; return the path of a checkpoint."""
    program(ORDER)
    run_kept(stateful_environment("hashmap", tmp_path), method, ("tea", 1), ("tea", 2))
    return str(checkpoint(tmp_path, 2))


RECORDS = [("tea", 1), ("tea", 2), ("tea", 3)]


@pytest.mark.parametrize("method", ["get_list_state", "get_union_list_state"])
@pytest.mark.parametrize("parallelism", [2, 1])
@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_a_renamed_field_in_operator_state_is_refused(
    cluster: object, tmp_path: Path, kind: str, parallelism: int, method: str
) -> None:
    start = kept_orders(method, tmp_path)
    if kind == "savepoint":
        start = str(state.edit(start).write(tmp_path / "savepoints"))
    options = {"execution.state-recovery.path": start}

    program(ORDER.replace("price", "amount"))
    env = stateful_environment("hashmap", tmp_path / "second", parallelism, **options)
    with pytest.raises(RestoreRefusedError) as refused:
        run_kept(env, method, *RECORDS)
    assert "state 'kept'" in refused.value.message
    assert "renaming_shop.Order, which has changed" in refused.value.message

    program(f"{ORDER}    tax: int = 7\n")
    env = stateful_environment("hashmap", tmp_path / "third", parallelism, **options)
    found = run_kept(env, method, *RECORDS)
    assert "Order(item='tea', price=0, tax=7)" in found[-1]


EDITS = {
    "changed": lambda edit: edit.change("orders", "kept", lambda _, order: order.item),
    "replaced": lambda edit: edit.put_operator_list("orders", "kept", ["tea", "tea"]),
    "dropped and put": lambda edit: edit.drop_state("orders", "kept").put_operator_list(
        "orders", "kept", ["tea", "tea"]
    ),
    "operator dropped and added": lambda edit: (
        edit.drop_operator("orders")
        .add_operator("orders")
        .put_operator_list("orders", "kept", ["tea", "tea"])
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_operator_state_is_not_compared_with_the_old_classes(
    cluster: object, tmp_path: Path, edit: str
) -> None:
    start = kept_orders("get_list_state", tmp_path)
    path = str(EDITS[edit](state.edit(start)).write(tmp_path / "savepoints"))

    program(ORDER.replace("price", "amount"))
    options = {"execution.state-recovery.path": path}
    env = stateful_environment("hashmap", tmp_path / "second", 1, **options)
    found = run_kept(env, "get_list_state", *RECORDS)
    assert found[-1] == "3 ['tea', 'tea', Order(item='tea', amount=0)]"
