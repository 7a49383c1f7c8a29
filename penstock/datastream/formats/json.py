"""JSON: lines of files, and messages."""

from __future__ import annotations

from penstock.connectors.formats.json import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.connectors.formats.json_values import (
    JsonDeserializationSchema,
    JsonSerializationSchema,
)

__all__ = [
    "JsonDeserializationSchema",
    "JsonLinesFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSerializationSchema",
]
