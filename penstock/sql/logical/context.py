"""Context of the conversion of one query: catalogs, settings, the text, names of WITH, the outer queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlglot import exp

from penstock.catalogs.reader import CatalogReader
from penstock.errors import PenstockError
from penstock.sql.errors import SqlError, ValidationError
from penstock.sql.expr import typing
from penstock.sql.expr.nodes import Rex
from penstock.sql.logical.nodes import LogicalNode, SqlLocation
from penstock.sql.parse import trees
from penstock.sql.types import DataType


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The settings that affect the meaning of a query. `zone`: the session time zone."""

    zone: str = "UTC"
    batch: bool = False


class OuterQuery(Protocol):
    """A block of a query that others are inside of."""

    def outer_reference(self, tree: exp.Expr, parts: Sequence[str]) -> Rex | None:
        """The expression that a name means there, as one of OuterRefs; None if it means nothing."""


@dataclass(frozen=True, slots=True)
class LogicalPlanContext:
    """See the module."""

    catalog: CatalogReader
    settings: PlanSettings = PlanSettings()
    text: str = ""
    named: Mapping[str, LogicalNode] = field(default_factory=dict)
    around: OuterQuery | None = None
    views: tuple[str, ...] = ()  # views that are being expanded, against circles

    def error(
        self,
        tree: Any,
        message: str,
        *,
        hint: str | None = None,
        detail: str | None = None,
        kind: type[SqlError] = ValidationError,
    ) -> SqlError:
        """Return the error that a part of the query makes it impossible."""
        return kind(
            message,
            detail=detail,
            hint=hint,
            position=trees.position_of(tree),
            length=trees.length_of(tree),
            statement=self.text or None,
        )

    def place(self, tree: exp.Expr | None) -> SqlLocation | None:
        """Return where a part of the query is written, if that is known."""
        position = trees.position_of(tree)
        return position and SqlLocation(position, trees.length_of(tree), self.text or None)

    def wrapped(self, tree: object, error: PenstockError) -> SqlError:
        """Return an error with the place in the query that it is about."""
        if isinstance(error, SqlError):
            return error.at(trees.position_of(tree), self.text or None, trees.length_of(tree))
        return self.error(tree, error.message, detail=error.detail, hint=error.hint)

    def inside_of(self, around: OuterQuery) -> LogicalPlanContext:
        """The context of a subquery of that block."""
        return replace(self, around=around)

    def standing_alone(self) -> LogicalPlanContext:
        """The context of a query that sees nothing of the outer queries."""
        return replace(self, around=None)

    def with_named(self, name: str, node: LogicalNode) -> LogicalPlanContext:
        """Return the context after `name AS (query)`."""
        return replace(self, named={**self.named, name: node})

    def of_view(self, name: str, catalog: CatalogReader, text: str) -> LogicalPlanContext:
        """The context of a view's query, which knows nothing of the query that uses it."""
        return LogicalPlanContext(catalog, self.settings, text, views=(*self.views, name))

    def find_outer(self, tree: exp.Expr, parts: Sequence[str]) -> Rex | None:
        """Resolve a name in the outer queries."""
        return None if self.around is None else self.around.outer_reference(tree, parts)

    def implicit_cast(self, tree: exp.Expr, rex: Rex, wanted: DataType, what: str) -> Rex:
        """Return an expression cast as may happen without CAST; refuse it otherwise."""
        if not typing.can_widen(rex.type, wanted):
            raise self.error(
                tree,
                f"{what} must be {wanted.nullable()}, got {rex.type.nullable()}",
                hint="use CAST",
            )
        return typing.cast_to(rex, wanted)
