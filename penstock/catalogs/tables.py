"""Resolved tables and views of catalogs, as the planner sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.sql.types import DataType


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """A column that the table's rows have."""

    name: str
    type: DataType
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A column that the connector fills, such as Kafka's offset; `key` is the connector's name for it. A `virtual` one is not written."""

    name: str
    type: DataType
    key: str
    virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column that is computed when the table is read: `expression` is parsed SQL (a sqlglot tree), `text` as it was written."""

    name: str
    expression: Any
    text: str
    comment: str | None = None


Column = PhysicalColumn | MetadataColumn | ComputedColumn


@dataclass(frozen=True, slots=True)
class TablePath:
    """Where an object is: catalog, database, name."""

    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return ".".join(f"`{part}`" for part in (self.catalog, self.database, self.name))


@dataclass(frozen=True, slots=True)
class ResolvedTable:
    """A table: columns, watermark (column, parsed SQL, text), primary key, partitions, options.

    `bound`: a table without connector, made of a pandas.DataFrame, of elements or of a query; a function that gives its logical plan.
    `scan`: a table without connector that the program reads, such as a DataFrame of Spark; a function that returns a new ScanTable.
    """

    path: TablePath
    columns: tuple[Column, ...]
    options: dict[str, str] = field(default_factory=dict)
    watermark: tuple[str, Any, str] | None = None
    primary_key: tuple[str, ...] | None = None
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    bound: Any = None
    scan: Any = None


@dataclass(frozen=True, slots=True)
class ResolvedView:
    """A view: its query as parsed SQL and as text, and the names of its columns if it gives them. `bound` as in ResolvedTable, for views of Table objects.

    `catalog` and `database`: where names in the query are looked up.
    """

    path: TablePath
    query: Any
    text: str
    columns: tuple[str, ...] | None = None
    catalog: str = ""
    database: str = ""
    bound: Any = None
    comment: str | None = None
