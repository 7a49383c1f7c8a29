"""Classes that are pickled by value become those of the program that restores their objects."""

from __future__ import annotations

import dataclasses
import pickle
import sys
import types
from typing import Any

import pytest

from penstock.errors import RestoreRefusedError
from penstock.pickling import cloudpickling, program_classes
from penstock.runtime.state import class_shapes
from penstock.runtime.state.class_shapes import ClassShape
from penstock.savepoint.open_json import UnopenedPickle

ORDER = """
import dataclasses
@dataclasses.dataclass
class Order:
    price: int
    def total(self): return '{}'
"""


def script(monkeypatch: pytest.MonkeyPatch, text: str) -> Any:
    """Let this process run a script."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(text, module.__dict__)
    return module


def test_an_object_of_an_earlier_run_gets_the_class_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = cloudpickling.dumps(script(monkeypatch, ORDER.format("old")).Order(3))
    new = script(monkeypatch, ORDER.format("new")).Order
    with program_classes.using(program_classes.pickled_classes([])):
        restored = pickle.loads(old)
    assert type(restored) is new
    assert (restored.price, restored.total()) == (3, "new")
    assert program_classes.current() is None


def test_a_class_named_by_a_driver_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(script(monkeypatch, ORDER.format("old")).Order(3))
    pickled = program_classes.pickled_classes([])
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))  # a worker's
    with program_classes.using(pickled):
        assert program_classes.loads(data).total() == "old"
    with pytest.raises(AttributeError):
        program_classes.loads(data)


def test_a_class_named_in_a_nested_pickle_of_a_savepoint_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = pickle.dumps(
        UnopenedPickle(pickle.dumps(script(monkeypatch, ORDER.format("old")).Order(3)))
    )
    pickled = program_classes.pickled_classes([])
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))  # a worker's
    with program_classes.using(pickled):
        assert program_classes.loads(data).total() == "old"


def test_state_is_compared_with_the_class_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, ORDER.format("old"))
    pickled = program_classes.pickled_classes([])
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))  # a worker's
    same, other = (ClassShape("__main__:Order", "fields", (name,)) for name in ("price", "cost"))
    with program_classes.using(pickled):
        class_shapes.check("orders", "order", [same])
        with pytest.raises(RestoreRefusedError) as refused:
            class_shapes.check("orders", "order", [other])
    assert refused.value.detail == "fields in the state: cost; fields of the program: price"


def test_unpickling_does_not_change_a_class_of_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = script(monkeypatch, ORDER.format("old")).Order
    total = order.total
    assert pickle.loads(cloudpickling.dumps(order)) is order
    assert order.total is total


def test_classes_in_functions_and_those_that_cannot_be_sent_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = ORDER.format("old") + (
        "import threading\n"
        "@dataclasses.dataclass\nclass Locked:\n    lock = threading.Lock()\n"
        "class Plain: pass\n"
    )
    module = script(monkeypatch, text)

    @dataclasses.dataclass
    class Local:
        price: int

    found = program_classes.pickled_classes([Local, module.Plain])
    assert [(name, kind) for name, kind, _ in found] == [
        ("__main__", "Order"),
        ("__main__", "Plain"),
    ]
