"""Options of a change data capture source: the server, the tables, the slot, where to begin."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connectors.postgres_cdc.changes import (
    ChangeDeserializationSchema,
    RowDeserializationSchema,
)

EXTRA: Final = "postgres"
NEEDED_BY: Final = "PostgresCdcSource"


class StartupMode(enum.Enum):
    """Where a source begins that is not restored from a checkpoint."""

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
        """Read the existing rows, then the changes since."""
        return StartupOptions(StartupMode.INITIAL)

    @staticmethod
    def latest() -> StartupOptions:
        """Read changes that are committed from now on."""
        return StartupOptions(StartupMode.LATEST_OFFSET)

    @staticmethod
    def committed() -> StartupOptions:
        """Read the changes that are not yet confirmed in the slot. The slot must exist."""
        return StartupOptions(StartupMode.COMMITTED_OFFSET)

    @staticmethod
    def snapshot() -> StartupOptions:
        """Read the existing rows, and finish. Needs neither slot nor publication."""
        return StartupOptions(StartupMode.SNAPSHOT)


class PublicationMode(enum.Enum):
    """How the publication is created, with Debezium's names."""

    FILTERED = "filtered"  # create it with the tables of the source, add missing ones
    ALL_TABLES = "all_tables"  # create it for all tables; needs a superuser
    DISABLED = "disabled"  # it must exist


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """All options of a source."""

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
    connection: tuple[tuple[str, str], ...] = ()  # further libpq parameters: sslmode, ...

    @property
    def server(self) -> str:
        """The server's name in messages."""
        return f"{self.hostname}:{self.port}/{self.database}"

    def wants(self, schema: str, table: str) -> bool:
        """Whether a table is captured by the source.

        >>> CdcOptions("h", 1, "d", "u", "p", tables=("public.orders_.*",)).wants("public", "orders_eu")
        True
        """
        return matches(self.schemas, self.tables, schema, table)


def matches(schemas: Sequence[str], tables: Sequence[str], schema: str, table: str) -> bool:
    """Whether patterns match a table: table patterns match `schema.table`, or `table` in any of the schemas."""
    if not any(re.fullmatch(pattern, schema) for pattern in schemas):
        return False
    return any(
        re.fullmatch(pattern, f"{schema}.{table}") or re.fullmatch(pattern, table)
        for pattern in tables
    )
