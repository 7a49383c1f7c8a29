"""A database that is a dictionary, with the transactions of PostgreSQL: prepared ones, rows that they hold, a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.connectors.jdbc.postgres import PostgresSession


class Transaction:
    """What a transaction has changed, and noted in the ledger."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.notes: list[str] = []


class Database:
    """Rows by their keys, prepared transactions by their names, and the ledger: names with their age in days."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.ledger: dict[str, int] = {}
        self.prepared: dict[str, Transaction] = {}
        self.sessions: list[FakeSession] = []
        # What the next attempts to write or to commit raise; None for nothing
        self.failures: list[Exception | None] = []

    def session(self, options: JdbcConnectionOptions, sql: str) -> FakeSession:
        self.sessions.append(FakeSession(self, options, sql))
        return self.sessions[-1]

    def holders(self, session: FakeSession) -> set[Any]:
        """Return the keys that others hold."""
        others = [each.open for each in self.sessions if each is not session and each.open]
        return {key for each in [*others, *self.prepared.values()] for key in each.rows}

    def apply(self, transaction: Transaction) -> None:
        self.rows |= transaction.rows
        for name in transaction.notes:
            assert name not in self.ledger, f"{name} was committed before"
            self.ledger[name] = 0

    def fail(self) -> None:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure


class FakeSession(PostgresSession):
    """A connection to the dictionary. Every row is a key and a value; the statement is an upsert."""

    def __init__(self, database: Database, options: JdbcConnectionOptions, sql: str) -> None:
        super().__init__(options, sql)
        self.database = database
        self.open: Transaction | None = None
        self.was_cut = False

    @property
    def connection(self) -> Any:
        raise AssertionError("there is no server")

    def begin(self) -> None:
        self.was_cut = False
        self.open = Transaction()

    def _transaction(self) -> Transaction:
        if self.was_cut or self.open is None:
            raise psycopg.OperationalError("the connection was cut")
        return self.open

    def put(self, rows: Sequence[Sequence[Any]]) -> None:
        transaction = self._transaction()
        self.database.fail()
        if self.database.holders(self) & {key for key, _ in rows}:
            raise psycopg.errors.LockNotAvailable("another transaction holds a row")
        transaction.rows |= dict(rows)

    def commit(self) -> None:
        transaction = self._transaction()
        self.database.fail()
        self.database.apply(transaction)
        self.open = None

    def roll_back(self) -> None:
        self.open = None

    def leave(self) -> None:
        self.open = None

    def limit_lock_waits(self, milliseconds: int) -> None:
        self._transaction()

    def prepare(self, transaction: str) -> None:
        assert transaction not in self.database.prepared, "the name is in use"
        self.database.prepared[transaction] = self._transaction()
        self.open = None

    def commit_prepared(self, transaction: str) -> bool:
        self.database.fail()
        found = self.database.prepared.pop(transaction, None)
        if found is not None:
            self.database.apply(found)
        return found is not None

    def roll_back_prepared(self, transaction: str) -> bool:
        return self.database.prepared.pop(transaction, None) is not None

    def prepared(self, prefix: str) -> list[str]:
        return [name for name in self.database.prepared if name.startswith(prefix)]

    def end_transactions_of(self, tag: str) -> int:
        ended = [
            each
            for each in self.database.sessions
            if each is not self and each.open and (each.tag or "").startswith(tag)
        ]
        for each in ended:
            each.open, each.was_cut = None, True
        return len(ended)

    def setting(self, name: str) -> str:
        return "64"

    def create_ledger(self, table: str) -> None:
        pass

    def note(self, table: str, transaction: str) -> None:
        self._transaction().notes.append(transaction)

    def noted(self, table: str, transactions: Sequence[str]) -> set[str]:
        return set(transactions) & set(self.database.ledger)

    def forget(self, table: str, prefix: str, days: int) -> None:
        for name, age in list(self.database.ledger.items()):
            if name.startswith(prefix) and age > days:
                del self.database.ledger[name]
