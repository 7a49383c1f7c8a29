"""By which columns rows are where they are: rows that are at the subtask of their key already need not be sent there."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.graph.operator_specs.columnar.ranks import DeduplicateSpec, RankSpec
from penstock.graph.operator_specs.columnar.stateless import CalcSpec
from penstock.sql.expr.nodes import InputRef
from penstock.sql.physical.nodes import PhysicalExchange, PhysicalNode, PhysicalOperator

Columns = tuple[int, ...]


def is_placed(node: PhysicalNode, columns: Sequence[int]) -> bool:
    """Whether the rows of a node are at the subtasks of the keys that these columns are."""
    return bool(columns) and tuple(columns) in _placed_by(node)


def _placed_by(node: PhysicalNode) -> set[Columns]:
    """Return the columns whose values, in this order, are the key that a row was sent by."""
    if isinstance(node, PhysicalExchange):
        return {node.columns} if node.columns else set()
    if not isinstance(node, PhysicalOperator):
        return set()
    spec = node.spec
    if isinstance(spec, CalcSpec):
        return _through(_placed_by(node.inputs[0]), spec)
    if isinstance(spec, RankSpec | DeduplicateSpec):
        return {spec.keys} if spec.keys else set()
    if isinstance(spec, JoinSpec) and spec.left_keys:
        width = len(spec.left_types)
        theirs = tuple(width + at for at in spec.right_keys)
        # NULLs for a missing partner are not keys.
        return {
            "INNER": {spec.left_keys, theirs},
            "LEFT": {spec.left_keys},
            "RIGHT": {theirs},
            "FULL": set[Columns](),
        }.get(spec.kind, {spec.left_keys})
    return set()


def _through(placed: set[Columns], spec: CalcSpec) -> set[Columns]:
    """Return the columns as a projection calls them; one that is computed is another value."""
    if spec.projection is None:
        return placed
    names: dict[int, int] = {}
    for at, each in enumerate(spec.projection):
        if isinstance(each, InputRef):
            names.setdefault(each.index, at)
    return {
        tuple(names[at] for at in columns)
        for columns in placed
        if all(at in names for at in columns)
    }
