"""Expressions of the Table API as the SQL of one TableEnvironment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError
from penstock.sql.table_api.column_selection import ColumnsExpression
from penstock.sql.table_api.expression import (
    ColumnExpression,
    Expression,
    as_expression,
)
from penstock.sql.table_api.windows import GroupWindow, OverWindow

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


class QueryScope:
    """Scope of a query: the environment with its functions and tables, and the windows declared for the query."""

    def __init__(
        self,
        context: StatementContext,
        *,
        window: GroupWindow | None = None,
        over: Mapping[str, OverWindow] | None = None,
    ) -> None:
        self._context = context
        self._window = window
        self._over = over or {}

    def function(self, function: object) -> str:
        """Return the name of a function of the program, which is registered when it is first used."""
        return self._context.name_function(function)

    def table(self, table: Any) -> str:
        """Return the name of a table of the program."""
        return str(table)

    def over(self, alias: str) -> str:
        """Return the OVER clause of the window with this alias."""
        if alias not in self._over:
            raise ArgumentError(
                f"unknown window '{alias}'", hint="declare it with over_window(...)"
            )
        return self._over[alias].sql(self)

    def window_property(self, alias: str, which: str) -> str | None:
        """Return the call of an auxiliary function of the group window."""
        if self._window is None or alias != self._window.name:
            return None
        return f"{self._window.kind}_{which.upper()}({self.window_operands()})"

    def window_operands(self) -> str:
        """Return the time and the sizes of the group window."""
        assert self._window is not None
        if self._window.time is None:
            raise ArgumentError(
                "the window has no time attribute", hint="call on(col('rowtime')) on it"
            )
        operands = (self._window.time, *self._window.sizes)
        return ", ".join(each.sql(self) for each in operands)

    def grouping(self, keys: Iterable[Expression]) -> str:
        """Return the GROUP BY clause: a window among the keys is rendered as its function."""
        shown = []
        for key in keys:
            if (
                self._window is not None
                and isinstance(key, ColumnExpression)
                and key.name == self._window.name
            ):
                shown.append(f"{self._window.kind}({self.window_operands()})")
            else:
                shown.append(key.sql(self))
        return ", ".join(shown)


def to_sql(context: StatementContext, expression: object) -> str:
    """Return an expression as SQL."""
    return as_expression(expression).sql(QueryScope(context))


def expanded(fields: Iterable[Any], known: list[str]) -> list[Expression]:
    """Return the arguments of select as expressions: a str is a column, with_columns is expanded."""
    found: list[Expression] = []
    for each in fields:
        if isinstance(each, ColumnsExpression):
            found += map(ColumnExpression, each.names(known))
        elif isinstance(each, str):
            found.append(ColumnExpression(each))
        else:
            found.append(as_expression(each))
    return found
