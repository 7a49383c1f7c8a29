"""Statements that read a part of a table, in an order in which reading can resume after any row."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.common.user_types import Position
from penstock.connectors.jdbc.generic import DriverStatement, create_engine, sqlalchemy
from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.connectors.jdbc.postgres import connect
from penstock.connectors.jdbc.splits import SplitRange


@dataclass(frozen=True, slots=True)
class JdbcScan:
    """A table or query to read, the column that splits it, and the columns of its unique key, if known."""

    relation: str  # the FROM clause
    column: str | None
    key: tuple[str, ...]
    quote: str = '"'
    every: tuple[str, ...] = ()  # all columns, if rows without a key cannot be ordered as text

    def statement(self, part: SplitRange, position: Position) -> tuple[str, list[Any]]:
        """Return SQL with `?`, and its parameters, for the rows of a part that come after a position.

        With a key, a position is the values of the columns that the rows are ordered by. Without one it is the number of rows
        read, and rows are ordered by all columns: only equal rows may swap places.
        """
        conditions, parameters = self._range(part)
        order = self._order(part)
        if position is not None and order and self.key:
            marks = ", ".join("?" for _ in order)
            conditions.append(f"({', '.join(order)}) > ({marks})")
            parameters += list(position)
        sql = f"SELECT * FROM {self.relation} AS penstock_rows"  # noqa: S608 - given by the user
        if conditions:
            sql += " WHERE " + " AND ".join(conditions)
        if not self.key:
            every = [self.quoted(name) for name in self.every]
            order += every or ['CAST(penstock_rows AS text) COLLATE "C"']
        if order:
            sql += " ORDER BY " + ", ".join(order)
        if not self.key and position:
            sql += f" LIMIT {2**62} OFFSET {int(position)}"
        return sql, parameters

    def order_columns(self, part: SplitRange) -> list[str]:
        """Return the columns whose values are a position in a part."""
        if not self.key:
            return []
        return self._ordered(part)

    def _ordered(self, part: SplitRange) -> list[str]:
        column = [] if self.column is None or part.nulls else [self.column]
        return [*column, *(name for name in self.key if name != self.column)]

    def _order(self, part: SplitRange) -> list[str]:
        return [self.quoted(name) for name in self._ordered(part)]

    def _range(self, part: SplitRange) -> tuple[list[str], list[Any]]:
        if self.column is None:
            return [], []
        column = self.quoted(self.column)
        if part.nulls:
            return [f"{column} IS NULL"], []
        conditions, parameters = [f"{column} IS NOT NULL"], []
        if part.low is not None:
            conditions.append(f"{column} >= ?")
            parameters.append(part.low)
        if part.high is not None:
            conditions.append(f"{column} < ?")
            parameters.append(part.high)
        return conditions, parameters

    def quoted(self, name: str) -> str:
        """Return a quoted identifier."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote


class Cursor:
    """A server-side cursor over the rows of a statement."""

    def __init__(self, options: JdbcConnectionOptions, sql: str, parameters: Sequence[Any]) -> None:
        self._connection: Any = None
        self._cursor: Any = None
        self.names: tuple[str, ...] = ()
        try:
            if options.target.kind == "postgresql":
                self._open_postgres(options, sql, parameters)
            else:
                self._open_other(options, sql, parameters)
        except BaseException:
            self.close()
            raise

    def _open_postgres(
        self, options: JdbcConnectionOptions, sql: str, parameters: Sequence[Any]
    ) -> None:
        from penstock.connectors.jdbc.statements import for_psycopg

        self._connection = connect(options)
        self._connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._cursor = self._connection.cursor("penstock_scan")
        self._cursor.execute(for_psycopg(sql), list(parameters))
        self.names = tuple(column.name for column in self._cursor.description)

    def _open_other(
        self, options: JdbcConnectionOptions, sql: str, parameters: Sequence[Any]
    ) -> None:
        engine = create_engine(options)
        connection = engine.connect().execution_options(stream_results=True)
        self._connection = connection
        statement = DriverStatement(sql, engine.dialect)
        self._cursor = connection.exec_driver_sql(statement.sql, statement.parameters(parameters))
        self.names = tuple(self._cursor.keys())

    def fetch(self, count: int) -> list[tuple[Any, ...]]:
        """Return the next rows; an empty list at the end."""
        return [tuple(row) for row in self._cursor.fetchmany(count)]

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def ask(options: JdbcConnectionOptions, sql: str) -> tuple[Any, ...]:
    """Return the only row of a statement."""
    cursor = Cursor(options, sql, [])
    try:
        (row,) = cursor.fetch(1)
    finally:
        cursor.close()
    return row


def primary_key(options: JdbcConnectionOptions, table: str) -> tuple[str, ...]:
    """Return the columns of a table's primary key; empty if it has none."""
    if options.target.kind == "postgresql":
        with connect(options) as connection:
            found = connection.execute(
                "SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(number, place), pg_attribute a "
                "WHERE i.indrelid = to_regclass(%s) AND i.indisprimary "
                "AND a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place",
                [table],
            )
            return tuple(name for (name,) in found)
    schema, _, name = table.rpartition(".")
    with create_engine(options).connect() as connection:
        inspector = sqlalchemy().inspect(connection)
        constraint = inspector.get_pk_constraint(name, schema=schema or None)
    return tuple(constraint["constrained_columns"])
