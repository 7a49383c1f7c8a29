"""Avro, as container files, as messages, and as records in Parquet files."""
