"""Logical plans as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from penstock.catalogs.tables import PhysicalColumn
from penstock.sql.logical.nodes import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalExpand,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalOverAggregate,
    LogicalProject,
    LogicalRank,
    LogicalSetOperation,
    LogicalSink,
    LogicalSort,
    LogicalTableFunctionScan,
    LogicalTableScan,
    LogicalValues,
    LogicalWatermarkAssigner,
)
from penstock.sql.logical.texts import (
    show,
    show_call,
    show_order,
    show_window,
)


def logical_tree(roots: Sequence[LogicalNode], *, reuse: bool = False) -> str:
    """Return logical plans as trees, ends first. Shared nodes are shown once if `reuse`."""
    readers = Counter(id(each) for node in _nodes(roots) for each in node.inputs) if reuse else {}
    shared: dict[int, int] = {}
    lines: list[str] = []

    def draw(node: LogicalNode, lead: str, last: bool | None) -> None:
        head = "" if last is None else "+- " if last else ":- "
        if id(node) in shared:
            lines.append(f"{lead}{head}Reused(reference_id=[{shared[id(node)]}])")
            return
        text = logical_line(node)
        if readers.get(id(node), 0) > 1:
            shared[id(node)] = len(shared) + 1
            text = f"{text}(reuse_id=[{shared[id(node)]}])"
        lines.append(f"{lead}{head}{text}")
        inner = lead + ("" if last is None else "   " if last else ":  ")
        for at, each in enumerate(node.inputs):
            draw(each, inner, at == len(node.inputs) - 1)

    for at, root in enumerate(roots):
        if at:
            lines.append("")
        draw(root, "", None)
    return "\n".join(lines)


def _nodes(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Return all nodes, each once."""
    found: dict[int, LogicalNode] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += node.inputs
    return list(found.values())


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
            return [*parts, *_scan(node, names)]
        case LogicalProject():
            return [
                f"{name}=[{show(each, below)}]"
                for name, each in zip(names, node.expressions, strict=True)
            ]
        case LogicalFilter():
            return [f"condition=[{show(node.condition, below)}]"]
        case LogicalWatermarkAssigner():
            watermark = show(node.expression, below)
            pushed = ["pushed=[true]"] if node.pushed else []
            return [f"rowtime=[{names[node.rowtime]}]", f"watermark=[{watermark}]", *pushed]
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
        case LogicalRank():
            return _rank(node, below)
        case LogicalExpand():
            rows = [", ".join(show(each, below) for each in row) for row in node.projections]
            return [f"projects=[{', '.join(f'{{{row}}}' for row in rows)}]"]
    return [f"fields=[{', '.join(names)}]"]


def _scan(node: LogicalTableScan, names: list[str]) -> list[str]:
    """Return the hints of a scan, and what rules have pushed into it."""
    parts = []
    if node.options:
        hints = ", ".join(f"{key}={value}" for key, value in sorted(node.options.items()))
        parts.append(f"hints=[[OPTIONS options:{{{hints}}}]]")
    if node.columns is not None:
        parts.append(f"project=[{', '.join(node.columns)}]")
    if node.filters:
        stored = [each.name for each in node.table.columns if isinstance(each, PhysicalColumn)]
        parts.append(f"filter=[{' AND '.join(show(each, stored) for each in node.filters)}]")
    if node.limit is not None:
        parts.append(f"limit=[{node.limit}]")
    if node.watermark is not None and node.watermark.expression is not None:
        parts.append(f"watermark=[{show(node.watermark.expression, names)}]")
    return parts


def _rank(node: LogicalRank, below: list[str]) -> list[str]:
    end = node.end if node.end_column is None else below[node.end_column]
    return [
        f"rankType=[{node.function}]",
        f"rankRange=[rankStart={node.start}, rankEnd={end}]",
        f"partitionBy=[{', '.join(below[at] for at in node.partition)}]",
        f"orderBy=[{show_order(node.order, below)}]",
    ]


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
