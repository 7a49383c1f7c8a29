"""Advice on a plan: state that grows, operators that cannot run in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.graph.operator_specs.columnar.aggregates import GroupAggregateSpec
from penstock.graph.operator_specs.columnar.changes import UpsertMaterializeSpec
from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator

if TYPE_CHECKING:
    from penstock.sql.physical.planner import PhysicalPlan


def advice(plan: PhysicalPlan) -> list[str]:
    """Return the advice, the most severe first."""
    found: list[str] = []
    for node in plan.nodes:
        if isinstance(node, PhysicalOperator):
            found += _of(node)
    return sorted(dict.fromkeys(found), key=lambda each: not each.startswith("[WARNING]"))


def _of(node: PhysicalOperator) -> list[str]:
    from penstock.sql.physical.explain import line_of

    spec, found = node.spec, []
    line = line_of(node)
    if _grows(node):
        found.append(
            f"[WARNING] the state of {line} grows without bound. Set 'table.exec.state.ttl' or a STATE_TTL hint "
            "if old rows may expire, or use window aggregations and window joins."
        )
    if isinstance(spec, UpsertMaterializeSpec):
        found.append(
            f"[ADVICE] {line} keeps every row, because the query knows its rows by other columns than the primary key of the "
            "table that is written. Give the table the query's own key, or set 'table.exec.sink.upsert-materialize' = 'NONE' "
            "if the order of changes does not matter."
        )
    if node.single and not node.traits.bounded and isinstance(spec, GroupAggregateSpec | RankSpec):
        found.append(f"[ADVICE] {line} runs in one subtask, for it has no keys.")
    return found


def _grows(node: PhysicalNode) -> bool:
    if node.traits.bounded or not isinstance(node, PhysicalOperator):
        return False
    spec = node.spec
    if isinstance(spec, JoinSpec):
        return not (spec.left_ttl_ms and spec.right_ttl_ms)
    return isinstance(spec, GroupAggregateSpec) and bool(spec.keys) and not spec.ttl_ms
