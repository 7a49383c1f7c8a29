"""Plans as text: EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.sql.logical.plan_texts import logical_tree
from penstock.sql.physical.advice import advice
from penstock.sql.physical.nodes import PhysicalNode, inputs_first

if TYPE_CHECKING:
    from penstock.sql.physical.planner import PhysicalPlan


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
    for node in inputs_first(roots):
        for each in node.inputs:
            readers[id(each)] = readers.get(id(each), 0) + 1
    shared: dict[int, int] = {}
    lines: list[str] = []

    def draw(node: PhysicalNode, lead: str, last: bool | None) -> None:
        head = lead + ("" if last is None else "+- " if last else ":- ")
        if id(node) in shared:
            lines.append(f"{head}Reused(reference_id=[{shared[id(node)]}])")
            return
        text = node.line
        if changes:
            text = f"{text[:-1]}{', ' if text[-2] != '(' else ''}changelogMode=[{node.changelog_mode}])"
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
        draw(root.shown, "", None)
    return "\n".join(lines)
