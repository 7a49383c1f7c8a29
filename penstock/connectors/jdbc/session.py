"""A connection to a database that writes rows with one statement, whatever the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from penstock.connectors.jdbc.failures import bad_record, is_about_rows, may_pass, refused
from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.errors import PenstockError

Rows = Sequence[Sequence[Any]]


class Session(ABC):
    """Writes rows with one statement, in transactions. It connects when it is first used, and again after `leave`."""

    def __init__(self, options: JdbcConnectionOptions, sql: str) -> None:
        self.options = options
        self.target = options.target
        self.sql = sql

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def put(self, rows: Rows) -> None:
        """Run the statement for rows, in order. If it fails, what the transaction did before still stands (or can be rolled back)."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def roll_back(self) -> None:
        """Roll the transaction back."""

    @abstractmethod
    def leave(self) -> None:
        """Close the connection, whatever its state; the server gives up its transaction."""

    # What transactions leave behind, for those that have to know whether they were committed.

    @abstractmethod
    def create_ledger(self, table: str) -> None:
        """Make the table of committed transactions, unless it is there."""

    @abstractmethod
    def note(self, table: str, transaction: str) -> None:
        """Write into the ledger, in this transaction."""

    @abstractmethod
    def noted(self, table: str, transactions: Sequence[str]) -> set[str]:
        """Return which of these transactions were committed."""

    @abstractmethod
    def forget(self, table: str, prefix: str, days: int) -> None:
        """Delete what the ledger has of a sink's transactions that are older than so many days."""

    def write(self, rows: Rows) -> None:
        """Write rows in a transaction of their own."""
        self.begin()
        self.put(rows)
        self.commit()

    def explain(self, error: BaseException, rows: Rows) -> PenstockError:
        """Return the error of rows that were not written: which of them the database refused, if it was for a row.

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
                except Exception as single:  # noqa: BLE001 - drivers raise what they like
                    if is_about_rows(single):
                        found, number = single, each
                    break
            self.leave()
        except Exception:  # noqa: BLE001 - the first error is the one to tell
            return refused(error, self.target, "write", self.sql)
        if number is None:
            return refused(error, self.target, "write", self.sql)
        return bad_record(found, self.target, self.sql, rows[number], number, len(rows))


def open_session(options: JdbcConnectionOptions, sql: str) -> Session:
    """Return the session of a database's driver."""
    if options.target.kind == "postgresql":
        from penstock.connectors.jdbc.postgres import PostgresSession

        return PostgresSession(options, sql)
    from penstock.connectors.jdbc.generic import GenericSession

    return GenericSession(options, sql)
