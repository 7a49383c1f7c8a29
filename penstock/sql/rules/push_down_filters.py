"""Conditions are checked as early as possible: before joins, windows and aggregates, and by the connector itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.catalogs.tables import PhysicalColumn
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Rex,
    UserCall,
    inputs_of,
    walk,
)
from penstock.sql.expr.rewriting import (
    TRUE,
    all_of,
    conjuncts,
    is_deterministic,
    remap,
)
from penstock.sql.logical.nodes import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalOverAggregate,
    LogicalProject,
    LogicalRank,
    LogicalSetOperation,
    LogicalSort,
    LogicalTableFunctionScan,
    LogicalTableScan,
)
from penstock.sql.logical.transform import with_inputs
from penstock.sql.rules.share_subplans import count_readers

_STRICT = frozenset({"=", "<>", "<", "<=", ">", ">=", "LIKE", "IS NOT NULL", "IS TRUE"})
_THROUGH_SHARED = (LogicalProject, LogicalFilter)


def push_down_filters(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Move conditions down, in all plans of a job. A node that several read is left as it is, so that it runs once.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(
    ...     push_down_filters,
    ...     "SELECT name FROM bids JOIN people ON bidder = id WHERE price > 5 AND "
    ...     "UPPER(name) = name",
    ... )
      LogicalProject(name=[name])
      +- LogicalFilter(condition=[((price > 5) AND (UPPER(name) = name))])
         +- LogicalJoin(condition=[(bidder = id)], joinType=[inner])
            :- LogicalTableScan(table=[[c, d, bids]])
            +- LogicalTableScan(table=[[c, d, people]])
    becomes
      LogicalProject(name=[name])
      +- LogicalJoin(condition=[(bidder = id)], joinType=[inner])
         :- LogicalTableScan(table=[[c, d, bids]], filter=[(price > 5)])
         +- LogicalTableScan(table=[[c, d, people]], filter=[(UPPER(name) = name)])
    """
    pusher = _Pusher(count_readers(roots))
    return [pusher.push(root, []) for root in roots]


class _Pusher:
    def __init__(self, readers: dict[int, int]) -> None:
        self._readers = readers
        self._plain: dict[
            int, tuple[LogicalNode, LogicalNode]
        ] = {}  # nodes with no conditions from above

    def push(self, node: LogicalNode, conditions: list[Rex]) -> LogicalNode:
        """Return a node whose rows meet the conditions."""
        if not conditions:
            known = self._plain.get(id(node))
            if known is None:
                known = self._plain[id(node)] = (node, self._pushed(node, []))
            return known[1]
        shared = self._readers.get(id(node), 0) > 1
        if shared and not isinstance(node, _THROUGH_SHARED):
            return _filtered(self.push(node, []), conditions)
        return self._pushed(node, conditions)

    def _pushed(self, node: LogicalNode, conditions: list[Rex]) -> LogicalNode:
        match node:
            case LogicalFilter():
                return self.push(node.input, [*conjuncts(node.condition), *conditions])
            case LogicalProject():
                return self._project(node, conditions)
            case LogicalJoin():
                return self._join(node, conditions)
            case LogicalSetOperation(kind="UNION", all=True):
                return replace(
                    node, parts=tuple(self.push(part, list(conditions)) for part in node.parts)
                )
            case LogicalAggregate() if node.sets is None:
                return self._through(node, conditions, self._key_of(node.keys), len(node.keys))
            case LogicalTableFunctionScan() if node.window.kind != "SESSION":
                return self._below_columns(node, conditions)
            case LogicalCorrelate():
                return self._below_columns(node, conditions)
            case LogicalOverAggregate():
                return self._by_partition(node, conditions, node.window.partition)
            case LogicalRank():
                return self._by_partition(node, conditions, node.partition)
            case LogicalSort() if node.limit is None and not node.offset:
                return with_inputs(node, [self.push(node.input, conditions)])
            case LogicalTableScan():
                return _scan(node, conditions)
        inputs = [self.push(each, []) for each in node.inputs]
        return _filtered(with_inputs(node, inputs), conditions)

    def _project(self, node: LogicalProject, conditions: list[Rex]) -> LogicalNode:
        def movable(condition: Rex) -> bool:
            computed = [node.expressions[at] for at in inputs_of(condition)]
            return all(
                is_deterministic(each)
                and not any(isinstance(part, UserCall) for part in walk(each))
                for each in computed
            )

        down, stay = _parted(conditions, movable)
        moved = [remap(each, lambda ref: node.expressions[ref.index]) for each in down]
        return _filtered(with_inputs(node, [self.push(node.input, moved)]), stay)

    @staticmethod
    def _key_of(keys: tuple[int, ...]) -> Callable[[int], int]:
        return lambda at: keys[at]

    def _through(
        self, node: LogicalAggregate, conditions: list[Rex], place: Callable[[int], int], width: int
    ) -> LogicalNode:
        """Conditions on keys hold for whole groups."""
        down, stay = _parted(
            conditions,
            lambda each: bool(inputs_of(each)) and max(inputs_of(each)) < width and _safe(each),
        )
        moved = [remap(each, lambda ref: InputRef(ref.type, place(ref.index))) for each in down]
        return _filtered(with_inputs(node, [self.push(node.input, moved)]), stay)

    def _below_columns(
        self, node: LogicalTableFunctionScan | LogicalCorrelate, conditions: list[Rex]
    ) -> LogicalNode:
        """Conditions on the columns of the input, not on those that the node appends."""
        width = len(node.input.schema)
        down, stay = _parted(
            conditions, lambda each: all(at < width for at in inputs_of(each)) and _safe(each)
        )
        return _filtered(with_inputs(node, [self.push(node.input, down)]), stay)

    def _by_partition(
        self,
        node: LogicalOverAggregate | LogicalRank,
        conditions: list[Rex],
        partition: tuple[int, ...],
    ) -> LogicalNode:
        keys = set(partition)
        down, stay = _parted(
            conditions,
            lambda each: bool(inputs_of(each)) and inputs_of(each) <= keys and _safe(each),
        )
        return _filtered(with_inputs(node, [self.push(node.input, down)]), stay)

    def _join(self, node: LogicalJoin, conditions: list[Rex]) -> LogicalNode:
        width = len(node.left.schema)
        kind = _simplified(node, conditions, width)
        left: list[Rex] = []
        right: list[Rex] = []
        stay: list[Rex] = []
        on: list[Rex] = []
        temporal = node.temporal is not None
        for each in conditions:
            side = _side(each, width) if _safe(each) else None
            if side == "left" and kind in {"INNER", "LEFT", "SEMI", "ANTI"}:
                left.append(each)
            elif side == "right" and kind in {"INNER", "RIGHT"} and not temporal:
                right.append(_moved(each, -width))
            elif kind == "INNER" and _safe(each) and not temporal:
                on.append(each)
            else:
                stay.append(each)
        for each in conjuncts(node.condition):
            side = _side(each, width) if _safe(each) else None
            if side == "left" and kind in {"INNER", "RIGHT", "SEMI"} and not temporal:
                left.append(each)
            elif side == "right" and kind in {"INNER", "LEFT", "SEMI", "ANTI"} and not temporal:
                right.append(_moved(each, -width))
            else:
                on.append(each)
        joined = replace(
            node,
            left=self.push(node.left, left),
            right=self.push(node.right, right),
            kind=kind,
            condition=all_of(on) or TRUE,
        )
        return _filtered(joined, stay)


