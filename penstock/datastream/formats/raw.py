"""Raw messages: one value without any envelope."""

from __future__ import annotations

from penstock.formats.raw.messages import RawDeserializationSchema, RawSerializationSchema

__all__ = ["RawDeserializationSchema", "RawSerializationSchema"]
