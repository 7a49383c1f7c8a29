"""MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.graph.operator_specs.columnar.changes import MatchRecognizeSpec
from penstock.graph.state_description import Text, joined, text_of
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import Call, walk
from penstock.sql.logical.nodes import LogicalMatch, RowPattern
from penstock.sql.logical.texts import show_columns, show_millis, show_order
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage, text_of_order, text_of_rex
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator, PhysicalTraits
from penstock.sql.physical.operators.exchange import exchange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalMatch(PhysicalOperator):
    """Looks for patterns in the rows of each partition."""

    spec: MatchRecognizeSpec

    def describe(self) -> list[str]:
        """Return the clauses."""
        spec, below = self.spec, self.input_names
        return [
            f"partitionBy=[{show_columns(spec.keys, below)}]",
            f"orderBy=[{show_order(spec.order, below)}]",
            f"measures=[{', '.join(name for name, _ in spec.measures)}]",
            f"define=[{', '.join(name for name, _ in spec.definitions)}]",
        ]

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the keys and the measures."""
        spec, below = self.spec, lineage.columns(self.inputs[0])
        keys = [below[at] for at in spec.keys]
        return [*keys, *(text_of_rex(rex, below, spec.zone) for _, rex in spec.measures)]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the clauses and the rows of partial matches."""
        spec, below = self.spec, self.inputs[0]
        columns = lineage.columns(below)
        after, variable = spec.after_match
        subsets = ", ".join(f"{name} = ({', '.join(of)})" for name, of in spec.subsets)
        defined = [
            text_of(f"{name} AS ", text_of_rex(rex, columns, spec.zone))
            for name, rex in spec.definitions
        ]
        return {
            "keys": lineage.typed(below, spec.keys),
            "order": text_of_order(spec.order, columns),
            "pattern": (_pattern(spec.pattern),),
            "subsets": (subsets,) if subsets else (),
            "define": joined(defined),
            # Rows of partial matches have the columns that the measures read.
            "measures": joined([text_of_rex(rex, columns, spec.zone) for _, rex in spec.measures]),
            "after match": (f"SKIP {after}" + (f" {variable}" if variable else ""),),
            "within": () if spec.within_ms is None else (show_millis(spec.within_ms),),
            "rows": lineage.rows(below),
        }


def _pattern(node: RowPattern) -> str:
    """Return a row pattern as text.

    >>> least = RowPattern("VARIABLE", "B", least=1, most=None, greedy=False)
    >>> _pattern(RowPattern("CONCAT", parts=(RowPattern("VARIABLE", "A"), least)))
    '(A B{1,}?)'
    """
    inner = node.variable or f"({f' {_SEPARATORS[node.kind]}'.join(map(_pattern, node.parts))})"
    if node.excluded:
        inner = f"{{- {inner} -}}"
    if (node.least, node.most) == (1, 1):
        return inner
    most = "" if node.most is None else node.most
    return f"{inner}{{{node.least},{most}}}" + ("" if node.greedy else "?")


_SEPARATORS = {"CONCAT": "", "ALTER": "| ", "PERMUTE": ", "}


@implements(LogicalMatch)
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
    return PhysicalMatch.of(spec, (sent,), node.schema, PhysicalTraits(), single=not node.partition)


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
