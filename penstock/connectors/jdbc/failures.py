"""Database errors: which ones are temporary, which ones are permanent, and their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from penstock.connectors.base.retrying import retry
from penstock.connectors.jdbc.urls import JdbcDatabase
from penstock.errors import PenstockError, RecordError, SuppressRestartsError

T = TypeVar("T")

# By SQLSTATE: classes of connections (08), resources (53), and single ones: serialization failure, deadlock, object in use,
# lock timeout, a server that shuts down, has crashed or starts, and one that is read-only because it is no longer primary.
_PASSING_CLASSES = ("08", "53")
_PASSING = {"40001", "40P01", "55006", "55P03", "57P01", "57P02", "57P03", "25006"}
_NEVER = {"53400"}  # a limit of the configuration, such as the number of prepared transactions
# Credentials (28), a missing database (3D) or schema (3F), a statement that does not match the tables or privileges (42).
_REFUSED_CLASSES = ("28", "3D", "3F", "42")
_MYSQL_PASSING = {1040, 1205, 1213, 2002, 2003, 2006, 2013}

_HINTS = {
    "42P01": "create the table, or name its schema in the statement (currentSchema in the URL)",
    "42703": "compare the statement's columns with those of the table",
    "42501": "grant the user the privileges that the statement needs",
    "28P01": "check user and password",
    "28000": "check the user, and pg_hba.conf",
    "3D000": "create the database, or fix the URL",
    "42601": "check the statement",
    "42P10": "ON CONFLICT needs a unique index of exactly these columns",
    "53400": "raise max_prepared_transactions of the server: one for each writer and pending checkpoint is needed",
}
_RECORD_HINTS = {
    "23505": "the row already exists: use INSERT ... ON CONFLICT if duplicates are expected",
    "23502": "a NOT NULL column got None",
    "23503": "the referenced row does not exist",
    "23514": "it violates a check constraint of the table",
    "22001": "the text is longer than its column",
    "22003": "the number is out of range for its column",
    "42804": "compare the types of the record's fields with the table's columns",
}


class DatabaseError(PenstockError, RuntimeError):
    """A database could not be reached, or rejected a request."""


class DatabaseRefusedError(DatabaseError, SuppressRestartsError):
    """A database rejected a statement or the user: retrying does not help."""


def sqlstate(error: BaseException) -> str | None:
    """Return an error's SQLSTATE, if the driver reports it."""
    original = getattr(error, "orig", None) or error
    found = getattr(original, "sqlstate", None)
    return found if isinstance(found, str) else None


def may_pass(error: BaseException) -> bool:
    """Whether a retry, over a new connection, may help."""
    state = sqlstate(error)
    if state is not None:
        return state not in _NEVER and (state in _PASSING or state[:2] in _PASSING_CLASSES)
    if getattr(error, "connection_invalidated", False):
        return True
    original = getattr(error, "orig", None) or error
    if isinstance(original, OSError):
        return True
    number = original.args[0] if original.args else None
    if number in _MYSQL_PASSING:
        return True
    name = type(original).__name__
    if type(original).__module__.startswith("sqlite3"):
        return name == "OperationalError" and ("locked" in str(original) or "busy" in str(original))
    # psycopg reports no SQLSTATE if the connection could not be established or was lost.
    return type(original).__module__.startswith("psycopg") and name in {
        "OperationalError",
        "ConnectionTimeout",
        "InterfaceError",
        "AdminShutdown",
        "CrashShutdown",
    }


def is_about_rows(error: BaseException) -> bool:
    """Whether the values are the cause: a constraint, a type, a length."""
    state = sqlstate(error)
    if state is not None:
        return state[:2] in {"22", "23", "44"} or state in {"42804", "42846", "21000", "P0001"}
    original = getattr(error, "orig", None) or error
    return type(original).__name__ in {"IntegrityError", "DataError", "ProgrammingError"} or (
        isinstance(original, TypeError | ValueError | OverflowError)
    )


def database_message(error: BaseException) -> str:
    """Return the database's error message, in one line."""
    original = getattr(error, "orig", None) or error
    return f"{type(original).__name__}: {' '.join(str(original).split())}"


def refused(
    error: BaseException, target: JdbcDatabase, doing: str, sql: str | None = None
) -> DatabaseError:
    """Create the error of a database that rejected a request, or could not be reached."""
    parts = [f"database: {target.name}"]
    if sql is not None:
        parts.append(f"statement: {' '.join(sql.split())}")
    parts.append(database_message(error))
    hint = _HINTS.get(sqlstate(error) or "")
    if hint is None and may_pass(error):
        hint = "check that the server is up and reachable; the job may be restarted"
    kind = DatabaseRefusedError if _is_refused(error) else DatabaseError
    return kind(f"the database could not {doing}", detail=", ".join(parts), hint=hint)


def _is_refused(error: BaseException) -> bool:
    """Whether the user, the database, a table, a column or the statement is wrong."""
    state = sqlstate(error)
    if state is not None:
        return state[:2] in _REFUSED_CLASSES or state in _NEVER
    original = getattr(error, "orig", None) or error
    return type(original).__module__.startswith("sqlite3") and any(
        words in str(original) for words in ("no such table", "no such column", "syntax error")
    )


def bad_record(
    error: BaseException, target: JdbcDatabase, sql: str, record: object, number: int, count: int
) -> RecordError:
    """Create the error of a record that the database rejects."""
    shown = repr(record)
    if len(shown) > 500:
        shown = shown[:497] + "..."
    return RecordError(
        "the database rejected a record",
        detail=f"record: {shown} (number {number + 1} of a batch of {count}), database: {target.name}, "
        f"statement: {' '.join(sql.split())}, {database_message(error)}",
        hint=_RECORD_HINTS.get(
            sqlstate(error) or "",
            "compare the record with the statement's parameters and the table's columns",
        ),
    )


@contextmanager
def named(target: JdbcDatabase, doing: str, sql: str | None = None) -> Iterator[None]:
    """Translate the driver's errors to ones that name the database and the action."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise refused(error, target, doing, sql) from error


def pauses(retries: int) -> Sequence[float]:
    """Return the pause in seconds before each retry: 1, 2, 3, like Flink, the first one shorter.

    >>> pauses(4)
    [0.2, 1.0, 2.0, 3.0]
    """
    return [max(0.2, float(number)) for number in range(retries)]


def with_retries(
    action: Callable[[], T], retries: int, again: Callable[[Exception], None] = lambda _: None
) -> T:
    """Run an action, with a retry after each temporary failure; `again` is called with the error, before the pause."""
    return retry(action, pauses(retries), when=may_pass, before_pause=again)
