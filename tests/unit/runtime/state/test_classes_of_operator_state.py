"""Objects in list, union list and broadcast state whose class has changed: refused when the state is requested."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.datastream import CheckpointedFunction, MapFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.errors import RestoreRefusedError
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.operator_specs import MapSpec
from penstock.runtime.state.class_shapes import ClassShape
from penstock.runtime.state.operator_state import OperatorStateBackend
from penstock.runtime.state.redistribution import restore_local
from penstock.testing import OperatorHarness

MODULE = "changing_operator_shop"
ORDER = (
    "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Order:\n    price: int = 0\n"
)
RENAMED = ORDER.replace("price", "amount")
LISTS = ["get_list_state", "get_union_list_state"]


def program(source: str) -> Any:
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    exec(source, module.__dict__)
    return module


@pytest.fixture(autouse=True)
def _without_the_module() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


class Orders(MapFunction, CheckpointedFunction):
    """Keeps an order per record in list state or union list state, if it is not told to ignore the state."""

    def __init__(self, method: str, *, requests: bool = True) -> None:
        self.method = method
        self.requests = requests

    def initialize_state(self, context: Any) -> None:
        if self.requests:
            store = context.get_operator_state_store()
            self.state = getattr(store, self.method)(ListStateDescriptor("orders"))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: int) -> str:
        self.state.add(sys.modules[MODULE].Order(value))
        return repr(list(self.state))


def harness(method: str, *snapshots: Any, requests: bool = True, **place: int) -> OperatorHarness:
    return OperatorHarness(
        MapSpec(Orders(method, requests=requests)), snapshots=snapshots, name="orders", **place
    )


def snapshot_of(method: str, *prices: int) -> Any:
    first = harness(method)
    for price in prices:
        first.process_element(price)
    return first.snapshot()


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_renamed_field_is_refused_at_the_same_and_another_parallelism(
    method: str, parallelism: int
) -> None:
    program(ORDER)
    taken = snapshot_of(method, 1, 2)
    program(RENAMED)
    with pytest.raises(RestoreRefusedError) as refused:
        harness(method, taken, parallelism=parallelism, subtask=parallelism - 1)
    assert refused.value.message == (
        f"state 'orders' of operator 'orders' has objects of the class {MODULE}.Order, which has changed"
    )
    assert refused.value.detail == "fields in the state: price; fields of the program: amount"


@pytest.mark.parametrize("method", LISTS)
def test_a_new_field_with_a_default_is_restored(method: str) -> None:
    program(ORDER)
    taken = snapshot_of(method, 1)
    program(ORDER + "    tax: int = 7\n")
    second = harness(method, taken)
    second.process_element(2)
    assert second.values() == ["[Order(price=1, tax=7), Order(price=2, tax=7)]"]


def test_a_state_that_is_not_requested_keeps_its_classes() -> None:
    program(ORDER)
    taken = snapshot_of("get_list_state", 1)
    program(RENAMED)
    later = harness("get_list_state", taken, requests=False).snapshot()
    with pytest.raises(RestoreRefusedError, match="which has changed"):
        harness("get_list_state", later)


def test_a_subtask_without_elements_is_not_refused() -> None:
    program(ORDER)
    taken = snapshot_of("get_list_state", 1)
    program(RENAMED)
    second = harness("get_list_state", taken, parallelism=2, subtask=1)
    second.process_element(2)
    assert second.values() == ["[Order(amount=2)]"]


@pytest.mark.parametrize("in_key", [True, False])
def test_broadcast_state_is_compared_by_keys_and_values(in_key: bool) -> None:
    order = program(ORDER).Order(1)
    descriptor = MapStateDescriptor("rules")
    backend = OperatorStateBackend()
    backend.get_broadcast_state(descriptor).put(*((order, 1) if in_key else (1, order)))
    taken = pickle.dumps((backend.snapshot(), backend.classes()))
    program(RENAMED)
    values, classes = pickle.loads(taken)
    restored = OperatorStateBackend(values, operator="follow", classes=classes)
    with pytest.raises(RestoreRefusedError, match="state 'rules' of operator 'follow'"):
        restored.get_broadcast_state(descriptor)


# Restoring a subtask


def local(*shapes: ClassShape) -> bytes:
    found = {"head": {"list/orders": shapes}} if shapes else {}
    return pickle.dumps(
        {
            "valve": (0, False, []),
            "floor": 0,
            "finished": False,
            "operators": {"head": {"list/orders": [1]}},
            "classes": found,
        }
    )


ONE, OTHER = (ClassShape(f"shop:{name}", "fields", ("price",)) for name in ("One", "Other"))


def test_a_rescaled_subtask_has_the_classes_of_all_former_ones() -> None:
    restore = SubtaskRestore(former={"head": (local(ONE), local(OTHER), local())})
    found = restore_local(restore, ["head"], 0, 2)
    assert found["classes"] == {"head": {"list/orders": (ONE, OTHER)}}


def test_an_unchanged_subtask_has_its_own_classes() -> None:
    former = (local(ONE), local(OTHER))
    restore = SubtaskRestore(local=former[1], former={"head": former})
    found = restore_local(restore, ["head"], 1, 2)
    assert found["classes"] == {"head": {"list/orders": (OTHER,)}}
