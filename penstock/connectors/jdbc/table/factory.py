"""The factory of `jdbc`, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.catalogs.tables import PhysicalColumn
from penstock.common.types import RowKind
from penstock.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.source import JdbcSource
from penstock.connectors.jdbc.table.lookup import JdbcTableLookup
from penstock.connectors.jdbc.table.sink import JdbcUpsertSink
from penstock.connectors.jdbc.table.statements import select, upsert
from penstock.errors import ConfigurationError
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.lookups import CACHE_OPTIONS, remembered
from penstock.sql.connector.options import (
    Option,
    checked,
    duration,
    flag,
    number,
    text,
)
from penstock.sql.connector.providers import (
    LookupProvider,
    ScanProvider,
    SinkProvider,
    TableContext,
    TableFactory,
)

_PARTITIONS: Final = ("column", "num", "lower-bound", "upper-bound")
OPTIONS: Final[tuple[Option, ...]] = (
    text(
        "url",
        "URL of the database: jdbc:postgresql://host/name, or a URL of SQLAlchemy.",
        required=True,
    ),
    text("table-name", "Name of the table.", required=True),
    text("driver", "Java driver; the URL determines the Python driver."),
    text("compatible-mode", "Dialect of the database.", no_effect="the URL names the database"),
    text("username", "User."),
    text("password", "Password."),
    duration(
        "connection.max-retry-timeout",
        "Time between retries of a connection.",
        default_ms=60_000,
        no_effect="connections are checked on use",
    ),
    text("scan.partition.column", "Column by whose values the table is read in parallel."),
    number("scan.partition.num", "Number of parts."),
    number("scan.partition.lower-bound", "Least value of the first part."),
    number("scan.partition.upper-bound", "Greatest value of the last part."),
    number(
        "scan.fetch-size",
        "Rows that are fetched at once.",
        default=0,
        no_effect="readers choose the fetch size",
    ),
    flag(
        "scan.auto-commit",
        "Whether reads are transactions of their own.",
        default=True,
        no_effect="reads do not need transactions",
    ),
    text(
        "filter.handling.policy",
        "Whether the database evaluates filters.",
        default="always",
        choices=("always", "never"),
        no_effect="filters are evaluated by the query",
    ),
    number("lookup.max-retries", "Most retries of a lookup.", default=3),
    number("sink.buffer-flush.max-rows", "Most rows in a batch.", default=100),
    duration(
        "sink.buffer-flush.interval", "Longest time until a batch is written.", default_ms=1_000
    ),
    number("sink.max-retries", "Most retries of a batch.", default=3),
    number("sink.parallelism", "Parallelism of the sink."),
    *CACHE_OPTIONS,
)


class JdbcFactory(TableFactory):
    """Tables of a database, read, written and looked up. With a primary key, rows are upserted and deleted."""

    identifier = "jdbc"
    options = OPTIONS

    def source(self, context: TableContext) -> JdbcTable:
        """Return the table to read or to look up."""
        return JdbcTable(context)

    def sink(self, context: TableContext) -> JdbcTable:
        """Return the table to write."""
        return JdbcTable(context)


class JdbcTable:
    """A table of a database."""

    def __init__(self, context: TableContext) -> None:
        self._name = str(context.table.path)
        self._options = checked(context.options, OPTIONS, self._name)
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        self._types = {each.name: each.type for each in columns}
        self._names: Sequence[str] = list(self._types)
        self._primary_key = context.table.primary_key or ()
        self._table = self._options["table-name"]
        self._connection = JdbcConnectionOptions(
            self._options["url"],
            self._options["driver"],
            self._options["username"],
            self._options["password"],
        )
        self._check_partitions()

    def _check_partitions(self) -> None:
        given = [
            name for name in _PARTITIONS if self._options[f"scan.partition.{name}"] is not None
        ]
        if given and len(given) < len(_PARTITIONS):
            missing = next(name for name in _PARTITIONS if name not in given)
            raise ConfigurationError(
                f"table {self._name} is missing option 'scan.partition.{missing}'",
                hint="set all four 'scan.partition.*' options, or none",
            )

    # Reading

    def changelog_mode(self, requested: ChangelogMode | None = None) -> ChangelogMode:
        """Rows that are read are inserts; with a primary key changes can be written."""
        if requested is None or not self._primary_key:
            return ChangelogMode.insert_only()
        return ChangelogMode(requested.kinds | {RowKind.INSERT})

    def bounded(self) -> bool:
        """A table is read once."""
        return True

    def apply_projection(self, names: Sequence[str]) -> None:
        """Read these columns only."""
        self._names = list(names)

    def scan(self) -> ScanProvider:
        """Return a source of rows."""
        builder = JdbcSource.builder().set_connection_options(self._connection)
        query = select(self._table, self._read(), self._connection.target.kind)
        builder = builder.set_query(query)
        column = self._options["scan.partition.column"]
        if column is not None:
            builder = builder.set_partition_column(
                column,
                self._options["scan.partition.lower-bound"],
                self._options["scan.partition.upper-bound"],
                self._options["scan.partition.num"],
            )
        types = tuple(self._types[name] for name in self._names)
        return ScanProvider(builder.build(), tuple(self._names), types)

    def _read(self) -> list[str]:
        column = self._options["scan.partition.column"]
        more = [column] if column is not None and column not in self._names else []
        return [*self._names, *more]

    def lookup_provider(self, keys: Sequence[str], names: Sequence[str]) -> LookupProvider:
        """Return a provider that queries the database by key."""
        wanted = list(dict.fromkeys([*names, *keys]))
        query = f"({select(self._table, wanted, self._connection.target.kind)})"
        lookup = JdbcTableLookup(
            self._connection, query, keys, names, self._options["lookup.max-retries"]
        )
        return remembered(lookup, self._options, self._name)

    # Writing

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> SinkProvider:
        """Return a sink: of upserts and deletes if there is a primary key, else of inserts."""
        names, options = list(self._types), self._options
        execution = JdbcExecutionOptions(
            options["sink.buffer-flush.interval"],
            options["sink.buffer-flush.max-rows"],
            options["sink.max-retries"],
        )
        parallelism = options["sink.parallelism"]
        if self._primary_key:
            keys = list(self._primary_key)
            upserts = JdbcUpsertSink(self._connection, execution, self._table, names, keys)
            return SinkProvider(upserts, parallelism=parallelism)
        insert = upsert(self._table, names, [], self._connection.target.kind)
        return SinkProvider(
            JdbcSink.sink(insert, None, self._connection, execution), parallelism=parallelism
        )
