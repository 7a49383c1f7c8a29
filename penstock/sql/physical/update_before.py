"""Which operators emit -U rows: those whose readers need them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.physical.nodes import PhysicalNode, inputs_first


def prune_update_before(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    """Return a plan whose operators emit -U rows only where they are needed, and drop them before operators that must not get them.

    Needs are found from the ends of the plan to its beginnings; then nodes are settled in the other direction.
    """
    ordered = inputs_first(roots)
    wanted: dict[int, bool] = {}
    for node in reversed(ordered):
        asks = node.needs_update_before(wanted.get(id(node), False))
        for each in node.inputs:
            wanted[id(each)] = wanted.get(id(each), False) or asks
    made: dict[int, PhysicalNode] = {}
    for node in ordered:
        inputs = tuple(made[id(each)] for each in node.inputs)
        made[id(node)] = node.settle(inputs, wanted.get(id(node), False))
    return [made[id(root)] for root in roots]
