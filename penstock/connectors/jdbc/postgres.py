"""The PostgreSQL session, based on psycopg.

A statement is sent in the fastest equivalent form, as measured by benchmarks/databases.py. A plain INSERT becomes
`COPY table FROM STDIN`. An upsert of plain parameters becomes one statement over arrays, `INSERT ... SELECT * FROM
unnest(...)`; a key that occurs twice in a batch goes into a second one, because an upsert may change a row only once. (COPY
into a temporary table and INSERT from there is about as fast, but a transaction that has touched a temporary table cannot be
prepared.) Everything else is sent row by row in pipeline mode.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from penstock.connectors.jdbc.failures import may_pass, sqlstate
from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.connectors.jdbc.session import JdbcSession, Rows
from penstock.connectors.jdbc.statements import (
    PlainInsert,
    for_psycopg,
    plain_insert,
    translate,
)
from penstock.dependencies.extras import optional_module

_log = logging.getLogger("penstock.connectors.jdbc")

# A batch of fewer rows is sent row by row.
_FEW = 8
# Errors of the fast form that the original statement may not have: row security, views, types that cannot be cast or compared.
_TRY_SINGLY = {"0A000", "42809", "42804", "42846", "42883", "21000"}


def psycopg() -> Any:
    """Return the driver."""
    return optional_module("psycopg", extra="postgres", needed_by="a PostgreSQL database")


def connect(options: JdbcConnectionOptions, **settings: object) -> Any:
    """Open a connection in autocommit mode."""
    merged = connection_settings(options, **settings)
    connection = psycopg().connect(**merged, autocommit=True)
    adapt(connection)
    return connection


def connection_settings(options: JdbcConnectionOptions, **settings: object) -> dict[str, Any]:
    """Return the connection parameters for libpq."""
    # Without keepalives, the system would notice a server that disappeared only after two hours.
    default = {
        "connect_timeout": options.timeout_seconds,
        "application_name": "penstock",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    return {**default, **options.target.settings, **settings}


def adapt(connection: Any) -> None:
    """Write dictionaries as jsonb."""
    json = optional_module(
        "psycopg.types.json", extra="postgres", needed_by="a PostgreSQL database"
    )
    connection.adapters.register_dumper(dict, json.JsonbBinaryDumper)
    connection.adapters.register_dumper(dict, json.JsonbDumper)


def quoted(text: str) -> str:
    """Return a quoted SQL literal, for statements that take no parameters.

    >>> quoted("it's")
    "'it''s'"
    """
    if "\\" in text or "\0" in text:
        raise ValueError(f"invalid transaction name: {text!r}")
    return "'" + text.replace("'", "''") + "'"


class PostgresSession(JdbcSession):
    """A connection to PostgreSQL."""

    def __init__(self, options: JdbcConnectionOptions, sql: str) -> None:
        super().__init__(options, sql)
        self.tag: str | None = None  # application_name, by which other sessions find the connection
        self._connection: Any = None
        self._fast: Callable[[Rows], None] | None = None
        self._singly = for_psycopg(sql)

    @property
    def connection(self) -> Any:
        """The connection; opened if necessary."""
        if self._connection is None:
            named = {} if self.tag is None else {"application_name": self.tag}
            self._connection = connect(self.options, **named)
            self._fast = self._fast_form()
        return self._connection

    def begin(self) -> None:
        """Begin a transaction."""
        self.connection.execute("BEGIN")

    def put(self, rows: Rows) -> None:
        """Run the statement for rows, in the fastest available form."""
        fast = self._fast
        if fast is not None and len(rows) >= _FEW:
            try:
                with self.connection.transaction():
                    fast(rows)
            except psycopg().Error as error:
                if may_pass(error) or sqlstate(error) not in {None, *_TRY_SINGLY}:
                    raise
                _log.debug("rows are sent one by one: %s", error)
            else:
                return
        with self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany(self._singly, rows)

    def commit(self) -> None:
        """Commit."""
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        """Roll back."""
        self.connection.execute("ROLLBACK")

    def leave(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    # Two-phase commit

    def limit_lock_waits(self, milliseconds: int) -> None:
        """Limit how long statements of this transaction wait for locks."""
        self.connection.execute(f"SET LOCAL lock_timeout = {int(milliseconds)}")

    def prepare(self, transaction: str) -> None:
        """Prepare the transaction: it survives this connection and a server restart, until it is committed or rolled back."""
        self.connection.execute(f"PREPARE TRANSACTION {quoted(transaction)}")

    def commit_prepared(self, transaction: str) -> bool:
        """Commit a prepared transaction; False if it does not exist."""
        return self._end(f"COMMIT PREPARED {quoted(transaction)}")

    def roll_back_prepared(self, transaction: str) -> bool:
        """Roll back a prepared transaction; False if it does not exist."""
        return self._end(f"ROLLBACK PREPARED {quoted(transaction)}")

    def _end(self, sql: str) -> bool:
        try:
            self.connection.execute(sql)
        except psycopg().errors.UndefinedObject:
            return False
        return True

    def prepared(self, prefix: str) -> list[str]:
        """Return the prepared transactions of this database whose names start with a prefix."""
        found = self.connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() "
            "AND starts_with(gid, %s) ORDER BY prepared, gid",
            [prefix],
        )
        return [gid for (gid,) in found]

    def end_transactions_of(self, tag: str) -> int:
        """Terminate the connections whose tags start with `tag` and that are in a transaction; return how many there were."""
        cut = self.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND starts_with(application_name, %s) AND state <> 'idle' AND pid <> pg_backend_pid()",
            [tag],
        )
        return len(cut.fetchall())

    def setting(self, name: str) -> str:
        """Return a setting of the server."""
        (value,) = self.connection.execute("SELECT current_setting(%s)", [name]).fetchone()
        return str(value)

    # The ledger

    def create_ledger(self, table: str) -> None:
        """Create the table of committed transactions, unless it exists."""
        errors = psycopg().errors
        with suppress(
            errors.UniqueViolation, errors.DuplicateTable
        ):  # another session has just created it
            found = self.connection.execute("SELECT to_regclass(%s)", [table]).fetchone()
            if found[0] is None:
                self.connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {table} (transaction text PRIMARY KEY, "
                    "committed_at timestamptz NOT NULL DEFAULT now())"
                )

    def note(self, table: str, transaction: str) -> None:
        """Record a transaction in the ledger."""
        self.connection.execute(f"INSERT INTO {table} (transaction) VALUES (%s)", [transaction])  # noqa: S608

    def noted(self, table: str, transactions: Sequence[str]) -> set[str]:
        """Return which of these transactions were committed."""
        found = self.connection.execute(
            f"SELECT transaction FROM {table} WHERE transaction = ANY(%s)",  # noqa: S608
            [list(transactions)],
        )
        return {name for (name,) in found}

    def forget(self, table: str, prefix: str, days: int) -> None:
        """Delete old entries."""
        self.connection.execute(
            f"DELETE FROM {table} WHERE starts_with(transaction, %s) "  # noqa: S608
            "AND committed_at < now() - make_interval(days => %s)",
            [prefix, days],
        )

    # Fast forms

    def _fast_form(self) -> Callable[[Rows], None] | None:
        insert = plain_insert(self.sql)
        if insert is None:
            return None
        if not insert.tail:
            columns = ", ".join(insert.columns)
            return lambda rows: self._copy(f"COPY {insert.table} ({columns}) FROM STDIN", rows)
        arrays = self._array_types(len(insert.columns))
        if arrays is None:
            return None
        values = ", ".join(f"%b::{each}" for each in arrays)
        sql = (
            f"INSERT INTO {insert.table} ({', '.join(insert.columns)}) "  # noqa: S608
            f"SELECT * FROM unnest({values}) {insert.tail.replace('%', '%%')}"
        )
        return lambda rows: self._unnest(sql, insert, rows)

    def _copy(self, sql: str, rows: Rows) -> None:
        with self.connection.cursor() as cursor, cursor.copy(sql) as copy:
            for row in rows:
                copy.write_row(row)

    def _unnest(self, sql: str, insert: PlainInsert, rows: Rows) -> None:
        for part in _without_repeats(rows, insert):
            self.connection.execute(sql, [list(column) for column in zip(*part, strict=True)])

    def _array_types(self, count: int) -> list[str] | None:
        """Return the array types of the statement's parameters; None if one of them has no array type."""
        connection = self._connection
        numbered = translate(self.sql, lambda number: f"${number + 1}")
        raw = connection.pgconn
        name = b"penstock_described"
        result = raw.prepare(name, numbered.encode())
        if result.status != psycopg().pq.ExecStatus.COMMAND_OK:
            return None  # the error is raised with the first rows
        described = raw.describe_prepared(name)
        types = [described.param_type(number) for number in range(described.nparams)]
        connection.execute("DEALLOCATE penstock_described")
        found = dict(
            connection.execute(
                "SELECT oid, typarray::regtype::text FROM pg_type "
                "WHERE oid = ANY(%s) AND typarray <> 0 AND typcategory <> 'A'",
                [types],
            ).fetchall()
        )
        arrays = [found.get(each) for each in types]
        if len(arrays) != count or None in arrays:
            return None
        return [str(each) for each in arrays]


def _without_repeats(rows: Rows, insert: PlainInsert) -> list[Rows]:
    """Divide a batch into parts without duplicate keys; the rows of each key stay in order."""
    if not insert.upserts or insert.conflict is None:
        return [rows]
    positions = insert.conflict
    parts: list[list[Sequence[Any]]] = []
    seen: dict[Any, int] = {}
    for row in rows:
        try:
            key = row[positions[0]] if len(positions) == 1 else tuple(row[at] for at in positions)
            number = seen.get(key, 0)
            seen[key] = number + 1
        except TypeError:  # unhashable keys are left to the database
            return [rows]
        if number == len(parts):
            parts.append([])
        parts[number].append(row)
    return list(parts)


def check_table_name(name: str) -> bool:
    """Whether a name can be used unquoted in SQL.

    >>> check_table_name("audit.penstock_commits"), check_table_name("x; drop table y")
    (True, False)
    """
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", name) is not None
