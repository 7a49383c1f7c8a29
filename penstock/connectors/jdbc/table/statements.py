"""The statements that read and write a table of a database."""

from __future__ import annotations

from collections.abc import Sequence


def quoted(name: str, dialect: str) -> str:
    """Return a name as the database wants it.

    >>> quoted("order", "postgresql"), quoted("order", "mysql")
    ('"order"', '`order`')
    """
    mark = "`" if dialect in {"mysql", "mariadb"} else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _list(names: Sequence[str], dialect: str) -> str:
    return ", ".join(quoted(name, dialect) for name in names)


def select(table: str, names: Sequence[str], dialect: str) -> str:
    """Return a query of some columns; one without any still gives a row for each row."""
    return f"SELECT {_list(names, dialect) or '1'} FROM {table}"  # noqa: S608 - names are quoted


def upsert(table: str, names: Sequence[str], keys: Sequence[str], dialect: str) -> str:
    """Return a statement that inserts a row, or replaces the one with its key.

    >>> upsert("t", ["k", "v"], ["k"], "postgresql")
    'INSERT INTO t ("k", "v") VALUES (?, ?) ON CONFLICT ("k") DO UPDATE SET "v" = EXCLUDED."v"'
    """
    marks = ", ".join("?" for _ in names)
    insert = f"INSERT INTO {table} ({_list(names, dialect)}) VALUES ({marks})"  # noqa: S608
    if not keys:
        return insert
    rest = [name for name in names if name not in keys]
    if dialect in {"mysql", "mariadb"}:
        changed = rest or list(keys)
        pairs = [f"{quoted(n, dialect)} = VALUES({quoted(n, dialect)})" for n in changed]
        return f"{insert} ON DUPLICATE KEY UPDATE {', '.join(pairs)}"
    target = f"ON CONFLICT ({_list(keys, dialect)})"
    if not rest:
        return f"{insert} {target} DO NOTHING"
    pairs = [f"{quoted(n, dialect)} = EXCLUDED.{quoted(n, dialect)}" for n in rest]
    return f"{insert} {target} DO UPDATE SET {', '.join(pairs)}"


def delete(table: str, keys: Sequence[str], dialect: str) -> str:
    """Return a statement that deletes the row of a key.

    >>> delete("t", ["k"], "postgresql")
    'DELETE FROM t WHERE "k" = ?'
    """
    conditions = " AND ".join(f"{quoted(name, dialect)} = ?" for name in keys)
    return f"DELETE FROM {table} WHERE {conditions}"  # noqa: S608 - names are quoted