def _parted(conditions: list[Rex], movable: Callable[[Rex], bool]) -> tuple[list[Rex], list[Rex]]:
    down = [each for each in conditions if movable(each)]
    return down, [each for each in conditions if not any(each is one for one in down)]


def _safe(rex: Rex) -> bool:
    return is_deterministic(rex) and not any(isinstance(each, UserCall) for each in walk(rex))


def _filtered(node: LogicalNode, conditions: list[Rex]) -> LogicalNode:
    condition = all_of(conditions)
    if condition is None:
        return node
    return LogicalFilter(schema=node.schema, input=node, condition=condition)


def _moved(rex: Rex, by: int) -> Rex:
    return remap(rex, lambda ref: InputRef(ref.type, ref.index + by))


def _side(rex: Rex, width: int) -> str | None:
    read = inputs_of(rex)
    if not read:
        return None
    if max(read) < width:
        return "left"
    return "right" if min(read) >= width else None


def _simplified(node: LogicalJoin, conditions: list[Rex], width: int) -> str:
    """An outer join whose missing rows are left out afterwards is an inner one on that side."""
    kind = node.kind
    strict = {at for each in conditions for at in _must_be_there(each)}
    on_left, on_right = any(at < width for at in strict), any(at >= width for at in strict)
    if kind == "FULL":
        kind = {(True, True): "INNER", (True, False): "LEFT", (False, True): "RIGHT"}.get(
            (on_left, on_right), "FULL"
        )
    elif (kind == "LEFT" and on_right) or (kind == "RIGHT" and on_left):
        kind = "INNER"
    return kind


def _must_be_there(rex: Rex) -> set[int]:
    """Return columns that cannot be NULL where a condition is TRUE."""
    if isinstance(rex, Call) and rex.function in _STRICT:
        return {each.index for each in rex.operands if isinstance(each, InputRef)}
    return set()


def _scan(node: LogicalTableScan, conditions: list[Rex]) -> LogicalNode:
    """Give the connector the conditions on physical columns: it says which of them it takes when the plan is made."""
    names = [each.name for each in node.table.columns if isinstance(each, PhysicalColumn)]
    place = {name: at for at, name in enumerate(names)}

    def known(condition: Rex) -> bool:
        read = inputs_of(condition)
        return bool(read) and _safe(condition) and all(node.schema[at].name in place for at in read)

    down, stay = _parted(conditions, known)
    moved = [
        remap(each, lambda ref: InputRef(ref.type, place[node.schema[ref.index].name]))
        for each in down
    ]
    return _filtered(replace(node, filters=(*node.filters, *moved)), stay)
