"""Logical plans as text."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.logical.nodes import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalOverAggregate,
    LogicalProject,
    LogicalSetOperation,
    LogicalSink,
    LogicalSort,
    LogicalTableFunctionScan,
    LogicalTableScan,
    LogicalValues,
    LogicalWatermarkAssigner,
)
from penstock.sql.physical.texts import (
    show,
    show_call,
    show_order,
    show_window,
)


def logical_tree(roots: Sequence[LogicalNode]) -> str:
    """Return logical plans as trees, ends first."""
    lines: list[str] = []

    def draw(node: LogicalNode, lead: str, last: bool | None) -> None:
        head = "" if last is None else "+- " if last else ":- "
        lines.append(f"{lead}{head}{logical_line(node)}")
        inner = lead + ("" if last is None else "   " if last else ":  ")
        for at, each in enumerate(node.inputs):
            draw(each, inner, at == len(node.inputs) - 1)

    for at, root in enumerate(roots):
        if at:
            lines.append("")
        draw(root, "", None)
    return "\n".join(lines)


def logical_line(node: LogicalNode) -> str:
    """Return a node as one line."""
    name = type(node).__name__
    if isinstance(node, LogicalSetOperation):
        name = {"UNION": "LogicalUnion", "INTERSECT": "LogicalIntersect"}.get(
            node.kind, "LogicalMinus"
        )
    return f"{name}({', '.join(_parts(node))})"


def _parts(node: LogicalNode) -> list[str]:
    below = [field.name for each in node.inputs for field in each.schema]
    names = [field.name for field in node.schema]
    match node:
        case LogicalTableScan() | LogicalSink():
            path = node.table.path
            parts = [f"table=[[{path.catalog}, {path.database}, {path.name}]]"]
            if isinstance(node, LogicalSink):
                return [*parts, f"fields=[{', '.join(names)}]"]
            hints = ", ".join(f"{key}={value}" for key, value in sorted(node.options.items()))
            return [*parts, *([f"hints=[[OPTIONS options:{{{hints}}}]]"] if hints else [])]
        case LogicalProject():
            return [
                f"{name}=[{show(each, below)}]"
                for name, each in zip(names, node.expressions, strict=True)
            ]
        case LogicalFilter():
            return [f"condition=[{show(node.condition, below)}]"]
        case LogicalWatermarkAssigner():
            watermark = show(node.expression, below)
            return [f"rowtime=[{names[node.rowtime]}]", f"watermark=[{watermark}]"]
        case LogicalAggregate():
            return _aggregate(node, below, names)
        case LogicalTableFunctionScan():
            return [f"invocation=[{show_window(node.window, below)}]"]
        case LogicalJoin():
            shown = show(node.condition, below)
            time = ", as of" if node.temporal is not None else ""
            return [f"condition=[{shown}]", f"joinType=[{node.kind.lower()}{time}]"]
        case LogicalSetOperation():
            return [f"all=[{str(node.all).lower()}]"]
        case LogicalSort():
            return _sort(node, below)
        case LogicalValues():
            rows = [f"{{ {', '.join(show(each, ()) for each in row)} }}" for row in node.rows[:20]]
            return [f"tuples=[[{', '.join(rows)}]]"]
        case LogicalCorrelate():
            called = ", ".join(show(each, below) for each in node.operands)
            return [f"invocation=[{node.function}({called})]"]
        case LogicalOverAggregate():
            keys = ", ".join(below[at] for at in node.window.partition)
            calls = ", ".join(show_call(call, below) for call in node.calls)
            return [
                f"partitionBy=[{keys}]",
                f"orderBy=[{show_order(node.window.order, below)}]",
                f"calls=[{calls}]",
            ]
    return [f"fields=[{', '.join(names)}]"]


def _aggregate(node: LogicalAggregate, below: list[str], names: list[str]) -> list[str]:
    keys = ", ".join(below[key] for key in node.keys)
    parts = [f"group=[{{{keys}}}]"]
    if node.sets is not None:
        sets = ", ".join(
            f"{{{', '.join(below[node.keys[key]] for key in each)}}}" for each in node.sets
        )
        parts.append(f"groups=[{sets}]")
    if node.window is not None:
        parts.append(f"window=[{show_window(node.window, below)}]")
    for name, call in zip(names[len(node.keys) :], node.aggregates, strict=False):
        parts.append(f"{name}=[{show_call(call, below)}]")
    return parts


def _sort(node: LogicalSort, below: list[str]) -> list[str]:
    parts = [f"order=[{show_order(node.order, below)}]"] if node.order else []
    if node.offset:
        parts.append(f"offset=[{node.offset}]")
    if node.limit is not None:
        parts.append(f"fetch=[{node.limit}]")
    return parts
