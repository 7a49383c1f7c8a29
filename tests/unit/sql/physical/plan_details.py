"""All that a plan says, one line for each node: `python -m tests.unit.sql.physical.plan_details` rewrites plan_details.txt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from penstock.sql.expr.nodes import AggregateCall, Rex
from penstock.sql.logical.nodes import Field
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator
from penstock.sql.physical.planner import PhysicalPlan
from penstock.sql.types import DataType
from tests.unit.sql.statement_plans import plan_of, statements

FILE = Path(__file__).with_suffix(".txt")
#: Types of columns are those of the inputs, which have lines of their own.
_SAID_BEFORE = frozenset({"input_types", "left_types", "right_types", "types"})
_OF_CALLS = frozenset({"function", "operands", "distinct", "filter", "type"})


def details(plan: PhysicalPlan) -> str:
    """Return the nodes of a plan, each after its inputs."""
    numbers = {id(node): number for number, node in enumerate(plan.nodes)}
    lineage = Lineage()
    for node in plan.nodes:
        lineage.columns(node)
    return "\n".join(
        f"{number} {_line(node, [numbers[id(each)] for each in node.inputs])}{_state(node, lineage)}"
        for number, node in enumerate(plan.nodes)
    )


def _state(node: PhysicalNode, lineage: Lineage) -> str:
    """What a restore compares."""
    if not isinstance(node, PhysicalOperator):
        return ""
    description = node.state_description(lineage)
    return "" if description is None else f" state {description}"


def _line(node: PhysicalNode, inputs: list[int]) -> str:
    traits = node.traits
    text = node.name if isinstance(node, PhysicalOperator) else node.line
    parts = [text, *([f"of {', '.join(map(str, inputs))}"] if inputs else [])]
    if isinstance(node, PhysicalOperator):
        parts.append(_short(node.spec))
        if node.single:
            parts.append("single")
    parts.append(f"-> {', '.join(map(_column, node.schema))} {traits.changes}")
    keys = sorted(sorted(key) for key in traits.keys)
    parts += [f"key {key}" for key in keys]
    if traits.window is not None:
        parts.append(_short(traits.window))
    if traits.bounded:
        parts.append("bounded")
    return " ".join(parts)


def _column(field: Field) -> str:
    more = [str(each) for each in (field.time, field.window) if each]
    return " ".join([field.name, str(field.type), *more])


def _short(value: Any) -> str:
    """Return a value without what is said elsewhere, or is so by default."""
    match value:
        case Rex() | DataType():
            return str(value)
        case tuple() | list():
            return f"[{', '.join(map(_short, value))}]"
        case set() | frozenset():
            return f"[{', '.join(sorted(map(_short, value)))}]"
        case Mapping():
            return f"[{', '.join(f'{key}: {_short(each)}' for key, each in value.items())}]"
    if isinstance(value, AggregateCall):
        more = [each for each in _said(value) if each.partition("=")[0] not in _OF_CALLS]
        return " ".join([str(value), str(value.type), *more])
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({', '.join(_said(value))})"
    return repr(value)


def _said(value: Any) -> Iterator[str]:
    for field in fields(value):
        said = getattr(value, field.name)
        if field.name in _SAID_BEFORE or (field.default is not MISSING and said == field.default):
            continue
        yield f"{field.name}={_short(said)}"


def planned_details() -> dict[str, str]:
    """Return the details of all statements, with the statements, by name."""
    return {
        name: f"{text}\n{details(plan_of(section, text))}"
        for name, (section, text) in statements().items()
    }


def remembered() -> dict[str, str]:
    """Return what the file has, by name."""
    parts = FILE.read_text(encoding="utf-8").removeprefix("=== ").split("\n=== ")
    return dict(part.rstrip("\n").split("\n", 1) for part in parts)


if __name__ == "__main__":
    written = (f"=== {name}\n{text}\n" for name, text in planned_details().items())
    FILE.write_text("".join(written), encoding="utf-8")
