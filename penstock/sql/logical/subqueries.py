"""Subqueries in expressions: EXISTS, IN, ANY, ALL and scalar ones become joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from sqlglot import exp

from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
    rewrite,
)
from penstock.sql.logical.conditions import TRUE, conjunction, simple_call
from penstock.sql.logical.decorrelation import (
    DecorrelatedNode,
    OuterBlock,
    TooComplexError,
    keyed,
    pulled,
)
from penstock.sql.logical.function_names import BINARY
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalFilter,
    LogicalNode,
    LogicalProject,
    LogicalSort,
    LogicalValues,
)
from penstock.sql.logical.schemas import (
    filtered,
    join,
    project,
    references,
)
from penstock.sql.logical.scope import NameScope, OuterRef
from penstock.sql.types import BigIntType, BooleanType

if TYPE_CHECKING:
    from penstock.sql.logical.blocks import QueryBlock
    from penstock.sql.logical.relations import FromClause

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_BIGINT = BigIntType(nullable=False)


def filter_by(block: QueryBlock, tree: Any) -> bool:
    """Keep the rows of a block for which a condition with a subquery is TRUE, by a semi or anti join; return False for any other condition."""
    negated = False
    while isinstance(tree, exp.Not | exp.Paren):
        negated ^= isinstance(tree, exp.Not)
        tree = tree.this
    if isinstance(tree, exp.Exists):
        inner = _pulled(block, tree, _without_output(_plan(block, tree.this)))
        _semi(block, inner, [], negated=negated)
        return True
    if isinstance(tree, exp.In) and tree.args.get("query") is not None:
        _filter_in(block, tree, _values(block, tree.this), "=", negated=negated)
        return True
    if type(tree) in BINARY and isinstance(tree.expression, exp.Any | exp.All):
        _filter_compared(block, tree, negated=negated)
        return True
    return False


def value(block: QueryBlock, tree: exp.Expr) -> Rex:
    """Return a subquery as a value: its result is joined to the rows of the block."""
    if isinstance(tree, exp.Exists):
        return _exists_value(block, tree)
    if isinstance(tree, exp.In):
        return _in_value(block, tree, _values(block, tree.this), tree.args["query"])
    if type(tree) in BINARY:
        name = BINARY[type(tree)]
        if (name, type(tree.expression)) == ("=", exp.Any):
            return _in_value(block, tree, _values(block, tree.this), tree.expression.this)
        if (name, type(tree.expression)) == ("<>", exp.All):
            found = _in_value(block, tree, _values(block, tree.this), tree.expression.this)
            return simple_call("NOT", [found])
        block.unsupported(
            tree,
            f"{name} {type(tree.expression).__name__.upper()} of a subquery is only supported in WHERE",
            hint="use MIN or MAX in the subquery",
        )
    return _scalar(block, tree)


# plans of subqueries


def _plan(block: QueryBlock, tree: exp.Expr) -> LogicalNode:
    from penstock.sql.logical.queries import query

    return query(block.context.inside_of(block), tree)


def _pulled(block: QueryBlock, tree: exp.Expr, node: LogicalNode) -> DecorrelatedNode:
    try:
        return pulled(node, OuterBlock(block.level, block.node))
    except TooComplexError as error:
        _refuse(block, tree, error)


def _refuse(block: QueryBlock, tree: exp.Expr, error: TooComplexError) -> NoReturn:
    block.unsupported(
        tree,
        f"this correlated subquery is not supported: {error}",
        hint="rewrite it as a join",
    )


def _without_output(node: LogicalNode) -> LogicalNode:
    """Return a query for EXISTS, whose columns do not matter."""
    while isinstance(node, LogicalProject) or (
        isinstance(node, LogicalSort) and not node.offset and node.limit != 0
    ):
        node = node.input
    return node


def _values(block: QueryBlock, tree: Any) -> list[Rex]:
    """Return the left side of IN: one value, or those of a tuple."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    parts = tree.expressions if isinstance(tree, exp.Tuple) else [tree]
    return [block.convert(each) for each in parts]


def _joined(block: QueryBlock, rex: Rex) -> Rex:
    """Return a condition of a subquery over the columns of the join with it: OuterRefs are columns of the left side."""
    width = len(block.node.schema)

    def change(each: Rex) -> Rex:
        if isinstance(each, InputRef):
            return InputRef(each.type, each.index + width)
        if isinstance(each, OuterRef) and each.level == block.level:
            return InputRef(each.type, each.index)
        return each

    return rewrite(rex, change)


