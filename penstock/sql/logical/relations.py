"""FROM: relations, their names, and joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from penstock.sql.errors import UnsupportedQueryError, did_you_mean
from penstock.sql.expr.nodes import InputRef, Rex
from penstock.sql.logical import correlates, tables, windows
from penstock.sql.logical.conditions import (
    TRUE,
    conjunction,
    simple_call,
    tree_conjuncts,
)
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.hints import state_ttl
from penstock.sql.logical.nodes import LogicalNode, Schema
from penstock.sql.logical.schemas import (
    join,
    one_row,
    project,
    references,
    rename,
    renamed,
)
from penstock.sql.logical.scope import NameScope, Relation
from penstock.sql.parse import trees

_LATERAL = (exp.Lateral, exp.Unnest)


class FromClause:
    """The result of FROM so far: a node, and the names of its columns."""

    def __init__(self, context: LogicalPlanContext, hints: Sequence[trees.Hint] = ()) -> None:
        self.context = context
        self.node: LogicalNode | None = None
        self.relations: list[Relation] = []
        self.hints = hints
        self.later: list[
            Any
        ] = []  # conditions of inner joins with subqueries: those of WHERE, as it were

    @property
    def scope(self) -> NameScope:
        """The names so far."""
        return NameScope(list(self.relations))

    def read(self, tree: exp.Expr) -> None:
        """Take the relations of a SELECT."""
        first = tree.args.get("from_") or tree.args.get("from")
        if first is None:
            self.node = one_row()
            return
        self.add(first.this)
        for each in tree.args.get("joins") or ():
            self.join(each)
        for each in tree.args.get("laterals") or ():
            self.lateral(each, "INNER", None)

    def add(self, tree: exp.Expr) -> None:
        """Add the first relation, with the joins that follow it."""
        if isinstance(tree, _LATERAL):
            self.node = one_row()
            self.lateral(tree, "INNER", None)
        else:
            self.node, self.relations = self.relation(tree)
            version = tree.args.get("version")
            if version is not None:
                raise self.context.error(
                    version,
                    "FOR SYSTEM_TIME AS OF is only supported on the right table of a join",
                    hint="write FROM a JOIN b FOR SYSTEM_TIME AS OF a.time AS b ON ...",
                    kind=UnsupportedQueryError,
                )
        for each in tree.args.get("joins") or ():
            self.join(each)

    # single relations

    def relation(self, tree: exp.Expr) -> tuple[LogicalNode, list[Relation]]:
        """Return the plan of a relation and the names that it brings."""
        if isinstance(tree, exp.Table):
            return self.table(tree)
        if isinstance(tree, exp.Subquery):
            return self.subquery(tree)
        if isinstance(tree, exp.Values):
            from penstock.sql.logical.queries import query

            return self.named(tree, query(self.context, tree))
        if isinstance(tree, trees.TableFunctionCall):
            return self.named(tree, windows.table_function(self, tree))
        if isinstance(tree, trees.MatchRecognize):
            from penstock.sql.logical.match_recognize import match_recognize

            return self.named(tree, match_recognize(self, tree))
        raise self.context.error(tree, "unsupported expression in FROM", kind=UnsupportedQueryError)

    def table(self, tree: exp.Expr) -> tuple[LogicalNode, list[Relation]]:
        """A table, a view, or a name of WITH."""
        name = trees.name_parts(tree)
        named = self.context.named.get(name[0]) if len(name) == 1 else None
        if named is not None:
            node = named
        else:
            node = tables.read(self.context, tree, name, options_of(tree))
        version = tree.args.get("version")
        if version is not None and version.find(exp.Column) is None:
            raise self.context.error(
                version,
                "FOR SYSTEM_TIME AS OF must be a time attribute of the left table of a join",
                detail="no connector supports time travel",
                hint="join with FOR SYSTEM_TIME AS OF a column with a WATERMARK, or a column AS PROCTIME()",
                kind=UnsupportedQueryError,
            )
        return self.named(tree, node, name[-1], name)

    def subquery(self, tree: exp.Expr) -> tuple[LogicalNode, list[Relation]]:
        """A query in parentheses, or joins in parentheses."""
        inner = tree.this
        if isinstance(inner, exp.Query) and not isinstance(inner, exp.Table):
            from penstock.sql.logical.queries import query

            plain = tree.copy() if _has_tail(tree) else inner
            if plain is not inner:
                plain.set("alias", None)
                plain.set("joins", None)
            return self.named(tree, query(self.context.standing_alone(), plain))
        inside = FromClause(self.context, self.hints)
        inside.add(inner)
        assert inside.node is not None
        self.later += inside.later
        if tree.args.get("alias") is None:
            return inside.node, inside.relations
        return self.named(tree, inside.node)

    def named(
        self,
        tree: exp.Expr,
        node: LogicalNode,
        name: str | None = None,
        path: tuple[str, ...] = (),
    ) -> tuple[LogicalNode, list[Relation]]:
        """Return a relation under the alias that it is given."""
        alias = tree.args.get("alias")
        if alias is None:
            return node, [Relation(name, 0, node.schema, path)]
        schema = self.aliased(alias, node.schema)
        shown = str(alias.this.this) if alias.this is not None else name
        return rename(node, schema), [Relation(shown, 0, schema)]

    def aliased(self, alias: Any, schema: Schema) -> Schema:
        """Return columns with the names that an alias gives them."""
        columns = [str(each.this) for each in alias.args.get("columns") or ()]
        if not columns:
            return schema
        if len(columns) != len(schema):
            raise self.context.error(
                alias,
                f"the alias names {len(columns)} columns, but the relation has {len(schema)}",
                hint=f"the columns are: {', '.join(each.name for each in schema)}",
            )
        return renamed(schema, columns)

    # joins

    def join(self, tree: exp.Expr) -> None:
        """Take another relation."""
        kind = self.join_kind(tree)
        other = tree.this
        if isinstance(other, _LATERAL):
            self.lateral(other, kind, tree)
            return
        node, relations = self.relation(other)
        for each in other.args.get("joins") or ():  # after the relation, not in parentheses
            inside = FromClause(self.context, self.hints)
            inside.node, inside.relations = node, relations
            inside.join(each)
            node, relations = inside.node, inside.relations
        self.combine(tree, kind, node, relations)

    def join_kind(self, tree: exp.Expr) -> str:
        """Return INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""
        side = str(tree.args.get("side") or "").upper()
        kind = str(tree.args.get("kind") or "").upper()
        if kind in {"SEMI", "ANTI"}:
            return kind
        return side or "INNER"

    def combine(
        self, tree: exp.Expr, kind: str, node: LogicalNode, relations: Sequence[Relation]
    ) -> None:
        """Join the current relation with another one."""
        left = self.node
        assert left is not None
        width = len(left.schema)
        right = [each.shifted(width) for each in relations]
        self.check_names(tree, right)
        temporal = self.temporal(tree)
        hints = join_hints(self.hints, self.relations, relations)
        merged = self.merged_names(tree, relations)
        if merged:
            self.merge(tree, kind, node, right, merged, temporal, hints)
            return
        both = NameScope([*self.relations, *right])
        on = tree.args.get("on")
        condition: Rex = TRUE
        if on is not None:
            condition = self.condition(both, kind, on)
        elif kind != "INNER":
            raise self.context.error(tree, f"{kind} JOIN needs a condition", hint="add ON ...")
        place = self.context.place(tree.this)
        self.node = join(left, node, kind, condition, temporal=temporal, hints=hints, place=place)
        self.settle(both.relations if kind not in {"SEMI", "ANTI"} else self.relations)

    def condition(self, both: NameScope, kind: str, on: Any) -> Rex:
        """Return the condition of ON. Subqueries of an inner join wait until all relations are there."""
        inside = Expressions(self.context, both)
        if kind != "INNER" or on.find(exp.Query) is None:
            return inside.condition(on, "the condition of ON")
        parts = list(tree_conjuncts(on))
        self.later += [each for each in parts if each.find(exp.Query) is not None]
        plain = [each for each in parts if each.find(exp.Query) is None]
        return conjunction([inside.condition(each, "the condition of ON") for each in plain])

    def settle(self, relations: Sequence[Relation]) -> None:
        """Take over relations; their columns are what the node gives now."""
        assert self.node is not None
        schema = self.node.schema
        self.relations = [
            replace(
                each,
                fields=tuple(
                    replace(schema[index], name=own.name)
                    for index, own in enumerate(each.fields, each.start)
                ),
            )
            for each in relations
        ]

    def check_names(self, tree: exp.Expr, more: Sequence[Relation]) -> None:
        """Reject a relation whose name is taken."""
        taken = {each.name for each in self.relations if each.name}
        for each in more:
            if each.name in taken:
                raise self.context.error(
                    tree.this,
                    f"the name '{each.name}' is used twice in FROM",
                    hint="give one of them an alias",
                )

    def temporal(self, tree: exp.Expr) -> Rex | None:
        """Return the time that FOR SYSTEM_TIME AS OF says, over the columns of the left side."""
        version = tree.this.args.get("version") if isinstance(tree.this, exp.Table) else None
        if version is None:
            return None
        rex = Expressions(self.context, self.scope).convert(version.expression)
        assert self.node is not None
        if not isinstance(rex, InputRef) or self.node.schema[rex.index].time is None:
            raise self.context.error(
                version,
                "FOR SYSTEM_TIME AS OF must be a time attribute of the left table",
                detail="Temporal table join currently only supports 'FOR SYSTEM_TIME AS OF' left table's time attribute field",
                hint="declare a WATERMARK for it, or add a column AS PROCTIME()",
                kind=UnsupportedQueryError,
            )
        return rex

    def merged_names(self, tree: exp.Expr, relations: Sequence[Relation]) -> list[str]:
        """Return the names of USING or NATURAL."""
        if tree.args.get("using"):
            return [trees.name_parts(each)[-1] for each in tree.args["using"]]
        if str(tree.args.get("method") or "").upper() != "NATURAL":
            return []
        right = {field.name for _, field in NameScope(list(relations)).columns()}
        return [field.name for _, field in self.scope.columns() if field.name in right]

    def merge(
        self,
        tree: exp.Expr,
        kind: str,
        node: LogicalNode,
        right: Sequence[Relation],
        names: Sequence[str],
        temporal: Rex | None,
        hints: dict[str, Any],
    ) -> None:
        """Join by columns of the same names, each of which is there once afterwards."""
        left = self.node
        assert left is not None
        pairs = [
            (self.only(tree, self.scope, name), self.only(tree, NameScope(list(right)), name))
            for name in names
        ]
        condition = conjunction([simple_call("=", pair) for pair in pairs])
        place = self.context.place(tree.this)
        joined = join(left, node, kind, condition, temporal=temporal, hints=hints, place=place)
        if kind in {"SEMI", "ANTI"}:
            self.node = joined
            return
        merged = [self.merged(kind, joined.schema, *pair) for pair in pairs]
        shift = len(names)
        self.node = project(
            joined,
            [*merged, *references(joined.schema)],
            [*names, *(each.name for each in joined.schema)],
        )
        hidden = frozenset(names)
        front = Relation(None, 0, tuple(self.node.schema[:shift]))
        others = [
            replace(each.shifted(shift), hidden=each.hidden | hidden)
            for each in (*self.relations, *right)
        ]
        self.settle([front, *others])

    def only(self, tree: exp.Expr, scope: NameScope, name: str) -> Rex:
        """Return the column of USING in one of the sides."""
        found = scope.find([name])
        if found is None:
            known = [field.name for _, field in scope.columns()]
            raise self.context.error(
                tree,
                f"column '{name}' of USING is not in both tables",
                hint=did_you_mean(name, known),
            )
        return InputRef(found.field.type, found.index)

    def merged(self, kind: str, schema: Schema, left: Rex, right: Rex) -> Rex:
        """Return the column that USING makes of two."""
        assert isinstance(left, InputRef)
        assert isinstance(right, InputRef)
        first = InputRef(schema[left.index].type, left.index)
        second = InputRef(schema[right.index].type, right.index)
        if kind == "RIGHT":
            return second
        return simple_call("COALESCE", [first, second]) if kind == "FULL" else first

    # relations that depend on the columns to their left

    def lateral(self, tree: exp.Expr, kind: str, joined: object) -> None:
        """Take UNNEST, LATERAL TABLE or LATERAL (query)."""
        correlates.lateral(self, tree, kind, joined)


