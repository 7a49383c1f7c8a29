"""Databases other than PostgreSQL, by SQLAlchemy Core: its engine, its connections, the driver's own placeholders."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.connectors.jdbc.session import JdbcSession, Rows
from penstock.connectors.jdbc.statements import translate
from penstock.dependencies.extras import optional_module

_PLACEHOLDERS: dict[str, Callable[[int], str]] = {
    "qmark": lambda _: "?",
    "format": lambda _: "%s",
    "pyformat": lambda number: f"%(p{number})s",
    "named": lambda number: f":p{number}",
    "numeric": lambda number: f":{number + 1}",
    "numeric_dollar": lambda number: f"${number + 1}",
}


def sqlalchemy() -> Any:
    """Return the library."""
    return optional_module("sqlalchemy", extra="jdbc", needed_by="a database other than PostgreSQL")


def create_engine(options: JdbcConnectionOptions) -> Any:
    """Return an engine that opens one connection at a time, without a pool."""
    library = sqlalchemy()
    return library.create_engine(options.target.url, poolclass=library.pool.NullPool)


class DriverStatement:
    """A statement with `?` converted to the driver's parameter style, and its parameters too."""

    def __init__(self, sql: str, dialect: Any) -> None:
        style = dialect.paramstyle
        self._named = style in {"pyformat", "named"}
        self.sql = translate(
            sql,
            _PLACEHOLDERS[style],
            percent=style in {"format", "pyformat"},
            backslashes=dialect.name in {"mysql", "mariadb"},
        )

    def parameters(self, row: Sequence[Any]) -> Any:
        """Return the parameters of one row."""
        if self._named:
            return {f"p{number}": value for number, value in enumerate(row)}
        return tuple(row)


class GenericSession(JdbcSession):
    """A connection over SQLAlchemy."""

    def __init__(self, options: JdbcConnectionOptions, sql: str) -> None:
        super().__init__(options, sql)
        self._engine: Any = None
        self._connection: Any = None
        self._statement: DriverStatement | None = None

    @property
    def connection(self) -> Any:
        """The connection; opened if necessary."""
        if self._connection is None:
            if self._engine is None:
                self._engine = create_engine(self.options)
            self._connection = self._engine.connect()
            self._statement = DriverStatement(self.sql, self._engine.dialect)
        return self._connection

    def begin(self) -> None:
        """Connect; SQLAlchemy begins a transaction with the first statement."""
        self.connection  # noqa: B018 - it connects

    def put(self, rows: Rows) -> None:
        """Run the statement for rows, in the fastest available form."""
        connection = self.connection
        statement = self._statement
        assert statement is not None
        connection.exec_driver_sql(statement.sql, [statement.parameters(row) for row in rows])

    def commit(self) -> None:
        """Commit."""
        self.connection.commit()

    def roll_back(self) -> None:
        """Roll back."""
        self.connection.rollback()

    def leave(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _ledger(self, table: str) -> Any:
        library = sqlalchemy()
        schema, _, name = table.rpartition(".")
        return library.Table(
            name,
            library.MetaData(),
            library.Column("transaction_name", library.String(200), primary_key=True),
            library.Column("committed_at", library.DateTime, nullable=False),
            schema=schema or None,
        )

    def create_ledger(self, table: str) -> None:
        """Create the table of committed transactions, unless it exists."""
        self._ledger(table).create(self.connection, checkfirst=True)
        self.commit()

    def note(self, table: str, transaction: str) -> None:
        """Record a transaction in the ledger."""
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        self.connection.execute(
            self._ledger(table).insert().values(transaction_name=transaction, committed_at=now)
        )

    def noted(self, table: str, transactions: Sequence[str]) -> set[str]:
        """Return which of these transactions were committed."""
        name = self._ledger(table).c.transaction_name
        found: set[str] = set()
        for start in range(0, len(transactions), 500):
            part = list(transactions[start : start + 500])
            found |= set(self.connection.scalars(sqlalchemy().select(name).where(name.in_(part))))
        self.roll_back()
        return found

    def forget(self, table: str, prefix: str, days: int) -> None:
        """Delete old entries."""
        ledger = self._ledger(table)
        before = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(days=days)
        self.connection.execute(
            ledger.delete()
            .where(ledger.c.transaction_name.startswith(prefix, autoescape=True))
            .where(ledger.c.committed_at < before)
        )
        self.commit()
