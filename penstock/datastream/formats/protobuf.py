"""Protobuf messages. Needs protobuf: `pip install 'penstock-stream[protobuf]'`."""

from __future__ import annotations

from penstock.formats.protobuf.messages import (
    ProtobufDeserializationSchema,
    ProtobufSerializationSchema,
)

__all__ = ["ProtobufDeserializationSchema", "ProtobufSerializationSchema"]
