"""Change data capture: databases as streams of changes."""

from penstock.connectors.cdc.changes import (
    Change,
    ChangeDeserializationSchema,
    DebeziumDeserializationSchema,
    RowDeserializationSchema,
)
from penstock.connectors.cdc.options import PublicationMode, StartupOptions
from penstock.connectors.cdc.source import PostgresCdcSource, PostgresSourceBuilder

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
