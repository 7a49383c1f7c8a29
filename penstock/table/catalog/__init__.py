"""Catalogs: what tables, views and functions there are. The names of PyFlink's module are imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.common.not_implemented import not_implemented_class

_NAMES = frozenset(
    {
        "Catalog", "CatalogBaseTable", "CatalogDatabase", "CatalogDescriptor", "CatalogFunction", "ObjectIdentifier", "ObjectPath",
    }
)  # fmt: skip
_SCHEMA = "columns of a result are ResolvedColumns: a name, a type, a comment"
_NOT_THERE = {
    "CatalogColumnStatistics": "plans are made without statistics",
    "CatalogPartition": "catalogs in memory keep no partitions",
    "CatalogPartitionSpec": "catalogs in memory keep no partitions",
    "CatalogTableStatistics": "plans are made without statistics",
    "Column": _SCHEMA,
    "ComputedColumn": _SCHEMA,
    "Constraint": "a primary key is the names of its columns",
    "HiveCatalog": "there is no Hive",
    "MetadataColumn": _SCHEMA,
    "PhysicalColumn": _SCHEMA,
    "Procedure": "there are no procedures in Penstock's SQL",
    "UniqueConstraint": "a primary key is the names of its columns",
    "WatermarkSpec": "a watermark is a column and a text",
}

__all__ = sorted({*_NAMES, *_NOT_THERE, "GenericInMemoryCatalog", "ResolvedSchema"})  # noqa: PLE0605 - names that are imported when they are asked for


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module("penstock.table.catalog.names"), name)
    if name == "GenericInMemoryCatalog":
        return importlib.import_module("penstock.table.catalog.names").Catalog
    if name == "ResolvedSchema":
        return importlib.import_module("penstock.table.resolved_schema").ResolvedSchema
    if name in _NOT_THERE:
        return not_implemented_class(name, _NOT_THERE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