def _semi(
    block: QueryBlock, inner: DecorrelatedNode, more: Sequence[Rex], *, negated: bool
) -> None:
    """Join a subquery; `more` are conditions over the columns of both already."""
    conditions = [*(_joined(block, each) for each in inner.conditions), *more]
    kind = "ANTI" if negated else "SEMI"
    block.node = join(block.node, inner.node, kind, conjunction(conditions))


# conditions


def _columns(
    block: QueryBlock, tree: exp.Expr, node: LogicalNode, left: Sequence[Rex]
) -> list[Rex]:
    """Return the columns of a subquery, to compare with as many values."""
    if len(node.schema) != len(left):
        block.fail(
            tree,
            f"the subquery returns {len(node.schema)} columns, but is compared with {len(left)}",
        )
    width = len(block.node.schema)
    return list(references(node.schema, width))


def _filter_in(
    block: QueryBlock, tree: exp.Expr, left: Sequence[Rex], operator: str, *, negated: bool
) -> None:
    query_tree = tree.args["query"] if isinstance(tree, exp.In) else tree.expression.this
    node = _plan(block, query_tree)
    right = _columns(block, tree, node, left)
    inner = _pulled(block, tree, node)
    pairs = [block.call(tree, operator, pair) for pair in zip(left, right, strict=True)]
    if negated:
        pairs = [_unless_false(each) for each in pairs]
    _semi(block, inner, pairs, negated=negated)


def _unless_false(comparison: Rex) -> Rex:
    """Return a comparison that is TRUE where it could be: NOT IN gives a row only if all comparisons are FALSE."""
    if not comparison.type.is_nullable or not isinstance(comparison, Call):
        return comparison
    missing = [
        simple_call("IS NULL", [each]) for each in comparison.operands if each.type.is_nullable
    ]
    return simple_call("OR", [comparison, *missing]) if missing else comparison


def _filter_compared(block: QueryBlock, tree: exp.Expr, *, negated: bool) -> None:
    """X > ANY (query): some row is so; x > ALL (query): no row is not."""
    name = BINARY[type(tree)]
    if name not in _NEGATED:
        block.unsupported(tree, f"{name} with ANY or ALL is not supported")
    every = isinstance(tree.expression, exp.All)
    left = _values(block, tree.this)
    if every:
        name, negated = _NEGATED[name], not negated
    _filter_in(block, tree, left, name, negated=negated)


# values


def _extend(block: QueryBlock, inner: LogicalNode, condition: Rex) -> int:
    """Join a subquery whose rows are unique for the condition; return the position of its first column."""
    width = len(block.node.schema)
    block.node = join(block.node, inner, "LEFT", condition)
    return width


def _column(block: QueryBlock, index: int) -> InputRef:
    return InputRef(block.node.schema[index].type, index)


def _scalar(block: QueryBlock, tree: exp.Expr) -> Rex:
    node = _plan(block, tree)
    if len(node.schema) != 1:
        block.fail(
            tree,
            f"a scalar subquery must return one column, got {len(node.schema)}",
            hint="select exactly one column",
        )
    inner = _pulled(block, tree, node)
    if not inner.conditions:
        single = inner.node if _one_row(inner.node) else _single_value(inner.node, ())
        return _column(block, _extend(block, single, TRUE))
    keys = keyed(inner, OuterBlock(block.level, block.node))
    wide, positions = keys.node, list(keys.positions)
    nothing = _values_without_rows(node)
    empty = None if nothing is None else nothing[0]
    if empty is None and not _one_row(node):
        wide = _single_value(wide, positions)
        positions = list(range(1, len(positions) + 1))
    width = len(block.node.schema)
    equalities = keys.equalities(wide.schema, positions)
    condition = conjunction([_joined(block, each) for each in equalities])
    if empty is None or (isinstance(empty, Literal) and empty.value is None):
        return _column(block, _extend(block, wide, condition))
    marked = project(
        wide,
        [*references(wide.schema), TRUE],
        [*(each.name for each in wide.schema), "$found"],
    )
    first = _extend(block, marked, condition)
    found = simple_call("IS NOT NULL", [_column(block, width + len(wide.schema))])
    return simple_call("CASE", [found, _column(block, first), empty])


