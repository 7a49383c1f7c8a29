"""What a change data capture source is told: the server, the tables, the slot, where to begin."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connectors.cdc.changes import ChangeDeserializationSchema, RowDeserializationSchema

EXTRA: Final = "postgres"
NEEDED_BY: Final = "PostgresCdcSource"


class StartupMode(enum.Enum):
    """Where a source begins that has no checkpoint."""

    INITIAL = "initial"
    LATEST_OFFSET = "latest-offset"
    COMMITTED_OFFSET = "committed-offset"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class StartupOptions:
    """Where to begin: with the tables' rows, or in the log.

    >>> StartupOptions.latest().mode.value
    'latest-offset'
    """

    mode: StartupMode

    @staticmethod
    def initial() -> StartupOptions:
        """Read the rows that are there, then the changes since."""
        return StartupOptions(StartupMode.INITIAL)

    @staticmethod
    def latest() -> StartupOptions:
        """Read changes that are committed from now on."""
        return StartupOptions(StartupMode.LATEST_OFFSET)

    @staticmethod
    def committed() -> StartupOptions:
        """Read the changes that the slot has not yet seen confirmed. The slot must be there."""
        return StartupOptions(StartupMode.COMMITTED_OFFSET)

    @staticmethod
    def snapshot() -> StartupOptions:
        """Read the rows that are there, and end. Needs neither slot nor publication."""
        return StartupOptions(StartupMode.SNAPSHOT)


class PublicationMode(enum.Enum):
    """What to do about the publication, by Debezium's names."""

    FILTERED = "filtered"  # make it with the tables of the source, add those that it lacks
    ALL_TABLES = "all_tables"  # make it for all tables; needs a superuser
    DISABLED = "disabled"  # it must be there


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """All that the parts of a source need to know."""

    hostname: str
    port: int
    database: str
    username: str
    password: str = field(repr=False)
    slot: str = "penstock"
    publication: str = "penstock"
    schemas: tuple[str, ...] = ("public",)
    tables: tuple[str, ...] = (".*",)
    startup: StartupOptions = field(default_factory=StartupOptions.initial)
    publication_mode: PublicationMode = PublicationMode.FILTERED
    before_images: bool = True
    chunk_size: int = 8096
    fetch_size: int = 1024
    heartbeat_s: float = 30.0
    connect_timeout_s: float = 30.0
    confirm_delay: int = 3  # in checkpoints
    unavailable_value: Any = "__debezium_unavailable_value"
    deserializer: ChangeDeserializationSchema = field(default_factory=RowDeserializationSchema)
    connection: tuple[tuple[str, str], ...] = ()  # more parameters of libpq: sslmode, ...

    @property
    def server(self) -> str:
        """How messages name the server."""
        return f"{self.hostname}:{self.port}/{self.database}"

    def wants(self, schema: str, table: str) -> bool:
        """Whether a table is one of the source's.

        >>> CdcOptions("h", 1, "d", "u", "p", tables=("public.orders_.*",)).wants("public", "orders_eu")
        True
        """
        return matches(self.schemas, self.tables, schema, table)


def matches(schemas: Sequence[str], tables: Sequence[str], schema: str, table: str) -> bool:
    """Whether patterns name a table: those of tables are about `schema.table`, or `table` in any of the schemas."""
    if not any(re.fullmatch(pattern, schema) for pattern in schemas):
        return False
    return any(
        re.fullmatch(pattern, f"{schema}.{table}") or re.fullmatch(pattern, table)
        for pattern in tables
    )
