"""Change events of databases as JSON messages: Rows with a RowKind."""

from __future__ import annotations

from penstock.connectors.formats.canal import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from penstock.connectors.formats.debezium import (
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
)

__all__ = [
    "CanalJsonDeserializationSchema",
    "CanalJsonSerializationSchema",
    "DebeziumJsonDeserializationSchema",
    "DebeziumJsonSerializationSchema",
    "MaxwellJsonDeserializationSchema",
    "MaxwellJsonSerializationSchema",
]
