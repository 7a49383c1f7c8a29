"""Avro: the names of PyFlink's classes, to come."""

from __future__ import annotations

from penstock.common.not_implemented import not_implemented_class as _absent

_REASON = "there is no Avro format yet"
_HINT = "use Parquet, JSON or CSV"

AvroBulkWriters = _absent("AvroBulkWriters", _REASON, hint=_HINT)
AvroInputFormat = _absent("AvroInputFormat", _REASON, hint=_HINT)
AvroRowDeserializationSchema = _absent("AvroRowDeserializationSchema", _REASON, hint=_HINT)
AvroRowSerializationSchema = _absent("AvroRowSerializationSchema", _REASON, hint=_HINT)
AvroSchema = _absent("AvroSchema", _REASON, hint=_HINT)
GenericRecordAvroTypeInfo = _absent("GenericRecordAvroTypeInfo", _REASON, hint=_HINT)

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]
