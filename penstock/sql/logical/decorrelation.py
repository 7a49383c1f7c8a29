"""Subqueries freed of the columns of the outer query: conditions on those are pulled up until a join can have them.

`pulled(node, frame)` gives the node without them, with more columns at its end where the conditions need those, and the conditions over its columns and OuterRefs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
    children,
    inputs_of,
    rewrite,
    walk,
)
from penstock.sql.logical.conditions import conjunction, conjuncts, simple_call
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalCorrelate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalOverAggregate,
    LogicalOverWindow,
    LogicalProject,
    LogicalSort,
)
from penstock.sql.logical.schemas import (
    filtered,
    join,
    plain,
    project,
    projected,
    references,
)
from penstock.sql.logical.scope import OuterRef
from penstock.sql.types import BigIntType


@dataclass(frozen=True, slots=True)
class OuterBlock:
    """The block around a subquery: its number, and the rows that it has so far."""

    level: int
    node: LogicalNode


class TooComplexError(Exception):
    """A subquery cannot be turned into a join; the text says why."""


@dataclass(frozen=True, slots=True)
class DecorrelatedNode:
    """A node without outer columns, and the conditions that were in it."""

    node: LogicalNode
    conditions: tuple[Rex, ...] = ()


Equal = tuple[Rex, Rex, str]  # an inner expression, an outer one, and how they are equal


@dataclass(frozen=True, slots=True)
class KeyedNode:
    """A node with keys: `positions` are its columns that must equal `outers`; `functions` say whether NULLs are equal."""

    node: LogicalNode
    positions: tuple[int, ...]
    outers: tuple[Rex, ...]
    functions: tuple[str, ...]

    def equalities(self, schema: Sequence[Field], positions: Sequence[int]) -> tuple[Rex, ...]:
        """Return the conditions, for keys that have come to other positions."""
        return tuple(
            simple_call(function, [InputRef(schema[at].type, at), outer])
            for at, outer, function in zip(positions, self.outers, self.functions, strict=True)
        )


def pulled(node: LogicalNode, frame: OuterBlock) -> DecorrelatedNode:
    """Free a plan of the columns of the block `level`."""
    if not depends(node, frame.level):
        return DecorrelatedNode(node)
    if isinstance(node, LogicalFilter):
        return _filter(node, frame)
    if isinstance(node, LogicalProject):
        return _project(node, frame)
    if isinstance(node, LogicalAggregate):
        return _aggregate(node, frame)
    if isinstance(node, LogicalJoin):
        return _join(node, frame)
    if isinstance(node, LogicalSort):
        return _sort(node, frame)
    if isinstance(node, LogicalOverAggregate):
        return _over(node, frame)
    if isinstance(node, LogicalCorrelate):
        return _correlate(node, frame)
    raise TooComplexError(
        f"{type(node).__name__.removeprefix('Logical')} depends on the outer query"
    )


def depends(part: object, level: int) -> bool:
    """Whether a plan or an expression has columns of the block `level` in it."""
    if isinstance(part, OuterRef):
        return part.level == level
    if isinstance(part, Rex):
        return any(depends(each, level) for each in children(part))
    if isinstance(part, tuple | list):
        return any(depends(each, level) for each in part)
    if isinstance(part, LogicalNode | AggregateCall) and is_dataclass(part):
        return any(
            depends(getattr(part, each.name), level)
            for each in fields(part)
            if each.name not in {"schema", "place"}
        )
    return False


def _filter(node: LogicalFilter, frame: OuterBlock) -> DecorrelatedNode:
    below = pulled(node.input, frame)
    own = conjuncts(node.condition)
    outer = [each for each in own if depends(each, frame.level)]
    rest = [each for each in own if not depends(each, frame.level)]
    kept = filtered(below.node, conjunction(rest)) if rest else below.node
    return DecorrelatedNode(kept, (*below.conditions, *outer))


def _project(node: LogicalProject, frame: OuterBlock) -> DecorrelatedNode:
    if depends(node.expressions, frame.level):
        raise TooComplexError("SELECT of the subquery uses columns of the outer query")
    below = pulled(node.input, frame)
    expressions = list(node.expressions)

    def place(rex: Rex) -> Rex:
        if not isinstance(rex, InputRef):
            return rex
        if rex not in expressions:
            expressions.append(rex)
        return InputRef(rex.type, expressions.index(rex))

    conditions = tuple(rewrite(each, place) for each in below.conditions)
    names = [each.name for each in node.schema]
    names += [f"$c{number}" for number in range(len(expressions) - len(names))]
    schema = projected(names, expressions, below.node.schema)
    return DecorrelatedNode(
        LogicalProject(schema=schema, input=below.node, expressions=tuple(expressions)), conditions
    )


def _pair(condition: Rex) -> Equal | None:
    """Return an equality of an inner and an outer expression; None for any other condition."""
    if not (isinstance(condition, Call) and condition.function in {"=", "IS NOT DISTINCT FROM"}):
        return None
    for inner, outer in (condition.operands, condition.operands[::-1]):
        if _is_inner(inner) and inputs_of(inner) and not inputs_of(outer):
            return inner, outer, condition.function
    return None


def _is_inner(rex: Rex) -> bool:
    return not isinstance(rex, OuterRef) and all(map(_is_inner, children(rex)))


def keyed(below: DecorrelatedNode, frame: OuterBlock) -> KeyedNode:
    """Return a node with the inner sides of equalities as columns.

    Other conditions are met by a join with all values that the outer query has for them: those are columns then, and equal to themselves.
    """
    pairs = [_pair(each) for each in below.conditions]
    if None in pairs:
        return _generated(below, frame)
    equal = [each for each in pairs if each is not None]
    node = below.node
    expressions: list[Rex] = list(references(node.schema))
    positions = []
    for inner, _, _ in equal:
        if inner not in expressions:
            expressions.append(inner)
        positions.append(expressions.index(inner))
    names = [each.name for each in node.schema]
    names += [f"$k{number}" for number in range(len(expressions) - len(names))]
    return KeyedNode(
        project(node, expressions, names),
        tuple(positions),
        tuple(outer for _, outer, _ in equal),
        tuple(function for _, _, function in equal),
    )


def _generated(below: DecorrelatedNode, frame: OuterBlock) -> KeyedNode:
    """Join the distinct values of the outer query with the rows that meet the condition."""
    used = list(dict.fromkeys(each for rex in below.conditions for each in _outer_of(rex, frame)))
    values = project(
        frame.node,
        [InputRef(each.type, each.index) for each in used],
        [f"$v{number}" for number in range(len(used))],
    )
    distinct = LogicalAggregate(
        schema=plain(values.schema),
        input=values,
        keys=tuple(range(len(used))),
        aggregates=(),
    )
    width = len(below.node.schema)

    def change(rex: Rex) -> Rex:
        if isinstance(rex, OuterRef) and rex in used:
            return InputRef(rex.type, width + used.index(rex))
        return rex

    met = conjunction([rewrite(each, change) for each in below.conditions])
    return KeyedNode(
        join(below.node, distinct, "INNER", met),
        tuple(range(width, width + len(used))),
        tuple(used),
        ("IS NOT DISTINCT FROM",) * len(used),
    )


def _outer_of(rex: Rex, frame: OuterBlock) -> list[OuterRef]:
    return [each for each in walk(rex) if isinstance(each, OuterRef) and each.level == frame.level]


def _aggregate(node: LogicalAggregate, frame: OuterBlock) -> DecorrelatedNode:
    """Conditions below become keys: the aggregate is made for every value of the outer query at once."""
    below = pulled(node.input, frame)
    if depends(node.aggregates, frame.level):
        raise TooComplexError("an aggregate of the subquery uses columns of the outer query")
    if node.window is not None or node.sets is not None:
        raise TooComplexError("the subquery has windows or grouping sets")
    keys = keyed(below, frame)
    inner, positions = keys.node, keys.positions
    more = tuple(each for each in dict.fromkeys(positions) if each not in node.keys)
    grouped = (*node.keys, *more)
    schema = (
        *node.schema[: len(node.keys)],
        *(replace(inner.schema[each], time=None, window=None) for each in more),
        *node.schema[len(node.keys) :],
    )
    wide = replace(node, schema=schema, input=inner, keys=grouped)
    count, added = len(node.keys), len(more)
    order = [*range(count), *range(count + added, len(schema)), *range(count, count + added)]
    found = _picked(wide, order)
    where = [order.index(grouped.index(each)) for each in positions]
    return DecorrelatedNode(found, keys.equalities(found.schema, where))


def _picked(node: LogicalNode, order: Sequence[int]) -> LogicalNode:
    return project(
        node,
        [InputRef(node.schema[each].type, each) for each in order],
        [node.schema[each].name for each in order],
    )


def _join(node: LogicalJoin, frame: OuterBlock) -> DecorrelatedNode:
    if node.kind in {"RIGHT", "FULL"} or node.temporal is not None:
        raise TooComplexError(f"the subquery has a {node.kind} JOIN")
    if node.kind != "INNER" and depends(node.right, frame.level):
        raise TooComplexError(f"the right side of a {node.kind} JOIN depends on the outer query")
    left, right = pulled(node.left, frame), pulled(node.right, frame)
    own = conjuncts(node.condition)
    outer = [each for each in own if depends(each, frame.level)]
    if outer and node.kind != "INNER":
        raise TooComplexError(f"the condition of a {node.kind} JOIN depends on the outer query")
    before, after = len(node.left.schema), len(left.node.schema)

    def moved(rex: Rex) -> Rex:
        if isinstance(rex, InputRef) and rex.index >= before:
            return InputRef(rex.type, rex.index + after - before)
        return rex

    rest = [rewrite(each, moved) for each in own if not depends(each, frame.level)]
    joined = join(
        left.node, right.node, node.kind, conjunction(rest), hints=node.hints, place=node.place
    )
    conditions = [*left.conditions, *(rewrite(each, moved) for each in outer)]
    conditions += [_shifted(each, after) for each in right.conditions]
    width = len(joined.schema)
    if node.kind in {"SEMI", "ANTI"}:
        return DecorrelatedNode(joined, tuple(conditions))
    shown = [*range(before), *range(after, after + len(node.right.schema))]
    order = [*shown, *(each for each in range(width) if each not in shown)]
    found = _picked(joined, order)
    return DecorrelatedNode(found, tuple(_reordered(each, order) for each in conditions))


def _shifted(rex: Rex, by: int) -> Rex:
    return rewrite(
        rex,
        lambda each: InputRef(each.type, each.index + by) if isinstance(each, InputRef) else each,
    )


def _reordered(rex: Rex, order: Sequence[int]) -> Rex:
    return rewrite(
        rex,
        lambda each: (
            InputRef(each.type, order.index(each.index)) if isinstance(each, InputRef) else each
        ),
    )


def _sort(node: LogicalSort, frame: OuterBlock) -> DecorrelatedNode:
    """ORDER BY alone means nothing here; with LIMIT it is the first rows of each key."""
    below = pulled(node.input, frame)
    if node.limit is None and not node.offset:
        return below
    keys = keyed(below, frame)
    inner, positions = keys.node, keys.positions
    number = BigIntType(nullable=False)
    ranked = LogicalOverAggregate(
        schema=(*inner.schema, Field("$rank", number)),
        input=inner,
        window=LogicalOverWindow(
            tuple(dict.fromkeys(positions)), node.order or _any_order(inner), True
        ),
        calls=(AggregateCall("ROW_NUMBER", (), number),),
    )
    rank = InputRef(number, len(inner.schema))
    bounds = []
    if node.limit is not None:
        bounds.append(simple_call("<=", [rank, Literal(number, node.offset + node.limit)]))
    if node.offset:
        bounds.append(simple_call(">", [rank, Literal(number, node.offset)]))
    kept = _picked(filtered(ranked, conjunction(bounds)), range(len(inner.schema)))
    return DecorrelatedNode(kept, keys.equalities(kept.schema, positions))


def _any_order(node: LogicalNode) -> tuple[SortKey, ...]:
    """Some order, for LIMIT without ORDER BY."""
    return (SortKey(0),) if node.schema else ()


def _over(node: LogicalOverAggregate, frame: OuterBlock) -> DecorrelatedNode:
    """Rows of other values of the outer query are other partitions."""
    below = pulled(node.input, frame)
    if depends(node.calls, frame.level):
        raise TooComplexError("OVER of the subquery uses columns of the outer query")
    keys = keyed(below, frame)
    inner, positions = keys.node, keys.positions
    partition = tuple(dict.fromkeys((*node.window.partition, *positions)))
    count = len(node.input.schema)
    more = node.schema[count:]
    wide = replace(
        node,
        schema=(*inner.schema, *more),
        input=inner,
        window=replace(node.window, partition=partition),
    )
    width = len(inner.schema)
    order = [*range(count), *range(width, width + len(more)), *range(count, width)]
    found = _picked(wide, order)
    where = [order.index(each) for each in positions]
    return DecorrelatedNode(found, keys.equalities(found.schema, where))


def _correlate(node: LogicalCorrelate, frame: OuterBlock) -> DecorrelatedNode:
    if depends(node.operands, frame.level) or depends(node.condition, frame.level):
        raise TooComplexError("a table function of the subquery uses columns of the outer query")
    below = pulled(node.input, frame)
    count, width = len(node.input.schema), len(below.node.schema)
    more = node.schema[count:]
    condition = node.condition
    if condition is not None:
        condition = rewrite(
            condition,
            lambda rex: (
                InputRef(rex.type, rex.index + width - count)
                if isinstance(rex, InputRef) and rex.index >= count
                else rex
            ),
        )
    wide = replace(node, schema=(*below.node.schema, *more), input=below.node, condition=condition)
    order = [*range(count), *range(width, width + len(more)), *range(count, width)]
    return DecorrelatedNode(
        _picked(wide, order), tuple(_reordered(each, order) for each in below.conditions)
    )
