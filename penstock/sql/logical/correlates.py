"""Relations that depend on the row to their left: UNNEST, LATERAL TABLE(f(x)), LATERAL (query)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.catalogs.reader import UserFunction
from penstock.sql.errors import UnsupportedQueryError, nearest
from penstock.sql.expr import functions
from penstock.sql.expr.nodes import Rex
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import (
    Field,
    LogicalCorrelate,
    LogicalNode,
    Schema,
)
from penstock.sql.logical.schemas import (
    nullable,
    one_row,
    project,
    references,
)
from penstock.sql.logical.scope import NameScope, Relation
from penstock.sql.parse import trees
from penstock.sql.types import (
    ArrayType,
    DataType,
    IntType,
    MapType,
    MultisetType,
    RowType,
)

_WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")  # which FROM knows before it comes here

if TYPE_CHECKING:
    from penstock.sql.logical.relations import FromClause


def lateral(clause: FromClause, tree: exp.Expr, kind: str, joined: object) -> None:
    """Add a relation to FROM that depends on the relations to its left."""
    if kind not in {"INNER", "LEFT"}:
        raise clause.context.error(
            tree,
            f"{kind} JOIN is not supported with a correlated right side",
            hint="use CROSS JOIN or LEFT JOIN ... ON TRUE",
            kind=UnsupportedQueryError,
        )
    if isinstance(tree, exp.Lateral) and isinstance(tree.this, exp.Subquery):
        from penstock.sql.logical.subqueries import lateral_query

        lateral_query(clause, tree, kind, joined)
        return
    correlate(clause, tree, kind, joined)


def correlate(clause: FromClause, tree: exp.Expr, kind: str, joined: Any) -> None:
    """Add UNNEST or a table function."""
    context = clause.context
    assert clause.node is not None
    left = clause.node
    inside = Expressions(context, clause.scope)
    if isinstance(tree, exp.Unnest):
        function, operands, fields, user = _unnest(inside, tree)
    else:
        function, operands, fields, user = _table_call(inside, tree.this)
    alias = tree.args.get("alias")
    name = None
    if alias is not None:
        fields = clause.aliased(alias, fields)
        name = None if alias.this is None else str(alias.this.this)
        if name is not None and isinstance(tree, exp.Unnest) and not alias.args.get("columns"):
            fields = _named_after(fields, name)
    if kind == "LEFT":
        fields = nullable(fields)
    width = len(left.schema)
    relation = Relation(name, width, fields)
    if joined is not None:
        clause.check_names(joined, [relation])
    on = None if joined is None else joined.args.get("on")
    condition = None
    if on is not None:
        both = Expressions(context, NameScope([*clause.relations, relation]))
        condition = both.condition(on, "the condition of ON")
        if getattr(condition, "value", None) is True:
            condition = None
    if condition is not None and kind == "LEFT" and user is not None:
        raise context.error(
            on,
            "LEFT JOIN with a table function only supports the condition TRUE",
            hint="write LEFT JOIN LATERAL TABLE(f(x)) AS t ON TRUE",
            kind=UnsupportedQueryError,
        )
    clause.node = LogicalCorrelate(
        schema=left.schema + fields,
        input=left,
        function=function,
        operands=operands,
        user=user,
        outer=kind == "LEFT",
        condition=condition,
    )
    clause.relations = [*clause.relations, relation]


def _named_after(fields: Schema, name: str) -> Schema:
    """UNNEST(array) AS x without names of columns: the only column is called x."""
    if fields[0].name != "EXPR$0":
        return fields
    return (replace(fields[0], name=name), *fields[1:])


Read = tuple[str, tuple[Rex, ...], Schema, UserFunction | None]


def _unnest(inside: Expressions, tree: exp.Expr) -> Read:
    operands = tuple(inside.convert(each) for each in tree.expressions)
    if len(operands) != 1:
        inside.unsupported(tree, "UNNEST needs exactly one array, map or multiset")
    fields = unnested(inside, tree, operands[0].type)
    ordinality = tree.args.get("offset")
    if ordinality:
        fields = (*fields, Field("ORDINALITY", IntType(nullable=False)))
    return ("UNNEST WITH ORDINALITY" if ordinality else "UNNEST"), operands, fields, None


def unnested(inside: Expressions, tree: exp.Expr, kind: DataType) -> Schema:
    """Return the columns that UNNEST makes of a value: the fields of rows, key and value of maps, or one column."""
    if isinstance(kind, MapType):
        return (Field("KEY", kind.key_type), Field("VALUE", kind.value_type))
    if not isinstance(kind, ArrayType | MultisetType):
        inside.fail(tree, f"UNNEST needs an array, map or multiset, got {kind}")
    element = kind.element_type
    if isinstance(element, RowType):
        return tuple(
            Field(each.name, each.data_type.nullable() if element.is_nullable else each.data_type)
            for each in element.fields
        )
    return (Field("EXPR$0", element),)


def _table_call(inside: Expressions, call: exp.Expr) -> Read:
    """LATERAL TABLE(f(x)): a user function, or UNNEST."""
    path = trees.function_path(call)
    if len(path) == 1 and path[0].upper() == "UNNEST":
        return _unnest(inside, call)
    user = inside.context.catalog.find_function(path)
    if user is None:
        shown = ".".join(path)
        near = nearest(path[-1], _WINDOWS) or functions.nearest_function(path[-1])
        inside.fail(
            call,
            f"table function '{shown}' not found",
            hint=f"did you mean '{near}'?"
            if near
            else "register it with create_temporary_function",
        )
    if user.kind != "TABLE":
        inside.fail(call, f"'{user.name}' is not a table function")
    names = user.names or _default_names(user.result_types)
    fields = tuple(Field(n, kind) for n, kind in zip(names, user.result_types, strict=True))
    return user.name, inside.user_operands(call, user), fields, user


def _default_names(types: Sequence[DataType]) -> list[str]:
    return ["EXPR$0"] if len(types) == 1 else [f"f{index}" for index in range(len(types))]


def user_table(context: LogicalPlanContext, call: exp.Expr) -> LogicalNode:
    """Return FROM TABLE(f(constants)): the rows of a table function without a left side."""
    inside = Expressions(context, NameScope())
    function, operands, fields, user = _table_call(inside, call)
    one = one_row()
    node = LogicalCorrelate(
        schema=one.schema + fields, input=one, function=function, operands=operands, user=user
    )
    names = [each.name for each in fields]
    return project(node, references(node.schema)[len(one.schema) :], names)
