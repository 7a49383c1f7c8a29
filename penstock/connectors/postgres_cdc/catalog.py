"""Reads tables, keys and types from the server's catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.connectors.postgres_cdc.options import EXTRA, NEEDED_BY, CdcOptions
from penstock.connectors.postgres_cdc.values import NATIVE_KEYS, TEXT_KEYS, TypeEntry
from penstock.dependencies.extras import optional_module
from penstock.errors import InvalidProgramError, PenstockError

# One text form for values, whatever the server's settings: values.py parses it.
_SESSION: Final = (
    "-c datestyle=ISO,YMD -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1 "
    "-c bytea_output=hex -c client_encoding=UTF8 -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
_CODE_POINT_ORDER: Final = {"C", "POSIX", "C.UTF-8", "C.utf8"}
_TEXT_TYPES: Final = {"text", "varchar"}


def connect(options: CdcOptions, name: str, *, replication: bool = False) -> Any:
    """Open a connection; a failure to connect names the server."""
    psycopg = optional_module("psycopg", extra=EXTRA, needed_by=NEEDED_BY)
    more = {"replication": "database"} if replication else {}
    try:
        return psycopg.connect(
            host=options.hostname,
            port=options.port,
            dbname=options.database,
            user=options.username,
            password=options.password,
            connect_timeout=max(2, int(options.connect_timeout_s)),
            application_name=name,
            options=_SESSION,
            autocommit=True,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            **more,
            **dict(options.connection),
        )
    except psycopg.OperationalError as error:
        raise ServerUnavailableError(
            f"cannot connect to the PostgreSQL server {options.server}",
            detail=str(error).strip(),
            hint="check hostname, port, database, user and password, and that pg_hba.conf allows this user"
            + (", also for replication" if replication else ""),
        ) from error


class ServerUnavailableError(PenstockError, ConnectionError):
    """A server is temporarily unavailable."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a table's key. `kind` says how its values are compared: a type of NATIVE_KEYS, or text."""

    name: str
    type: str  # in SQL
    kind: str
    native: bool  # whether PostgreSQL's order (and its index) is Python's order

    @property
    def expression(self) -> str:
        """The expression that SQL orders by."""
        column = escaped(quoted(self.name))
        return column if self.native else f'{column}::text COLLATE "C"'

    @property
    def parameter(self) -> str:
        """The placeholder of a value to compare with."""
        return f"%s::{self.type}" if self.native else '%s::text COLLATE "C"'


@dataclass(frozen=True, slots=True)
class CdcTable:
    """A captured table."""

    schema: str
    name: str
    identity: str  # as in pgoutput.Relation
    columns: tuple[str, ...]
    types: tuple[int, ...]
    key: tuple[KeyColumn, ...]
    row_filter: str | None = None  # of the publication

    @property
    def sql(self) -> str:
        """The quoted, qualified name."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def chunkable(self) -> bool:
        """Whether PostgreSQL can use its index to find ranges of keys."""
        return all(column.native for column in self.key)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def quoted(name: str) -> str:
    """Return a quoted SQL identifier.

    >>> quoted('a"b')
    '"a""b"'
    """
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def escaped(sql: str) -> str:
    """Return SQL with its per cent signs escaped, so that none is read as a parameter."""
    return sql.replace("%", "%%")


_TABLES: Final = """
SELECT c.oid, n.nspname, c.relname, c.relreplident::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%%'
ORDER BY n.nspname, c.relname
"""

# Generated columns are not published.
_COLUMNS: Final = """
SELECT a.attname, a.atttypid, format_type(a.atttypid, a.atttypmod), coalesce(bt.typname, t.typname),
       coalesce(nullif(co.collcollate, ''), CASE WHEN co.collname = 'default' THEN d.datcollate END, '')
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type bt ON t.typtype = 'd' AND bt.oid = t.typbasetype
LEFT JOIN pg_collation co ON co.oid = a.attcollation
JOIN pg_database d ON d.datname = current_database()
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum
"""

_KEY: Final = """
SELECT a.attname
FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k (attnum, place), pg_attribute a
WHERE i.indrelid = %s AND a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.place <= i.indnkeyatts
  AND CASE WHEN %s = 'i' THEN i.indisreplident ELSE i.indisprimary END
ORDER BY k.place
"""


def find_tables(connection: Any, options: CdcOptions) -> list[CdcTable]:
    """Return the tables that the options name."""
    found = [
        (oid, schema, name, identity)
        for oid, schema, name, identity in connection.execute(_TABLES)
        if options.wants(schema, name)
    ]
    if not found:
        raise InvalidProgramError(
            f"no table of {options.server} matches the patterns",
            detail=f"schemas {list(options.schemas)}, tables {list(options.tables)}",
            hint="patterns are regular expressions that match the whole name, such as public.orders or public.orders_.*",
        )
    return [_table(connection, *each) for each in found]


def _table(connection: Any, oid: int, schema: str, name: str, identity: str) -> CdcTable:
    columns = connection.execute(_COLUMNS, [oid]).fetchall()
    by_name = {row[0]: row for row in columns}
    key = [by_name[column] for (column,) in connection.execute(_KEY, [oid, identity])]
    return CdcTable(
        schema,
        name,
        identity,
        tuple(row[0] for row in columns),
        tuple(row[1] for row in columns),
        tuple(_key_column(row) for row in key),
    )


def primary_key(connection: Any, relation: int) -> tuple[str, ...]:
    """Return the columns of a table's primary key; `relation` is the table's oid."""
    return tuple(name for (name,) in connection.execute(_KEY, [relation, "d"]))


def _key_column(row: Sequence[Any]) -> KeyColumn:
    name, _, type_name, base, collation = row
    if base in NATIVE_KEYS:
        return KeyColumn(name, type_name, base, native=True)
    if base in _TEXT_TYPES and collation in _CODE_POINT_ORDER:
        return KeyColumn(name, type_name, "text", native=True)
    return KeyColumn(name, type_name, base if base in TEXT_KEYS else "text", native=False)


def published(connection: Any, publication: str, table: CdcTable) -> CdcTable:
    """Return a table with the columns and the row filter of a publication."""
    if connection.info.server_version < 150000:
        return table
    row = connection.execute(
        "SELECT attnames::text[], rowfilter FROM pg_publication_tables "
        "WHERE pubname = %s AND schemaname = %s AND tablename = %s",
        [publication, table.schema, table.name],
    ).fetchone()
    if row is None:
        return table
    names, row_filter = row
    kept = [
        (name, oid) for name, oid in zip(table.columns, table.types, strict=True) if name in names
    ]
    return CdcTable(
        table.schema,
        table.name,
        table.identity,
        tuple(name for name, _ in kept),
        tuple(oid for _, oid in kept),
        table.key,
        row_filter,
    )


def load_types(connection: Any, oids: Iterable[int]) -> dict[int, TypeEntry]:
    """Load types, including element types of arrays and base types of domains."""
    wanted, found = set(oids), {}
    while wanted:
        rows = connection.execute(
            # an element type alone does not make an array: fixed-length types such as point have one too
            "SELECT oid, typname, typtype::text, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END, typbasetype, typdelim::text "
            "FROM pg_type WHERE oid = ANY(%s)",
            [list(wanted)],
        )
        for oid, *entry in rows:
            found[oid] = TypeEntry(*entry)
        for oid in wanted - found.keys():
            found[oid] = TypeEntry("unknown")  # dropped since
        more = {each.element for each in found.values()} | {each.base for each in found.values()}
        wanted = more - found.keys() - {0}
    return found
