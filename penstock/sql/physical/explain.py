"""Plans as text: EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.sql.physical.advice import advice
from penstock.sql.physical.descriptions import DescriptionContext, describe, operator_kind
from penstock.sql.physical.logical_texts import logical_tree
from penstock.sql.physical.nodes import (
    PhysicalExchange,
    PhysicalNode,
    PhysicalOperator,
    PhysicalResult,
    PhysicalStreamScan,
    PhysicalTableScan,
    PhysicalTableSink,
    PhysicalUnion,
    PhysicalValues,
)
from penstock.sql.physical.texts import show

if TYPE_CHECKING:
    from penstock.sql.physical.planner import PhysicalPlan


def kind_of(node: PhysicalNode) -> str:
    """Return the name of a node in plans and in the web UI."""
    match node:
        case PhysicalTableScan():
            return "TableSourceScan"
        case PhysicalStreamScan():
            return "DataStreamScan"
        case PhysicalValues():
            return "Values"
        case PhysicalExchange():
            return "Exchange"
        case PhysicalUnion():
            return "Union"
        case PhysicalTableSink():
            return "Sink"
        case PhysicalOperator():
            return operator_kind(node.spec)
    return type(node).__name__.removeprefix("Physical")


def line_of(node: PhysicalNode) -> str:
    """Return a node as one line: its name and description."""
    names = [field.name for field in node.schema]
    below = [field.name for each in node.inputs for field in each.schema]
    parts: list[str] = []
    match node:
        case PhysicalTableScan():
            detail = f", {node.detail}" if node.detail else ""
            parts = [f"table=[[{_path(node.table)}{detail}]]", f"fields=[{', '.join(names)}]"]
        case PhysicalStreamScan():
            parts = [f"fields=[{', '.join(names)}]"]
        case PhysicalValues():
            rows = [f"{{ {', '.join(show(each, ()) for each in row)} }}" for row in node.rows[:20]]
            more = ", ..." if len(node.rows) > 20 else ""
            parts = [f"tuples=[[{', '.join(rows)}{more}]]"]
        case PhysicalExchange():
            keys = ", ".join(names[at] for at in node.columns)
            parts = [f"distribution=[{f'hash[{keys}]' if node.columns else 'single'}]"]
        case PhysicalUnion():
            parts = ["all=[true]", f"union=[{', '.join(names)}]"]
        case PhysicalTableSink():
            parts = [f"table=[{_path(node.table)}]", f"fields=[{', '.join(names)}]"]
        case PhysicalOperator():
            parts = describe(node.spec, DescriptionContext(names, below, node.inputs))
    return f"{kind_of(node)}({', '.join(parts)})"


def _path(table: Any) -> str:
    path = table.path
    return f"{path.catalog}, {path.database}, {path.name}"


def explain(plan: PhysicalPlan, details: Sequence[str] = ()) -> str:
    """Return a plan as EXPLAIN shows it: the AST, the optimized plan, the execution plan."""
    changes = "CHANGELOG_MODE" in details
    parts = [("Abstract Syntax Tree", logical_tree(plan.logical))]
    tree = physical_tree(plan.roots, changes=changes, reuse=False)
    if "PLAN_ADVICE" in details:
        found = advice(plan) or ["no advice"]
        text = "\n".join(f"advice[{at}]: {each}" for at, each in enumerate(found, 1))
        parts.append(("Optimized Physical Plan With Advice", f"{tree}\n\n{text}"))
    else:
        parts.append(("Optimized Physical Plan", tree))
    parts.append(("Optimized Execution Plan", physical_tree(plan.roots)))
    if "ESTIMATED_COST" in details:
        parts.append(("Estimated Cost", "not available: the planner does not use table statistics"))
    if "JSON_EXECUTION_PLAN" in details:
        parts.append(("Physical Execution Plan", plan.json_execution_plan()))
    return "\n\n".join(f"== {title} ==\n{text}" for title, text in parts) + "\n"


def physical_tree(
    roots: Sequence[PhysicalNode], *, changes: bool = False, reuse: bool = True
) -> str:
    """Return physical nodes as a tree, ends first. Shared nodes are shown once if `reuse`."""
    readers: dict[int, int] = {}
    for node in _all(roots):
        for each in node.inputs:
            readers[id(each)] = readers.get(id(each), 0) + 1
    shared: dict[int, int] = {}
    lines: list[str] = []

    def draw(node: PhysicalNode, lead: str, last: bool | None) -> None:
        if isinstance(node, PhysicalResult):
            draw(node.inputs[0], lead, last)
            return
        head = lead + ("" if last is None else "+- " if last else ":- ")
        if id(node) in shared:
            lines.append(f"{head}Reused(reference_id=[{shared[id(node)]}])")
            return
        text = line_of(node)
        if changes:
            text = f"{text[:-1]}{', ' if text[-2] != '(' else ''}changelogMode=[{_mode(node)}])"
        if reuse and readers.get(id(node), 0) > 1:
            shared[id(node)] = len(shared) + 1
            text = f"{text}(reuse_id=[{shared[id(node)]}])"
        lines.append(head + text)
        inner = lead + ("" if last is None else "   " if last else ":  ")
        for at, each in enumerate(node.inputs):
            draw(each, inner, at == len(node.inputs) - 1)

    for at, root in enumerate(roots):
        if at:
            lines.append("")
        draw(root, "", None)
    return "\n".join(lines)


def _mode(node: PhysicalNode) -> str:
    return "NONE" if isinstance(node, PhysicalTableSink) else str(node.traits.changes)[1:-1]


def _all(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    from penstock.sql.physical.changelog_traits import inputs_first

    return inputs_first(roots)
