"""Changes of PostgreSQL tables as a source: the existing rows, then every change, exactly once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Self

from penstock.common.user_types import StateValue
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceReader,
    SplitEnumerator,
)
from penstock.connectors.postgres_cdc.changes import (
    ChangeDeserializationSchema,
    RowDeserializationSchema,
)
from penstock.connectors.postgres_cdc.options import (
    EXTRA,
    NEEDED_BY,
    CdcOptions,
    PublicationMode,
    StartupMode,
    StartupOptions,
)
from penstock.dependencies.extras import optional_module
from penstock.errors import ArgumentError, ArgumentTypeError

_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")


class PostgresCdcSource(Source):
    """Changes of PostgreSQL tables, from a logical replication slot.

    >>> source = (
    ...     PostgresCdcSource.builder()
    ...     .hostname("localhost").port(5432).database("shop")
    ...     .schema_list("public").table_list("public.orders")
    ...     .username("penstock").password("secret").slot_name("orders")
    ...     .build()
    ... )
    >>> source
    PostgresCdcSource(localhost:5432/shop, slot orders, initial)
    """

    assigns_on_demand = True  # chunks are found one after another

    def __init__(self, options: CdcOptions) -> None:
        self.options = options

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        """Return a builder."""
        return PostgresSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: a snapshot-only source is."""
        if self.options.startup.mode is StartupMode.SNAPSHOT:
            return Boundedness.BOUNDED
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator, which creates slot and publication and splits the tables into chunks."""
        from penstock.connectors.postgres_cdc.enumerator import CdcEnumerator

        return CdcEnumerator(self.options, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader of chunks and of the log."""
        from penstock.connectors.postgres_cdc.reader import CdcReader

        return CdcReader(self.options)

    def drop_slot(self) -> list[str]:
        """Drop the replication slot, and the publication if the source may create it; return what was dropped.

        For a job that will not be resumed: as long as its slot exists, the server keeps the log for it.
        """
        from penstock.connectors.postgres_cdc.slots import drop_slot

        return drop_slot(self.options)

    def __repr__(self) -> str:
        options = self.options
        return f"PostgresCdcSource({options.server}, slot {options.slot}, {options.startup.mode.value})"


