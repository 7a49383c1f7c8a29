"""Catalogs of tables, views and functions. The names of PyFlink's module are imported lazily."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.errors.not_implemented import not_implemented_class

# Where the names live that are there.
_MODULES = {
    "Catalog": "in_memory",
    "CatalogBaseTable": "objects",
    "CatalogDatabase": "objects",
    "CatalogDescriptor": "objects",
    "CatalogFunction": "objects",
    "ObjectIdentifier": "paths",
    "ObjectPath": "paths",
}
_SCHEMA = "columns of a result are ResolvedColumn objects (name, type, comment)"
_NOT_THERE = {
    "CatalogColumnStatistics": "the planner does not use statistics",
    "CatalogPartition": "in-memory catalogs do not store partitions",
    "CatalogPartitionSpec": "in-memory catalogs do not store partitions",
    "CatalogTableStatistics": "the planner does not use statistics",
    "Column": _SCHEMA,
    "ComputedColumn": _SCHEMA,
    "Constraint": "a primary key is a list of column names",
    "HiveCatalog": "Hive is not supported",
    "MetadataColumn": _SCHEMA,
    "PhysicalColumn": _SCHEMA,
    "Procedure": "procedures are not supported",
    "UniqueConstraint": "a primary key is a list of column names",
    "WatermarkSpec": "a watermark is a column and an SQL expression",
}

__all__ = sorted({*_MODULES, *_NOT_THERE, "GenericInMemoryCatalog", "ResolvedSchema"})  # noqa: PLE0605 - names that are imported when they are asked for


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"penstock.table.catalog.{_MODULES[name]}")
        return getattr(module, name)
    if name == "GenericInMemoryCatalog":
        return importlib.import_module("penstock.table.catalog.in_memory").Catalog
    if name == "ResolvedSchema":
        return importlib.import_module("penstock.sql.results.resolved_schema").ResolvedSchema
    if name in _NOT_THERE:
        return not_implemented_class(name, _NOT_THERE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
