"""Formats: serialization of records as text, CSV, JSON, Avro, Protobuf, Parquet, ORC."""
