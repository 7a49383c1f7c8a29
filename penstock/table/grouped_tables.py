"""Tables whose rows are grouped or in windows, until select says which columns are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.not_implemented import not_implemented
from penstock.sql.execution.query_scope import expanded
from penstock.sql.table_api.expression import (
    AliasExpression,
    ColumnExpression,
    Expression,
    quoted_name,
)
from penstock.sql.table_api.windows import GroupWindow, OverWindow
from penstock.sql.types import DataType, RowType

if TYPE_CHECKING:
    from penstock.table.table import Table

_RESULT = "$result"
MANY_ROWS = "table aggregate functions are not implemented"


class GroupedTable:
    """A table whose rows are grouped."""

    flat_aggregate = not_implemented(MANY_ROWS, hint="use ROW_NUMBER() OVER (...)")

    def __init__(
        self, table: Table, keys: list[Expression], window: GroupWindow | None = None
    ) -> None:
        self._table = table
        self._keys = keys
        self._window = window

    def select(self, *fields: object) -> Table:
        """Compute columns of keys and aggregates."""
        table = self._table
        scope = table._scope(window=self._window)  # noqa: SLF001 - its Table
        rest = f" GROUP BY {scope.grouping(self._keys)}" if self._keys else ""
        return table._select(table._shown(fields, scope), rest)  # noqa: SLF001 - its Table

    def key_columns(self) -> list[Expression]:
        """Return the keys that are columns; a window is none."""
        window = None if self._window is None else self._window.name
        return [key for key in self._keys if name_of(key) not in {None, window}]

    def aggregate(self, func: Any) -> AggregatedTable:
        """Aggregate each group with one function; select says which columns are wanted."""
        call = self._table._all_columns_call(func)  # noqa: SLF001 - its Table
        return AggregatedTable(self, call)


class AggregatedTable:
    """Groups with one aggregate each, whose columns are still to be chosen."""

    def __init__(self, grouped: GroupedTable, func: Any) -> None:
        self._grouped = grouped
        self._func = func

    def select(self, *fields: object) -> Table:
        """Choose columns: keys and, by its alias, the aggregate, or the fields of the row that it gives. '*' is all of them.

        Without an alias they have the names that Flink makes: TMP_0, or TMP_0$field for the fields of a row.
        """
        call, names = call_of(self._func)
        names = names or _names_without_alias(self._result_type(call))
        fields = tuple(part for each in fields for part in self._all_of(each, names))
        keys: list[Expression] = []
        chosen: list[str] = []
        for number, each in enumerate(expanded(fields, names)):
            name = name_of(each)
            if isinstance(each, ColumnExpression) and each.name in names:
                chosen.append(each.name)
                continue
            keys.append(each if name is not None else each.alias(f"_c{number}"))
            chosen.append(name or f"_c{number}")
        made = self._grouped.select(*keys, call.alias(_RESULT))
        fields_of = _fields(made.plan.schema[-1].type, names)
        return made._select(  # noqa: SLF001 - another Table
            f"{fields_of.get(name, quoted_name(name))} AS {quoted_name(name)}" for name in chosen
        )

    def _result_type(self, call: Expression) -> DataType:
        return self._grouped.select(call.alias(_RESULT)).plan.schema[-1].type

    def _all_of(self, field: Any, names: Sequence[str]) -> list[Any]:
        """Return the columns that '*' stands for, anything else as it is."""
        shown = field.name if isinstance(field, ColumnExpression) else field
        return (
            [*self._grouped.key_columns(), *map(ColumnExpression, names)]
            if shown == "*"
            else [field]
        )


class GroupWindowedTable:
    """A table with a window that group_by has to name."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        self._table = table
        self._window = window

    def group_by(self, *fields: object) -> WindowGroupedTable:
        """Group rows by the window and further expressions."""
        keys = expanded(fields, [])
        named = {each.name for each in keys if isinstance(each, ColumnExpression)}
        if self._window.name not in named:
            raise ArgumentError(
                f"the window '{self._window.name}' must be one of the keys",
                hint=f"write group_by(col('{self._window.name}'), ...)",
            )
        table, columns = self._table._with_keys(keys)  # noqa: SLF001 - its Table
        return WindowGroupedTable(table, columns, self._window)


class WindowGroupedTable(GroupedTable):
    """A table whose rows are grouped by a window."""


class OverWindowedTable:
    """A table with windows over rows."""

    def __init__(self, table: Table, windows: dict[str, OverWindow]) -> None:
        self._table = table
        self._windows = windows

    def select(self, *fields: object) -> Table:
        """Compute columns, aggregates over the windows among them."""
        table = self._table
        scope = table._scope(over=self._windows)  # noqa: SLF001 - its Table
        return table._select(table._shown(fields, scope))  # noqa: SLF001 - its Table


def _fields(kind: DataType, names: Sequence[str]) -> dict[str, str]:
    """Return the SQL names of the parts of an aggregate's result, by their names in the program."""
    if not isinstance(kind, RowType):
        return dict.fromkeys(names, quoted_name(_RESULT))
    pairs = zip(names, kind.field_names(), strict=False)
    return {name: f"{quoted_name(_RESULT)}.{quoted_name(field)}" for name, field in pairs}


def _names_without_alias(kind: DataType) -> list[str]:
    if isinstance(kind, RowType):
        return [f"TMP_0${name}" for name in kind.field_names()]
    return ["TMP_0"]


def call_of(given: object) -> tuple[Expression, list[str]]:
    """Return a call and the names that its columns are given."""
    if isinstance(given, AliasExpression):
        return given.expression, list(given.names)
    if isinstance(given, Expression):
        return given, []
    raise ArgumentTypeError(
        f"{given!r} is not a function call", hint="write f(col('a')).alias('b')"
    )


def name_of(given: object) -> str | None:
    """Return the name that an expression gives its column, None if it gives none."""
    if isinstance(given, AliasExpression):
        return given.names[0]
    return given.name if isinstance(given, ColumnExpression) else None
