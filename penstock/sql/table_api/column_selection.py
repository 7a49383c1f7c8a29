"""Choices of columns in select: ranges of them, these and no others, all but these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ArgumentError
from penstock.sql.table_api.expression import (
    ColumnExpression,
    Expression,
    ExpressionScope,
    ValueExpression,
)


class ColumnRangeExpression(Expression):
    """Columns from one to another, by names or positions (from 1)."""

    __slots__ = ("first", "last")

    def __init__(self, first: str | int, last: str | int) -> None:
        self.first = first
        self.last = last

    def sql(self, scope: ExpressionScope) -> str:
        """Reject: it stands inside of with_columns."""
        raise ArgumentError("range_ is only allowed in with_columns or without_columns")


class ColumnsExpression(Expression):
    """Some columns of a table, or all others."""

    __slots__ = ("items", "without")

    def __init__(self, items: Sequence[Any], without: bool) -> None:
        self.items = tuple(items)
        self.without = without

    def sql(self, scope: ExpressionScope) -> str:
        """Reject: only a select knows which columns there are."""
        raise ArgumentError("with_columns and without_columns are only allowed in select")

    def names(self, known: Sequence[str]) -> list[str]:
        """Return the names that it means, of those that there are."""
        chosen: list[str] = []
        for item in self.items:
            if isinstance(item, ColumnRangeExpression):
                first, last = (_index(known, each) for each in (item.first, item.last))
                chosen += known[first : last + 1]
            elif isinstance(item, ColumnExpression):
                chosen += known if item.name == "*" else [item.name]
            elif isinstance(item, ValueExpression) and isinstance(item.value, int):
                chosen.append(known[_index(known, item.value)])
            else:
                chosen.append(known[_index(known, item)])
        return [name for name in known if name not in chosen] if self.without else chosen


def _index(known: Sequence[str], name: Any) -> int:
    if isinstance(name, int):
        if not 1 <= name <= len(known):
            raise ArgumentError(
                f"column index {name} is out of range: the table has {len(known)} columns"
            )
        return name - 1
    if name not in known:
        raise ArgumentError(
            f"column '{name}' not found", detail=f"available columns: {', '.join(known)}"
        )
    return list(known).index(name)
