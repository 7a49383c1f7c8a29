"""Advice on a plan: state that grows, operators that cannot run in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.sql.physical.nodes import PhysicalNode

if TYPE_CHECKING:
    from penstock.sql.physical.planner import PhysicalPlan


def advice(plan: PhysicalPlan) -> list[str]:
    """Return the advice of all nodes, the most severe first."""
    found = dict.fromkeys(each for node in plan.nodes for each in node.advice())
    return sorted(found, key=lambda each: not each.startswith("[WARNING]"))


def growing_state(node: PhysicalNode) -> str:
    """Return advice on an operator whose state is never removed."""
    return (
        f"[WARNING] the state of {node.line} grows without bound. Set 'table.exec.state.ttl' or a STATE_TTL hint "
        "if old rows may expire, or use window aggregations and window joins."
    )


def single_subtask(node: PhysicalNode) -> str:
    """Return advice on an operator without keys."""
    return f"[ADVICE] {node.line} runs in one subtask because it has no keys."
