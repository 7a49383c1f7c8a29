"""A connection that writes rows with one statement, independent of the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from penstock.connectors.jdbc.failures import bad_record, is_about_rows, may_pass, refused
from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.errors import PenstockError

Rows = Sequence[Sequence[Any]]


class JdbcSession(ABC):
    """Writes rows with one statement, in transactions. It connects on first use, and again after `leave`."""

    def __init__(self, options: JdbcConnectionOptions, sql: str) -> None:
        self.options = options
        self.target = options.target
        self.sql = sql

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def put(self, rows: Rows) -> None:
        """Run the statement for rows, in order. If it fails, the transaction keeps its earlier rows (or can be rolled back)."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def roll_back(self) -> None:
        """Roll back the transaction."""

    @abstractmethod
    def leave(self) -> None:
        """Close the connection, whatever its state; the server rolls back its transaction."""

    # The ledger: records of committed transactions.

    @abstractmethod
    def create_ledger(self, table: str) -> None:
        """Create the table of committed transactions, unless it exists."""

    @abstractmethod
    def note(self, table: str, transaction: str) -> None:
        """Record a transaction in the ledger, as part of it."""

    @abstractmethod
    def noted(self, table: str, transactions: Sequence[str]) -> set[str]:
        """Return which of these transactions were committed."""

    @abstractmethod
    def forget(self, table: str, prefix: str, days: int) -> None:
        """Delete ledger entries of a sink's transactions that are older than this many days."""

    def write(self, rows: Rows) -> None:
        """Write rows in a transaction of their own."""
        self.begin()
        self.put(rows)
        self.commit()

    def explain(self, error: BaseException, rows: Rows) -> PenstockError:
        """Return the error of rows that were not written: if a row is the cause, the error names it.

        The rows are tried one by one, in a transaction that is rolled back.
        """
        if not is_about_rows(error) or may_pass(error):
            return refused(error, self.target, "write", self.sql)
        found, number = error, None
        try:
            self.leave()
            self.begin()
            for each, row in enumerate(rows):
                try:
                    self.put([row])
                except Exception as single:  # noqa: BLE001 - drivers raise errors of any class
                    if is_about_rows(single):
                        found, number = single, each
                    break
            self.leave()
        except Exception:  # noqa: BLE001 - the first error is reported
            return refused(error, self.target, "write", self.sql)
        if number is None:
            return refused(error, self.target, "write", self.sql)
        return bad_record(found, self.target, self.sql, rows[number], number, len(rows))


def open_session(options: JdbcConnectionOptions, sql: str) -> JdbcSession:
    """Return a session for the database's driver."""
    if options.target.kind == "postgresql":
        from penstock.connectors.jdbc.postgres import PostgresSession

        return PostgresSession(options, sql)
    from penstock.connectors.jdbc.generic import GenericSession

    return GenericSession(options, sql)
