"""A class whose fields have changed is noticed when its state is restored, before user code reads an old object."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import state
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
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
