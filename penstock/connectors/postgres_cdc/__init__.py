"""Change data capture: databases as streams of changes."""

from penstock.connectors.postgres_cdc.changes import (
    Change,
    ChangeDeserializationSchema,
    DebeziumDeserializationSchema,
    RowDeserializationSchema,
)
from penstock.connectors.postgres_cdc.options import PublicationMode, StartupOptions
from penstock.connectors.postgres_cdc.source import PostgresCdcSource, PostgresSourceBuilder

__all__ = [
    "Change",
    "ChangeDeserializationSchema",
    "DebeziumDeserializationSchema",
    "PostgresCdcSource",
    "PostgresSourceBuilder",
    "PublicationMode",
    "RowDeserializationSchema",
    "StartupOptions",
]
