"""JSON: lines of files, and messages."""

from __future__ import annotations

from penstock.formats.json.rows import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.formats.json.values import JsonDeserializationSchema, JsonSerializationSchema

__all__ = [
    "JsonDeserializationSchema",
    "JsonLinesFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSerializationSchema",
]
