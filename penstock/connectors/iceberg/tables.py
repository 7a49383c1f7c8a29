"""Opens Iceberg tables, for sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.dependencies.extras import optional_module
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError


def pyiceberg(part: str) -> Any:
    """Return a module of the library."""
    return optional_module(
        f"pyiceberg.{part}", extra="iceberg", needed_by="an Iceberg source or sink"
    )


class TableName:
    """A table in a catalog: pyiceberg's catalog properties, and the table's name.

    A SQL catalog contains the tables of several catalogs, by their `name`; the default is "default".

    >>> TableName({"type": "sql", "uri": "sqlite:////tmp/catalog.db"}, "sales.orders")
    sales.orders
    """

    def __init__(self, catalog: Any, identifier: Any) -> None:
        if not isinstance(catalog, Mapping) or not all(
            isinstance(name, str) and isinstance(value, str) for name, value in catalog.items()
        ):
            raise ArgumentTypeError(
                "catalog must be a dict of str to str",
                detail=f"catalog={catalog!r}",
                hint='{"type": "sql", "uri": "postgresql+psycopg://...", "warehouse": "s3://..."} or {"type": "rest", "uri": "https://..."}',
            )
        if isinstance(identifier, str):
            parts: Sequence[str] = identifier.split(".")
        elif isinstance(identifier, Sequence):
            parts = [str(part) for part in identifier]
        else:
            parts = ()
        if len(parts) < 2 or not all(parts):
            raise ArgumentError(
                "the name of an Iceberg table needs a namespace and a name",
                detail=f"identifier={identifier!r}",
                hint='"sales.orders"',
            )
        self.catalog: dict[str, str] = dict(catalog)
        self.parts = tuple(parts)

    def __repr__(self) -> str:
        return ".".join(self.parts)

    def open_catalog(self) -> Any:
        """Connect to the catalog."""
        load = pyiceberg("catalog").load_catalog
        name = self.catalog.get("name", "default")
        try:
            return load(name, **{key: each for key, each in self.catalog.items() if key != "name"})
        except Exception as error:
            raise self._unreachable(error) from error

    def open_table(self) -> Any | None:
        """Return the current table; None if it does not exist."""
        missing = pyiceberg("exceptions")
        catalog = self.open_catalog()
        try:
            return catalog.load_table(self.parts)
        except (missing.NoSuchTableError, missing.NoSuchNamespaceError):
            return None
        except Exception as error:
            raise self._unreachable(error) from error

    def require_table(self) -> Any:
        """Return the current table."""
        table = self.open_table()
        if table is None:
            raise ArgumentError(
                f"the Iceberg table {self} does not exist",
                detail=f"catalog: {self._shown()}",
                hint="check the name; a sink with a row type creates its table",
            )
        return table

    def _shown(self) -> str:
        return self.catalog.get("uri", self.catalog.get("type", "without a uri"))

    def _unreachable(self, error: Exception) -> PenstockError:
        return PenstockError(
            f"the catalog of the Iceberg table {self} does not answer",
            detail=f"{self._shown()}: {type(error).__name__}: {error}",
            hint="check the catalog's uri, its credentials, and that its driver is installed",
        )