class PostgresSourceBuilder:
    """Builds a PostgresCdcSource, with the method names of Flink CDC's builder."""

    def __init__(self) -> None:
        self._options = CdcOptions("", 5432, "", "", "")
        self._deserializer: ChangeDeserializationSchema | None = None
        self._publication: str | None = None

    def _with(self, **changes: Any) -> Self:
        self._options = replace(self._options, **changes)
        return self

    def hostname(self, hostname: str) -> Self:
        """Set the server's name or address."""
        return self._with(hostname=_text("hostname", hostname))

    def port(self, port: int) -> Self:
        """Set the server's port (default 5432)."""
        return self._with(port=_number("port", port, 1, 65535))

    def database(self, database: str) -> Self:
        """Set the database that the slot belongs to."""
        return self._with(database=_text("database", database))

    def schema_list(self, *schema_list: str) -> Self:
        """Set the schemas whose tables are read, as regular expressions (default public)."""
        return self._with(schemas=_patterns("schema_list", schema_list))

    def table_list(self, *table_list: str) -> Self:
        """Set the tables, as regular expressions of `schema.table` or `table` (default all)."""
        return self._with(tables=_patterns("table_list", table_list))

    def username(self, username: str) -> Self:
        """Set the user, which needs REPLICATION, and must own the tables if the source creates the publication."""
        return self._with(username=_text("username", username))

    def password(self, password: str) -> Self:
        """Set the user's password."""
        if not isinstance(password, str):
            raise ArgumentTypeError("password is not a str", hint="pass a str")
        return self._with(password=password)

    def slot_name(self, slot_name: str) -> Self:
        """Set the replication slot. Each job needs its own."""
        if not isinstance(slot_name, str) or not _SLOT_NAME.fullmatch(slot_name):
            raise ArgumentError(
                f"invalid replication slot name {slot_name!r}",
                hint="use at most 63 lower-case letters, digits and underscores",
            )
        return self._with(slot=slot_name)

    def decoding_plugin_name(self, name: str) -> Self:
        """Set the output plugin: pgoutput, which every server has since PostgreSQL 10."""
        if name != "pgoutput":
            raise ArgumentError(
                f"the decoding plugin {name!r} is not supported",
                hint="use pgoutput; it needs no installation on the server",
            )
        return self

    def publication_name(self, name: str) -> Self:
        """Set the publication (default: the slot's name)."""
        self._publication = _text("publication_name", name)
        return self

    def publication_autocreate_mode(self, mode: PublicationMode | str) -> Self:
        """Set whether the source creates the publication: filtered (default; for the source's tables), all_tables or disabled."""
        try:
            return self._with(publication_mode=PublicationMode(mode))
        except ValueError:
            raise ArgumentError(
                f"unknown publication_autocreate_mode {mode!r}",
                hint=f"use one of {', '.join(each.value for each in PublicationMode)}",
            ) from None

    def startup_options(self, startup_options: StartupOptions) -> Self:
        """Set where to begin (default StartupOptions.initial())."""
        if not isinstance(startup_options, StartupOptions):
            raise ArgumentTypeError(
                f"startup_options is not a StartupOptions: {startup_options!r}",
                hint="use StartupOptions.initial(), latest(), committed() or snapshot()",
            )
        return self._with(startup=startup_options)

    def include_before_image(self, include: bool = True) -> Self:
        """Set whether updates have the old row (-U; default), which needs REPLICA IDENTITY FULL. Else deletes have the key only."""
        return self._with(before_images=bool(include))

    def split_size(self, split_size: int) -> Self:
        """Set how many rows a chunk of the snapshot has (default 8096)."""
        return self._with(chunk_size=_number("split_size", split_size, 1))

    def fetch_size(self, fetch_size: int) -> Self:
        """Set how many rows of a chunk are fetched at once (default 1024)."""
        return self._with(fetch_size=_number("fetch_size", fetch_size, 1))

    def heartbeat_interval(self, seconds: float) -> Self:
        """Set how often to ask for the end of the log (default 30 s), so that the server can discard log while tables are idle."""
        return self._with(heartbeat_s=_seconds("heartbeat_interval", seconds))

    def connect_timeout(self, seconds: float) -> Self:
        """Set how long to wait for a server that does not answer (default 30 s)."""
        return self._with(connect_timeout_s=_seconds("connect_timeout", seconds))

    def lsn_commit_checkpoints_num_delay(self, checkpoints: int) -> Self:
        """Set how many checkpoints the slot stays behind (default 3): this many old checkpoints can still be restored."""
        return self._with(confirm_delay=_number("checkpoints", checkpoints, 0))

    def unavailable_value_placeholder(self, value: object) -> Self:
        """Set the placeholder of a large value that an update did not touch, used without before images."""
        return self._with(unavailable_value=value)

    def deserializer(self, deserializer: ChangeDeserializationSchema) -> Self:
        """Set the deserialization schema (default: Rows with a RowKind)."""
        if not isinstance(deserializer, ChangeDeserializationSchema):
            raise ArgumentTypeError(
                f"deserializer is not a ChangeDeserializationSchema: {deserializer!r}",
                hint="use RowDeserializationSchema() or DebeziumDeserializationSchema()",
            )
        self._deserializer = deserializer
        return self

    def connection_property(self, name: str, value: str) -> Self:
        """Set a connection parameter of libpq, such as sslmode or sslrootcert."""
        more = (_text("name", name), str(value))
        return self._with(connection=(*self._options.connection, more))

    def build(self) -> PostgresCdcSource:
        """Return the source; it does not connect yet."""
        options = self._options
        missing = [
            name for name in ("hostname", "database", "username") if not getattr(options, name)
        ]
        if missing:
            raise ArgumentError(
                f"the source needs {' and '.join(missing)}", hint=f"call {missing[0]}(...)"
            )
        optional_module("psycopg", extra=EXTRA, needed_by=NEEDED_BY)
        return PostgresCdcSource(
            replace(
                options,
                publication=self._publication or options.slot,
                deserializer=self._deserializer or RowDeserializationSchema(),
            )
        )


def _text(name: str, value: str) -> str:
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"invalid {name}: {value!r}", hint="pass a non-empty str")
    return value


def _number(name: str, value: int, least: int, most: int | None = None) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise ArgumentError(f"invalid {name}: {value!r}", hint=f"pass an integer, {bounds}")
    return value


def _seconds(name: str, value: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise ArgumentError(f"invalid {name}: {value!r}", hint="pass a positive number of seconds")
    return float(value)


def _patterns(name: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    if not patterns:
        raise ArgumentError(f"{name} is empty", hint="pass at least one pattern, such as '.*'")
    for pattern in patterns:
        try:
            re.compile(_text(name, pattern))
        except re.error as error:
            raise ArgumentError(
                f"invalid regular expression {pattern!r}: {error}",
                hint="dots and other special characters are patterns; write \\. for a literal dot",
            ) from error
    return patterns