def _one_row(node: LogicalNode) -> bool:
    """Whether a plan never gives more than one row."""
    while isinstance(node, LogicalProject | LogicalFilter):
        node = node.input
    if isinstance(node, LogicalAggregate):
        return not node.keys and node.window is None and node.sets is None
    if isinstance(node, LogicalValues):
        return len(node.rows) <= 1
    return isinstance(node, LogicalSort) and node.limit is not None and node.limit <= 1


def _single_value(node: LogicalNode, keys: Sequence[int]) -> LogicalNode:
    """Return the first column, then the keys; more than one row for a key fails while the query runs."""
    first = node.schema[0]
    call = AggregateCall("SINGLE_VALUE", (InputRef(first.type, 0),), first.type.nullable())
    found = LogicalAggregate(
        schema=(
            *(replace(node.schema[each], time=None, window=None) for each in keys),
            Field(first.name, call.type),
        ),
        input=node,
        keys=tuple(keys),
        aggregates=(call,),
    )
    order = [len(keys), *range(len(keys))]
    return project(
        found,
        [InputRef(found.schema[each].type, each) for each in order],
        [found.schema[each].name for each in order],
    )


def _values_without_rows(node: LogicalNode) -> list[Rex] | None:
    """Return what a query with an aggregate of everything gives for no rows, column by column; None for any other query."""
    below = node.input if isinstance(node, LogicalProject) else node
    if not isinstance(below, LogicalAggregate) or below.keys or below.window or below.sets:
        return None
    if not below.aggregates:
        return None
    nothing = [_empty(each) for each in below.aggregates]
    if not isinstance(node, LogicalProject):
        return nothing
    return [
        nothing[each.index]
        if isinstance(each, InputRef)
        else rewrite(each, lambda rex: nothing[rex.index] if isinstance(rex, InputRef) else rex)
        for each in node.expressions
    ]


def _empty(call: AggregateCall) -> Rex:
    return Literal(call.type, 0 if call.function == "COUNT" else None)


def _exists_value(block: QueryBlock, tree: exp.Expr) -> Rex:
    inner = _pulled(block, tree, _without_output(_plan(block, tree.this)))
    count = _counted(block, inner, ())
    return simple_call("IS NOT NULL", [_column(block, count)])


def _counted(
    block: QueryBlock, inner: DecorrelatedNode, operands: Sequence[tuple[Rex, ...]]
) -> int:
    """Join counts of a subquery's rows, by what it has to do with the row; return the position of the counts."""
    keyed_rows = keyed(inner, OuterBlock(block.level, block.node))
    wide, positions = keyed_rows.node, keyed_rows.positions
    calls = (
        AggregateCall("COUNT", (), _BIGINT),
        *(AggregateCall("COUNT", each, _BIGINT) for each in operands),
    )
    keys = tuple(dict.fromkeys(positions))
    counts = LogicalAggregate(
        schema=(
            *(replace(wide.schema[each], time=None, window=None) for each in keys),
            *(Field(f"$n{number}", _BIGINT) for number in range(len(calls))),
        ),
        input=wide,
        keys=keys,
        aggregates=calls,
    )
    equalities = keyed_rows.equalities(counts.schema, [keys.index(at) for at in positions])
    node: LogicalNode = counts
    if not keys:  # a global aggregate returns a row for no input, which does not count here
        node = LogicalFilter(
            schema=counts.schema,
            input=counts,
            condition=simple_call(">", [InputRef(_BIGINT, 0), Literal(_BIGINT, 0)]),
        )
    condition = conjunction([_joined(block, each) for each in equalities])
    return _extend(block, node, condition) + len(keys)


