"""A block of a query: its node so far, and the scope of expressions over it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from penstock.sql.errors import SqlError
from penstock.sql.expr import functions
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    rewrite,
    walk,
)
from penstock.sql.logical import subqueries
from penstock.sql.logical.conditions import conjunction, conjuncts, tree_conjuncts
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import LogicalJoin, LogicalNode, Schema
from penstock.sql.logical.schemas import filtered, join, project
from penstock.sql.logical.scope import NameScope, OuterRef
from penstock.sql.parse import trees

_levels = itertools.count(1)
GROUPING = {"GROUPING", "GROUPING_ID", "GROUP_ID"}  # of the grouping set, not of its rows
_SHELLS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


@dataclass(slots=True)
class Projection:
    """Expressions that become columns, each of them once."""

    schema: Schema
    expressions: list[Rex] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, rex: Rex) -> int:
        """Return the position of the column that an expression becomes."""
        if rex in self.expressions:
            return self.expressions.index(rex)
        name = f"$f{len(self.expressions)}"
        if isinstance(rex, InputRef) and rex.index < len(self.schema):
            name = self.schema[rex.index].name
        self.names.append(name)
        self.expressions.append(rex)
        return len(self.expressions) - 1

    def operand(self, rex: Rex) -> Rex:
        """Return an expression as a column; constants are unchanged."""
        return rex if isinstance(rex, Literal) else InputRef(rex.type, self.add(rex))

    def over(self, node: LogicalNode) -> LogicalNode:
        """Return the projection."""
        return project(node, self.expressions, self.names)


@dataclass(slots=True)
class Grouping:
    """Scope after GROUP BY: the expressions before it, and the keys, which are the first columns of its output."""

    base: Expressions
    keys: Sequence[Rex]
    fields: Schema

    def regrouped(self, rex: Rex) -> Rex | None:
        """Return an expression over the columns behind GROUP BY; None if it needs others than the keys."""
        if rex in self.keys:
            position = self.keys.index(rex)
            return InputRef(self.fields[position].type, position)
        if isinstance(rex, InputRef):
            return None
        if isinstance(rex, Call) and rex.function == "FIELD":
            inner = self.regrouped(rex.operands[0])
            return None if inner is None else Call(rex.type, "FIELD", (inner, rex.operands[1]))
        return rex if not any(isinstance(each, InputRef) for each in walk(rex)) else None


class QueryBlock(Expressions):
    """Expressions over rows that may grow: a subquery is joined to them."""

    def __init__(self, context: LogicalPlanContext, node: LogicalNode, scope: NameScope) -> None:
        super().__init__(context, scope)
        self.node = node
        self.level = next(_levels)
        self.replaced: dict[int, Rex] = {}  # id of a tree -> the column that it became
        self.grouping: Grouping | None = None
        self.aliases: dict[str, Any] = {}  # names of SELECT, where they may be used
        self.aliases_first = False

    # names

    def find(self, tree: exp.Expr, parts: Sequence[str]) -> Rex | None:
        """Return the column of a name; behind GROUP BY it must be one of the keys."""
        alias = self.aliases.get(parts[0]) if len(parts) == 1 else None
        if alias is not None and self.aliases_first:
            return self.unaliased(alias)
        if self.grouping is None:
            found = super().find(tree, parts)
        else:
            before = self.grouping.base.find(tree, parts)
            found = None if before is None else self.grouping.regrouped(before)
            if before is not None and found is None:
                self.not_grouped(tree)
        return self.unaliased(alias) if found is None and alias is not None else found

    def unaliased(self, tree: exp.Expr) -> Rex:
        """Resolve an alias of SELECT; such names are not visible within SELECT."""
        aliases, self.aliases = self.aliases, {}
        try:
            return self.convert(tree)
        finally:
            self.aliases = aliases

    def not_grouped(self, tree: exp.Expr) -> None:
        """Reject a column that is neither aggregated nor a key."""
        shown = ".".join(trees.name_parts(tree))
        self.fail(
            tree,
            f"expression '{shown}' is not being grouped",
            hint=f"add {shown} to GROUP BY, or aggregate it, as in MAX({shown})",
        )

    def outer_reference(self, tree: exp.Expr, parts: Sequence[str]) -> Rex | None:
        """Resolve a name for a subquery of this block."""
        found = self.find(tree, parts)
        if found is None:
            return None
        return rewrite(
            found,
            lambda rex: (
                OuterRef(rex.type, rex.index, self.level) if isinstance(rex, InputRef) else rex
            ),
        )

    # trees that mean something here

    def intercept(self, tree: exp.Expr) -> Rex | None:
        """Return expressions that are already columns, and GROUP BY keys that are expressions."""
        if id(tree) in self.replaced:
            return self.replaced[id(tree)]
        if self.grouping is None or isinstance(tree, exp.Column | exp.Literal | exp.Paren):
            return None
        if all(isinstance(key, InputRef) for key in self.grouping.keys):
            return None
        if any(
            is_aggregate(self.context, each) or isinstance(each, exp.Query) for each in tree.walk()
        ):
            return None
        try:
            rex = self.grouping.base.convert(tree)
        except SqlError:
            return None
        if rex not in self.grouping.keys:
            return None
        return self.grouping.regrouped(rex)

    # filters

    def filter(self, tree: exp.Expr, where: str) -> None:
        """Keep the rows for which a condition is TRUE. EXISTS and IN become semi and anti joins."""
        plain: list[Any] = []
        others: list[Any] = []
        for each in tree_conjuncts(tree):
            (others if _has_query(each) else plain).append(each)
        if plain:
            condition = conjunction(
                [part for each in plain for part in conjuncts(self.condition(each, where))]
            )
            self.node = with_inferred_join_type(self.node, conjuncts(condition))
            self.node = filtered(self.node, condition)
        for each in others:
            if not subqueries.filter_by(self, each):
                condition = self.condition(each, where)  # a subquery in it changes the node
                self.node = filtered(self.node, condition)

    # subqueries

    def visit_subquery(self, tree: exp.Expr) -> Rex:
        """A scalar subquery, or IN, as a value."""
        return subqueries.value(self, tree)

    def visit_exists(self, tree: exp.Expr) -> Rex:
        """EXISTS as a value."""
        return subqueries.value(self, tree)

    def binary(self, name: str, tree: exp.Expr) -> Rex:
        """An operator; with ANY and ALL, over a subquery."""
        if isinstance(tree.expression, exp.Any | exp.All):
            return subqueries.value(self, tree)
        return super().binary(name, tree)


def with_inferred_join_type(node: LogicalNode, conditions: Sequence[Rex]) -> LogicalNode:
    """Return an inner join whose columns are what they are with conditions of WHERE, too: those may make it one within an interval."""
    if not (isinstance(node, LogicalJoin) and node.kind == "INNER" and node.temporal is None):
        return node
    width = len(node.left.schema)
    own = [
        each
        for each in conditions
        if all(not isinstance(part, InputRef) or part.index < width for part in walk(each))
    ]
    left = with_inferred_join_type(node.left, own)
    return join(
        left,
        node.right,
        "INNER",
        node.condition,
        hints=node.hints,
        also=conditions,
        place=node.place,
    )


def _has_query(tree: exp.Expr) -> bool:
    return any(isinstance(each, exp.Query) for each in tree.walk())


def is_aggregate(context: LogicalPlanContext, tree: object) -> bool:
    """Whether a tree is a call of an aggregate function, FILTER and the like around it."""
    while isinstance(tree, _SHELLS):
        tree = tree.this
    if isinstance(tree, trees.JsonObject | trees.JsonArray):
        return bool(tree.args.get("aggregate"))
    if not isinstance(tree, exp.Anonymous):
        return False
    path = trees.function_path(tree)
    user = context.catalog.find_function(path)
    if user is not None:
        return user.kind == "AGGREGATE"
    name = path[0].upper()
    return len(path) == 1 and functions.is_aggregate(name) and name not in GROUPING


def own_parts(tree: exp.Expr) -> Iterator[Any]:
    """Go through a tree, outer ones first, without the queries inside of it."""
    yield tree
    if isinstance(tree, exp.Query):
        return
    for each in tree.iter_expressions():
        yield from own_parts(each)


def aggregates_in(context: LogicalPlanContext, tree: exp.Expr) -> Iterator[Any]:
    """Go through the aggregates of an expression, from left to right; those of OVER are none."""
    if isinstance(tree, exp.Query):
        return
    if isinstance(tree, exp.Window):
        inner = tree.this
        while isinstance(inner, _SHELLS):
            inner = inner.this
        parts = [*inner.iter_expressions()]
        parts += [each for key, each in _arguments(tree) if key != "this"]
    elif is_aggregate(context, tree):
        yield tree
        return
    else:
        parts = list(tree.iter_expressions())
    for each in parts:
        yield from aggregates_in(context, each)


def _arguments(tree: exp.Expr) -> Iterator[tuple[str, Any]]:
    for key, value in tree.args.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Expression):
                yield key, each
