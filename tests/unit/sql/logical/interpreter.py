"""Logical plans, run slowly and obviously over lists of tuples."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.logical import nodes

Row = tuple[Any, ...]


def run(node: nodes.LogicalNode, tables: dict[str, list[Row]]) -> list[Row]:
    """The rows of a plan."""
    match node:
        case nodes.LogicalTableScan():
            return tables[node.table.path.name]
        case nodes.LogicalValues():
            return [tuple(value(each, ()) for each in row) for row in node.rows]
        case nodes.LogicalProject():
            below = run(node.input, tables)
            return [tuple(value(each, row) for each in node.expressions) for row in below]
        case nodes.LogicalFilter():
            return [row for row in run(node.input, tables) if value(node.condition, row) is True]
        case nodes.LogicalJoin():
            return joined(node, run(node.left, tables), run(node.right, tables))
        case nodes.LogicalAggregate():
            return aggregated(node, run(node.input, tables))
        case nodes.LogicalSort():
            rows = ordered(run(node.input, tables), node.order)
            return rows[node.offset :][: node.limit]
        case nodes.LogicalOverAggregate():
            return ranked(node, run(node.input, tables))
        case nodes.LogicalSetOperation():
            return combined(node, [run(each, tables) for each in node.parts])
    raise AssertionError(type(node))


def joined(node: nodes.LogicalJoin, left: list[Row], right: list[Row]) -> list[Row]:
    nothing = (None,) * len(node.right.schema)
    found: list[Row] = []
    seen = set()
    for row in left:
        partners = [
            (number, other)
            for number, other in enumerate(right)
            if value(node.condition, row + other) is True
        ]
        seen |= {number for number, _ in partners}
        if node.kind in {"SEMI", "ANTI"}:
            found += [row] if bool(partners) == (node.kind == "SEMI") else []
        else:
            found += [row + other for _, other in partners]
            if not partners and node.kind in {"LEFT", "FULL"}:
                found.append(row + nothing)
    if node.kind in {"RIGHT", "FULL"}:
        missing = (None,) * len(node.left.schema)
        found += [missing + other for number, other in enumerate(right) if number not in seen]
    return found


def aggregated(node: nodes.LogicalAggregate, rows: list[Row]) -> list[Row]:
    found = []
    for subset in node.sets if node.sets is not None else (tuple(range(len(node.keys))),):
        groups: dict[Row, list[Row]] = {} if subset else {(None,) * len(node.keys): []}
        for row in rows:
            key = tuple(
                row[column] if number in subset else None for number, column in enumerate(node.keys)
            )
            groups.setdefault(key, []).append(row)
        found += [
            (*key, *(aggregate(call, members, subset) for call in node.aggregates))
            for key, members in groups.items()
        ]
    return found


def aggregate(call: AggregateCall, rows: list[Row], subset: tuple[int, ...]) -> Any:
    if call.function == "GROUPING":
        bits = [int(each.index not in subset) for each in call.operands]  # type: ignore[attr-defined]
        return functools.reduce(lambda number, bit: number * 2 + bit, bits, 0)
    if call.filter is not None:
        rows = [row for row in rows if value(call.filter, row) is True]
    if not call.operands:
        return len(rows)
    values = [tuple(value(each, row) for each in call.operands) for row in rows]
    known = [each[0] for each in values if None not in each]
    if call.distinct:
        known = list(dict.fromkeys(known))
    if call.function == "SINGLE_VALUE":
        assert len(rows) <= 1
        return values[0][0] if values else None
    if call.function == "COUNT":
        return len(known)
    return {"SUM": sum, "MAX": max, "MIN": min}[call.function](known) if known else None


def ordered(rows: list[Row], order: Any) -> list[Row]:
    for key in reversed(order):
        nulls = [row for row in rows if row[key.index] is None]
        others = [row for row in rows if row[key.index] is not None]
        others.sort(key=lambda row, key=key: row[key.index], reverse=not key.ascending)
        rows = nulls + others if key.nulls_first else others + nulls
    return rows


def ranked(node: nodes.LogicalOverAggregate, rows: list[Row]) -> list[Row]:
    assert [call.function for call in node.calls] == ["ROW_NUMBER"]
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[each] for each in node.window.partition), []).append(row)
    return [
        (*row, number)
        for members in groups.values()
        for number, row in enumerate(ordered(members, node.window.order), 1)
    ]


def combined(node: nodes.LogicalSetOperation, parts: list[list[Row]]) -> list[Row]:
    if node.kind == "UNION":
        rows = list(itertools.chain(*parts))
        return rows if node.all else list(dict.fromkeys(rows))
    first, second = parts
    wanted = node.kind == "INTERSECT"
    return list(dict.fromkeys(row for row in first if (row in second) == wanted))


# expressions, with three truth values


def value(rex: Rex, row: Row) -> Any:
    """The value of an expression."""
    match rex:
        case InputRef():
            return row[rex.index]
        case Literal():
            return rex.value
        case Call():
            return call_value(rex.function, rex.operands, row)
    raise AssertionError(rex)


STRICT = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "NOT": lambda a: not a,
    "CAST": lambda a: a,
}


def call_value(name: str, operands: tuple[Rex, ...], row: Row) -> Any:
    if name == "CASE":
        for condition, result in zip(operands[:-1:2], operands[1::2], strict=True):
            if value(condition, row) is True:
                return value(result, row)
        return value(operands[-1], row)
    values = [value(each, row) for each in operands]
    if name in {"AND", "OR"}:
        decisive = name == "OR"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    if name == "IS NULL":
        return values[0] is None
    if name == "IS NOT NULL":
        return values[0] is not None
    if name == "IS NOT DISTINCT FROM":
        return values[0] == values[1]
    if name == "COALESCE":
        return next((each for each in values if each is not None), None)
    return None if None in values else STRICT[name](*values)
