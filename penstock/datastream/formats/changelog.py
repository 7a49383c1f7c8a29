"""Change events of databases as JSON messages: Rows with a RowKind."""

from __future__ import annotations

from penstock.formats.changelog.canal import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from penstock.formats.changelog.debezium import (
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
