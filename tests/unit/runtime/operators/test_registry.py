"""Operators are found by what their specs say."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import penstock
from penstock.errors import InvalidProgramError, UnsupportedOperationError
from penstock.graph.operator_specs import OperatorSpec, SinkSpec, StateTableDescription, spec_kinds
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.operators.functions.stateless import MapOperator
from penstock.runtime.operators.registry import create_operator
from penstock.runtime.state.operator_state import SPLIT, WRITERS
from penstock.state.catalog import describe_operator_state, describe_table
from penstock.testing import OperatorHarness
from tests.builders.cases import check_all

ROOT = Path(penstock.__file__).parent
KINDS = sorted(
    {kind for kind in spec_kinds() if kind.operator and kind.__module__.startswith("penstock.")},
    key=lambda kind: kind.__name__,
)


class Doubling(MapOperator):
    """An operator of another package."""

    def open(self, context: Any) -> None:
        self.output = context.output
        self.context = context

    def process(self, batch: Any, input_index: int = 0) -> None:
        self.output.emit(type(batch)([value * 2 for value in batch.values], batch.timestamps))


@dataclass(frozen=True, slots=True)
class ByAddress(OperatorSpec):
    operator = f"{__name__}:Doubling"


@dataclass(frozen=True, slots=True)
class ByClass(OperatorSpec):
    operator = Doubling
    state_tables = (StateTableDescription("medians", "list", "the values so far", "window"),)
    operator_states = ("pending",)


@dataclass(frozen=True, slots=True)
class ByField(OperatorSpec):
    twice: bool = True

    @property
    def implementation(self) -> Any:
        return Doubling if self.twice else "no.such:thing"


def test_operator_address_of_every_spec_exists() -> None:
    def check(kind: type[OperatorSpec]) -> None:
        for address in {kind.operator, getattr(kind, "tolerant_operator", kind.operator)}:
            module, _, name = address.partition(":")
            found = getattr(__import__(module, fromlist=[name]), name)
            assert not isinstance(found, type) or issubclass(found, StreamOperator)

    # A dataclass with slots is made twice, so names alone are not unique.
    check_all({f"{kind.__name__} {at}": kind for at, kind in enumerate(KINDS)}, check)


def test_all_kinds_are_among_them() -> None:
    assert len(KINDS) >= 24


@pytest.mark.parametrize(
    "spec", [ByAddress(), ByClass(), ByField()], ids=lambda s: type(s).__name__
)
def test_a_spec_of_another_package_names_its_own_operator(spec: OperatorSpec) -> None:
    harness = OperatorHarness(spec)
    harness.process_element(21)
    assert harness.values() == [42]


def test_a_spec_that_a_program_defines_itself_travels_with_its_operator(tmp_path: Path) -> None:
    """Neither class can be imported where the task runs, as those of a notebook."""

    class Halving(StreamOperator):
        def process(self, batch: Any, input_index: int = 0) -> None:
            raise NotImplementedError

    @dataclass(frozen=True, slots=True)
    class HalvingSpec(OperatorSpec):
        operator = Halving
        least: int = 1

    pickled = tmp_path / "spec"
    pickled.write_bytes(cloudpickle.dumps(HalvingSpec(3), 5))
    code = f"""
import pickle
from penstock.runtime.operators.registry import create_operator
operator = create_operator(pickle.load(open({str(pickled)!r}, "rb")))
print(type(operator).__name__, operator.spec.least)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["Halving", "3"], ran.stderr


def test_a_spec_that_names_nothing_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="no operator for OperatorSpec") as caught:
        create_operator(OperatorSpec())
    assert "operator =" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        pytest.param("no.such.module:Thing", "could not load", id="no such module"),
        pytest.param(f"{__name__}:Nothing", "could not load", id="no such name"),
        pytest.param(f"{__name__}", "could not load", id="no name"),
        pytest.param(":Doubling", "could not load", id="no module"),
        pytest.param(f"{__name__}:ROOT", "neither a class nor a function", id="not callable"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(address: str, message: str) -> None:
    @dataclass(frozen=True, slots=True)
    class Lost(OperatorSpec):
        @property
        def implementation(self) -> str:
            return address

    with pytest.raises(InvalidProgramError, match=f"the operator of Lost .*{message}|{message}"):
        create_operator(Lost())


def test_tools_know_the_tables_of_another_package() -> None:
    table = describe_table("medians", True, None, None, None)
    assert (table.kind, table.type, table.scope, table.internal) == (
        "list",
        "the values so far",
        "window",
        False,
    )
    assert describe_operator_state(f"{SPLIT}pending", []).internal
    assert not describe_operator_state(f"{SPLIT}users", []).internal


def test_table_without_owner_is_internal() -> None:
    table = describe_table("no-such-table", False, None, None, None)
    assert (table.kind, table.scope, table.internal) == ("value", None, True)


def test_a_sink_owns_the_states_of_its_writers() -> None:
    assert SinkSpec.operator_states == (WRITERS.removeprefix(SPLIT),)


def test_workers_are_forked_with_operators_but_without_the_api() -> None:
    code = """
import sys
from penstock.runtime.operators.registry import preload
preload()
print("penstock.runtime.cep.cep_operator" in sys.modules, "penstock.runtime.operators.windows.window" in sys.modules)
print([name for name in ("penstock.datastream", "asyncio", "pyarrow") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["True True", "[]"], ran.stderr


def asks_for_a_kind(source: str) -> list[str]:
    """Return where a module asks whether a spec is of one kind or another."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            names = [n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)]
        elif isinstance(node, ast.MatchClass):
            names = [ast.unparse(node.cls)]
        else:
            continue
        found += [name for name in names if name.endswith("Spec") and name != "OperatorSpec"]
    return found


def test_no_code_asks_for_the_kind_of_a_spec() -> None:
    """What must be known about an operator is a trait of its spec, or of its node in a plan, so that new ones need no other change."""
    asking = {
        str(path.relative_to(ROOT)): kinds
        for path in ROOT.rglob("*.py")
        if (kinds := asks_for_a_kind(path.read_text()))
    }
    assert asking == {}


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(x, SinkSpec)",
        "isinstance(x.spec, (SinkSpec, int))",
        "isinstance(x, A | SinkSpec)",
        "match x:\n    case SinkSpec():\n        pass",
    ],
)
def test_questions_for_a_kind_are_found(source: str) -> None:
    assert asks_for_a_kind(source) == ["SinkSpec"]