def _in_value(block: QueryBlock, tree: exp.Expr, left: Sequence[Rex], query_tree: exp.Expr) -> Rex:
    """Return IN as TRUE, FALSE or NULL: whether there are rows, NULLs among them, and an equal one."""
    node = _plan(block, query_tree)
    if len(node.schema) != len(left):
        _columns(block, tree, node, left)
    inner = _pulled(block, tree, node)
    outer: list[Rex] = [_as_outer(block, each) for each in left]
    equal = [
        block.call(tree, "=", [InputRef(each.type, at), rex])
        for at, (each, rex) in enumerate(zip(node.schema, outer, strict=True))
    ]
    matches = DecorrelatedNode(inner.node, (*inner.conditions, *equal))
    if not any(each.type.is_nullable for each in equal):
        return simple_call("IS NOT NULL", [_column(block, _counted(block, matches, ()))])
    counts = _counted(block, inner, [tuple(references(node.schema))])
    match = _counted(block, matches, ())
    false = Literal(BooleanType(nullable=False), False)
    unknown = Literal(BooleanType(), None)
    nulls = [simple_call("IS NULL", [each]) for each in left if each.type.is_nullable]
    operands: list[Rex] = [simple_call("IS NULL", [_column(block, counts)]), false]
    operands += [simple_call("IS NOT NULL", [_column(block, match)]), TRUE]
    for each in nulls:
        operands += [each, unknown]
    fewer = simple_call("<", [_column(block, counts + 1), _column(block, counts)])
    operands += [fewer, unknown, false]
    return simple_call("CASE", operands)


def _as_outer(block: QueryBlock, rex: Rex) -> Rex:
    return rewrite(
        rex,
        lambda each: (
            OuterRef(each.type, each.index, block.level) if isinstance(each, InputRef) else each
        ),
    )


# scalar subqueries


def lateral_query(clause: FromClause, tree: exp.Expr, kind: str, joined: Any) -> None:
    """Add LATERAL (query) to FROM: for each row to its left, the rows of a query that may use that row."""
    from penstock.sql.logical.blocks import QueryBlock
    from penstock.sql.logical.expressions import Expressions

    assert clause.node is not None
    block = QueryBlock(clause.context, clause.node, clause.scope)
    node = _plan(block, tree.this)
    inner = _pulled(block, tree, node)
    width, shown = len(clause.node.schema), len(node.schema)
    _, relations = clause.named(tree, node)
    right = [each.shifted(width) for each in relations]
    clause.check_names(joined if joined is not None else tree, right)
    on = None if joined is None else joined.args.get("on")
    both = Expressions(clause.context, NameScope([*clause.relations, *right]))
    asked = TRUE if on is None else both.condition(on, "the condition of ON")
    conditions = [_joined(block, each) for each in inner.conditions]
    nothing = _values_without_rows(node) if conditions else None
    if nothing is None:
        conditions = [each for each in (*conditions, asked) if each != TRUE]
        found: LogicalNode = join(clause.node, inner.node, kind, conjunction(conditions))
        values = references(found.schema[: width + shown])
    else:
        one, columns = _always_one(clause.node, inner.node, conditions, nothing)
        found = _kept(one, columns, width, kind, asked)
        values = references(found.schema)
    names = [*(each.name for each in clause.node.schema), *(each.name for each in node.schema)]
    clause.node = project(found, values, names)
    clause.settle([*clause.relations, *right])


def _always_one(
    left: LogicalNode, inner: LogicalNode, conditions: Sequence[Rex], nothing: Sequence[Rex]
) -> tuple[LogicalNode, list[Rex]]:
    """Join an aggregate of everything, which is there for each left row: it may be one of no rows. Return the columns too."""
    names = [each.name for each in inner.schema]
    marked = project(inner, [*references(inner.schema), TRUE], [*names, "$found"])
    found = join(left, marked, "LEFT", conjunction(list(conditions)))
    width = len(left.schema)
    columns = references(found.schema)
    met = simple_call("IS NOT NULL", [columns[-1]])
    values = [
        simple_call("CASE", [met, columns[width + at], empty]) for at, empty in enumerate(nothing)
    ]
    return found, [*columns[:width], *values]


def _kept(
    found: LogicalNode, values: Sequence[Rex], width: int, kind: str, asked: Rex
) -> LogicalNode:
    """Return the columns of rows for which the condition of a lateral join is TRUE; of a LEFT join, the others with NULLs."""
    names = [f"$c{at}" for at in range(len(values))]
    node = project(found, list(values), names)
    if asked == TRUE:
        return node
    if kind == "INNER":
        return filtered(node, asked)
    columns = references(node.schema)
    shown = [
        each
        if at < width
        else simple_call("CASE", [asked, each, Literal(each.type.nullable(), None)])
        for at, each in enumerate(columns)
    ]
    return project(node, shown, names)
