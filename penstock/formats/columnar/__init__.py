"""Parquet and ORC files."""
