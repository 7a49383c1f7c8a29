"""MATCH_RECOGNIZE."""

from __future__ import annotations

from penstock.graph.operator_specs.columnar.changes import MatchRecognizeSpec
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import Call, walk
from penstock.sql.logical.nodes import LogicalMatch, RowPattern
from penstock.sql.physical.implement.context import PhysicalPlanContext
from penstock.sql.physical.make import exchange, operator
from penstock.sql.physical.nodes import PhysicalNode, PhysicalTraits


def implement_match(node: LogicalMatch, context: PhysicalPlanContext) -> PhysicalNode:
    """Look for patterns in the rows of each partition, in the order of their time."""
    below = context.implement(node.input)
    if below.traits.changes.retracts:
        raise ValidationError(
            "MATCH_RECOGNIZE needs an append-only input",
            detail=f"its input has changes {below.traits.changes}; Match doesn't support consuming update and delete changes",
        )
    time = below.schema[node.order[0].index].time if node.order else None
    if time is None and not context.settings.batch:
        raise ValidationError(
            "MATCH_RECOGNIZE needs a time attribute in ORDER BY",
            detail="You must specify either rowtime or proctime for order by as the first one",
            hint="ORDER BY a column with a watermark, or a PROCTIME() column",
        )
    if time is not None and not node.order[0].ascending:
        raise ValidationError("the time of MATCH_RECOGNIZE must be in ascending order")
    _check_pattern(node.pattern)
    _check_expressions(node)
    sent = exchange(below, node.partition)
    spec = MatchRecognizeSpec(
        sent.types,
        node.partition,
        node.order,
        time == "rowtime",
        node.pattern,
        node.definitions,
        node.measures,
        node.after_match,
        node.within_ms,
        node.subsets,
        node.all_rows,
        context.zone,
    )
    return operator(spec, (sent,), node.schema, PhysicalTraits(), single=not node.partition)


def _check_pattern(pattern: RowPattern) -> None:
    """Reject patterns that are not supported."""
    kinds = {"ALTER": "alternatives (A | B)", "PERMUTE": "PERMUTE"}
    if pattern.kind in kinds:
        raise ValidationError(
            f"{kinds[pattern.kind]} in a PATTERN are not supported",
            hint="use one variable and combine the conditions with OR",
        )
    if pattern.excluded:
        raise ValidationError("exclusions {- -} in a PATTERN are not supported")
    if pattern.kind == "CONCAT" and (pattern.least, pattern.most) != (1, 1):
        raise ValidationError(
            "quantifiers of groups in a PATTERN are not supported",
            detail="each iteration of (A B)+ would need its own variables",
            hint="quantify single variables",
        )
    if (pattern.least, pattern.most) == (0, 1) and not pattern.greedy:
        raise ValidationError(
            f"the reluctant optional variable {pattern.variable}?? is not supported",
            hint=f"write {pattern.variable}?",
        )
    for each in pattern.parts:
        _check_pattern(each)


def _check_expressions(node: LogicalMatch) -> None:
    for name, rex in (*node.definitions, *node.measures):
        if any(isinstance(each, Call) and each.function == "PREV" for each in walk(rex)):
            raise ValidationError(
                f"PREV is not supported in MATCH_RECOGNIZE, but '{name}' uses it",
                detail="PREV and NEXT refer to rows outside any variable",
                hint="use LAST(A.price, 1): the row before the last one of A",
            )
    if node.after_match[1] in dict(node.subsets):
        raise ValidationError(
            f"AFTER MATCH SKIP TO needs a variable of the PATTERN, but {node.after_match[1]} is a SUBSET"
        )