def options_of(tree: exp.Expr) -> dict[str, str]:
    """Return the OPTIONS hints of a relation."""
    found: dict[str, str] = {}
    for hint in trees.hints_of(tree):
        if hint.name == "OPTIONS":
            found |= hint.options
    return found


def join_hints(
    hints: Sequence[trees.Hint], left: Sequence[Relation], right: Sequence[Relation]
) -> dict[str, Any]:
    """Return the join hints of SELECT: the LOOKUP options of its right table, STATE_TTL as milliseconds by side."""
    found: dict[str, Any] = {
        hint.name: dict(hint.options) or hint.arguments
        for hint in hints
        if hint.name in {"STATE_TTL", "BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP"}
    }
    looked_up = {_own_name(each.name) for each in right}
    for hint in hints:
        if hint.name == "LOOKUP" and _own_name(hint.options.get("table")) in looked_up:
            found.setdefault("LOOKUP", dict(hint.options))
    if "STATE_TTL" in found:
        kept = {_own_name(name): ttl for name, ttl in state_ttl(hints).items()}
        found["STATE_TTL"] = {
            side: kept[_own_name(each.name)]
            for side, relations in (("left", left), ("right", right))
            for each in relations
            if _own_name(each.name) in kept
        }
    return found


def _own_name(name: str | None) -> str:
    """Return the name of a table without its catalog and database, as hints are compared by it."""
    return str(name).rpartition(".")[2].lower()


def _has_tail(tree: exp.Expr) -> bool:
    """Whether parentheses have ORDER BY, LIMIT or WITH of their own."""
    return any(tree.args.get(each) for each in ("order", "limit", "offset", "with_", "with"))
