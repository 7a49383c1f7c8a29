"""Protobuf messages."""
