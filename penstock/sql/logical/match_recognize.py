"""MATCH_RECOGNIZE: row patterns, variable definitions and measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from sqlglot import exp

from penstock.errors import PenstockError
from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.errors import UnsupportedQueryError, did_you_mean
from penstock.sql.expr import functions
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
    walk,
)
from penstock.sql.logical.conditions import TRUE
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import (
    Field,
    LogicalMatch,
    LogicalNode,
    RowPattern,
    Schema,
)
from penstock.sql.logical.over import direction
from penstock.sql.logical.schemas import PROCTIME
from penstock.sql.logical.scope import scope_of
from penstock.sql.logical.windows import milliseconds
from penstock.sql.parse import trees
from penstock.sql.types import IntType, NullType

if TYPE_CHECKING:
    from penstock.sql.logical.relations import FromClause

REFERENCE = "PATTERN REF"
_REFUSED = {"CLASSIFIER", "MATCH_NUMBER", "NEXT", "RUNNING"}


def match_recognize(clause: FromClause, tree: exp.Expr) -> LogicalNode:
    """Return the plan of relation MATCH_RECOGNIZE (...)."""
    context = clause.context
    node, _ = clause.relation(tree.this)
    pattern = pattern_of(tree.args["pattern"])
    _check_shape(context, tree)
    variables = list(dict.fromkeys(_variables(pattern)))
    subsets = _subsets(context, tree, variables)
    known = [*variables, *(name for name, _ in subsets)]
    plain = Expressions(context, scope_of(node.schema))
    partition = [_column(plain, each) for each in tree.args.get("partition_by") or ()]
    order = _order(plain, tree, node.schema)
    inside = PatternExpressions(context, node.schema, known, node.schema[order[0].index])
    definitions = _definitions(inside, tree, variables)
    inside.measuring = True
    measures = [
        (str(each.args["alias"].this), inside.convert(each.this))
        for each in tree.args.get("measures") or ()
    ]
    for name, rex in measures:
        inside.check_matched(tree, name, rex)
    schema = (
        *(_partition_field(node.schema[each]) for each in partition),
        *(_measure_field(name, rex) for name, rex in measures),
    )
    within = tree.args.get("within")
    return LogicalMatch(
        schema=schema,
        input=node,
        partition=tuple(partition),
        order=order,
        pattern=pattern,
        definitions=tuple(definitions),
        measures=tuple(measures),
        after_match=_after(context, tree.args.get("after"), known),
        within_ms=None if within is None else milliseconds(context, within, "WITHIN"),
        subsets=subsets,
        place=context.place(tree),
    )


def _partition_field(field: Field) -> Field:
    return Field(field.name, field.type)


def _measure_field(name: str, rex: Rex) -> Field:
    """MATCH_ROWTIME and MATCH_PROCTIME give time attributes."""
    times = {"MATCH_ROWTIME": "rowtime", "MATCH_PROCTIME": "proctime"}
    return Field(name, rex.type, times.get(rex.function) if isinstance(rex, Call) else None)


# the pattern


def pattern_of(tree: exp.Expr) -> RowPattern:
    """Return a pattern as a tree of nodes."""
    if isinstance(tree, trees.PatternVariable):
        return RowPattern("VARIABLE", variable=str(tree.this))
    if isinstance(tree, trees.PatternQuantified):
        inner = pattern_of(tree.this)
        least, most = tree.args["minimum"], tree.args.get("maximum")
        if (inner.least, inner.most) != (1, 1):
            inner = RowPattern("CONCAT", parts=(inner,))
        return RowPattern(
            inner.kind,
            inner.variable,
            inner.parts,
            least,
            most,
            bool(tree.args["greedy"]),
            inner.excluded,
        )
    if isinstance(tree, trees.PatternExclusion):
        inner = pattern_of(tree.this)
        return RowPattern("CONCAT", parts=(inner,), excluded=True)
    kinds: dict[type[exp.Expr], str] = {
        trees.PatternSequence: "CONCAT",
        trees.PatternChoice: "ALTER",
        trees.PatternPermutation: "PERMUTE",
    }
    return RowPattern(kinds[type(tree)], parts=tuple(map(pattern_of, tree.expressions)))


def _variables(pattern: RowPattern) -> Iterator[str]:
    if pattern.variable is not None:
        yield pattern.variable
    for each in pattern.parts:
        yield from _variables(each)


def _check_shape(context: LogicalPlanContext, tree: exp.Expr) -> None:
    """Reject clauses that are not supported on streams, as Flink does."""
    if tree.args.get("start") or tree.args.get("end"):
        raise _refused(context, tree, "the anchors ^ and $ are not supported in a PATTERN")
    if str(tree.args.get("rows") or "").startswith("ALL"):
        raise _refused(
            context, tree, "ALL ROWS PER MATCH is not supported", "use ONE ROW PER MATCH"
        )
    last = tree.args["pattern"]
    while isinstance(last, trees.PatternSequence):
        last = last.expressions[-1]
    if isinstance(last, trees.PatternQuantified) and last.args["greedy"]:
        low, high = last.args["minimum"], last.args.get("maximum")
        if low != high:
            raise _refused(
                context,
                last,
                "greedy quantifiers are not allowed as the last element of a PATTERN",
                "end it with a variable, or make the quantifier reluctant, as in B+?",
            )


def _refused(
    context: LogicalPlanContext, tree: exp.Expr, message: str, hint: str | None = None
) -> PenstockError:
    return context.error(tree, message, hint=hint, kind=UnsupportedQueryError)


def _subsets(
    context: LogicalPlanContext, tree: exp.Expr, variables: Sequence[str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = []
    for each in tree.args.get("subsets") or ():
        members = tuple(str(part.this) for part in each.this.expressions)
        for name in members:
            _check_variable(context, each, name, variables)
        found.append((str(each.args["alias"].this), members))
    return tuple(found)


def _check_variable(
    context: LogicalPlanContext, tree: exp.Expr, name: str, variables: Sequence[str]
) -> None:
    if name not in variables:
        raise context.error(
            tree,
            f"'{name}' is not a variable of the PATTERN",
            hint=did_you_mean(name, variables) or f"variables: {', '.join(variables)}",
        )


def _after(context: LogicalPlanContext, tree: Any, known: Sequence[str]) -> tuple[str, str | None]:
    if tree is None:
        return "NEXT ROW", None  # as in Flink; the standard says otherwise
    variable = tree.args.get("variable")
    if variable is not None:
        _check_variable(context, tree, str(variable), known)
        return str(tree.this), str(variable)
    return str(tree.this), None


def _column(plain: Expressions, tree: exp.Expr) -> int:
    rex = plain.convert(tree)
    if not isinstance(rex, InputRef):
        plain.unsupported(tree, "PARTITION BY and ORDER BY of MATCH_RECOGNIZE only support columns")
    return rex.index


def _order(plain: Expressions, tree: Any, schema: Schema) -> tuple[SortKey, ...]:
    order = tree.args.get("order")
    keys = tuple(
        SortKey(_column(plain, each.this), *direction(each))
        for each in (order.expressions if order is not None else ())
    )
    if not keys or schema[keys[0].index].time is None or not keys[0].ascending:
        plain.unsupported(
            order or tree,
            "MATCH_RECOGNIZE must be ordered by a time attribute, ascending",
            hint="ORDER BY the column with the WATERMARK first",
        )
    return keys


def _definitions(
    inside: PatternExpressions, tree: exp.Expr, variables: Sequence[str]
) -> list[tuple[str, Rex]]:
    found: dict[str, Rex] = {}
    for each in tree.args.get("define") or ():
        name = str(each.args["alias"].this)
        _check_variable(inside.context, each, name, variables)
        if name in found:
            inside.fail(each, f"variable '{name}' is defined twice")
        found[name] = inside.condition(each.this, f"the definition of '{name}'")
    return list(found.items())


class PatternExpressions(Expressions):
    """Expressions over the rows of a match: a column is one of a variable, `*` if none is named."""

    def __init__(
        self, context: LogicalPlanContext, schema: Schema, variables: Sequence[str], time: Field
    ) -> None:
        super().__init__(context, scope_of(schema))
        self.variables = variables
        self.time = time
        self.measuring = False

    def find(self, tree: exp.Expr, parts: Sequence[str]) -> Rex | None:
        """Return a column of a variable."""
        variable = "*"
        if len(parts) > 1 and parts[0] in self.variables:
            variable, parts = parts[0], parts[1:]
        found = self.scope.find(parts)
        if found is None:
            return None
        return self.fields_of(tree, _reference(variable, self.reference(found)), found.rest)

    def visit_anonymous(self, tree: exp.Expr) -> Rex:
        """FIRST, LAST, aggregates and the like mean something else here."""
        path = trees.function_path(tree)
        name = path[-1].upper()
        if len(path) > 1 or self.context.catalog.find_function(path) is not None:
            return super().visit_anonymous(tree)
        if name in _REFUSED:
            self.unsupported(tree, f"{name} is not supported in MATCH_RECOGNIZE")
        if name == "FINAL":
            return self.convert(tree.expressions[0])
        if name in {"FIRST", "LAST", "PREV"}:
            return self.navigation(tree, name)
        if name in {"MATCH_ROWTIME", "MATCH_PROCTIME"}:
            return self.match_time(tree, name)
        if functions.is_aggregate(name):
            return self.aggregate(tree, name)
        return super().visit_anonymous(tree)

    def navigation(self, tree: exp.Expr, name: str) -> Rex:
        """FIRST(A.x, n) and LAST(A.x, n): of the rows of A; PREV(x, n): of all rows."""
        if not 1 <= len(tree.expressions) <= 2:
            self.fail(tree, f"{name} needs a column and an offset")
        value = self.convert(tree.expressions[0])
        if not any(isinstance(each, Call) and each.function == REFERENCE for each in walk(value)):
            self.fail(tree, f"{name} needs a column of a variable", hint=f"write {name}(A.price)")
        offset: Rex = Literal(IntType(nullable=False), 1 if name == "PREV" else 0)
        if len(tree.expressions) == 2:
            offset = self.convert(tree.expressions[1])
            if not (isinstance(offset, Literal) and isinstance(offset.value, int)):
                self.fail(tree, f"the offset of {name} must be a constant number")
        return Call(value.type.nullable(), name, (value, offset))

    def match_time(self, tree: exp.Expr, name: str) -> Rex:
        """The time of a match, which is a time attribute."""
        if not self.measuring:
            self.fail(tree, f"{name} is only allowed in MEASURES")
        if name == "MATCH_PROCTIME":
            return Call(PROCTIME, name, ())
        if self.time.time != "rowtime":
            self.fail(
                tree,
                "MATCH_ROWTIME needs ORDER BY event time",
                hint="use MATCH_PROCTIME, or ORDER BY the column with the WATERMARK",
            )
        return Call(self.time.type.not_null(), name, ())

    def aggregate(self, tree: exp.Expr, name: str) -> Rex:
        """SUM(A.x) and the like: over the rows of a variable."""
        operands = [*tree.expressions]
        if len(operands) == 1 and isinstance(operands[0], exp.Distinct):
            self.unsupported(tree, "DISTINCT aggregates are not supported in MATCH_RECOGNIZE")
        rexes = [self.star(each) or self.convert(each) for each in operands]
        used = {
            each.operands[0]
            for rex in rexes
            for each in walk(rex)
            if isinstance(each, Call) and each.function == REFERENCE
        }
        if len(used) != 1:
            self.unsupported(
                tree,
                f"{name} must be applied to columns of exactly one variable",
                hint=f"write {name}(A.price)",
            )
        try:
            call = functions.resolve_aggregate(name, rexes)
        except PenstockError as error:
            raise self.context.wrapped(tree, error) from None
        return Call(call.type, call.function, call.operands)

    def star(self, tree: exp.Expr) -> Rex | None:
        """Return what COUNT(A.*) counts: rows."""
        parts = trees.name_parts(tree) if isinstance(tree, exp.Column | exp.Star) else ()
        if not parts or parts[-1] != "*":
            return None
        if len(parts) == 2 and parts[0] not in self.variables:
            _check_variable(self.context, tree, parts[0], self.variables)
        return Call(TRUE.type, REFERENCE, (_variable(parts[0]), TRUE))

    def misplaced(self, tree: object, name: str) -> NoReturn:
        """FILTER and the like around an aggregate."""
        self.unsupported(tree, f"{name} with FILTER is not supported in MATCH_RECOGNIZE")

    def check_matched(self, tree: exp.Expr, name: str, rex: Rex) -> None:
        """Reject PREV in MEASURES: rows outside of the match are gone."""
        if any(isinstance(each, Call) and each.function == "PREV" for each in walk(rex)):
            self.unsupported(tree, f"PREV is only allowed in DEFINE, but measure '{name}' uses it")


def _variable(name: str) -> Symbol:
    return Symbol(NullType(), name)


def _reference(variable: str, rex: Rex) -> Rex:
    return Call(rex.type.nullable(), REFERENCE, (_variable(variable), rex))
