"""Rows for tables of connector `values`: tests of queries give them, with the changes that they may be."""

from __future__ import annotations

from penstock.connectors.values.table import register_values

__all__ = ["register_values"]
