"""JSON: lines of files, and messages."""

from __future__ import annotations

from penstock.common.connectors.json_format import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

__all__ = ["JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
