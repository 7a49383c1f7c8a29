"""Formats of records in files and messages."""
