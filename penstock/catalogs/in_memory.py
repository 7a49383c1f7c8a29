"""Catalogs that live as long as their environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.catalogs.reader import UserFunction
from penstock.catalogs.tables import ResolvedTable, ResolvedView, TablePath
from penstock.sql.errors import ValidationError, did_you_mean

TableOrView = ResolvedTable | ResolvedView


@dataclass(slots=True)
class Database:
    """Tables, views and functions by name."""

    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    tables: dict[str, TableOrView] = field(default_factory=dict)
    functions: dict[str, UserFunction] = field(default_factory=dict)


class CatalogStore(Protocol):
    """Interface of a catalog. Databases are named, and so is what is in them."""

    name: str
    default_database: str
    options: dict[str, str]
    comment: str | None

    def databases(self) -> Sequence[str]:
        """The names of all databases."""

    def database(self, name: str) -> Database | None:
        """A database, or None. Its content is changed only through `put_table` and similar methods."""

    def create_database(self, name: str, database: Database) -> None:
        """Add a database."""

    def drop_database(self, name: str) -> None:
        """Remove a database with all that is in it."""

    def put_table(self, path: TablePath, table: TableOrView) -> None:
        """Add a table or view, or put it in the place of another."""

    def drop_table(self, path: TablePath) -> None:
        """Remove a table or view."""

    def put_function(self, path: TablePath, function: UserFunction) -> None:
        """Add a function, or put it in the place of another."""

    def drop_function(self, path: TablePath) -> None:
        """Remove a function."""


class GenericInMemoryCatalog:
    """A catalog in the memory of the program.

    >>> catalog = GenericInMemoryCatalog("shop", "orders")
    >>> catalog.databases()
    ['orders']
    """

    def __init__(self, name: str, default_database: str = "default") -> None:
        self.name = name
        self.default_database = default_database
        self.options: dict[str, str] = {"type": "generic_in_memory"}
        self.comment: str | None = None
        self._databases = {default_database: Database()}

    def databases(self) -> list[str]:
        """Return the names of all databases."""
        return list(self._databases)

    def database(self, name: str) -> Database | None:
        """Return a database, or None."""
        return self._databases.get(name)

    def create_database(self, name: str, database: Database) -> None:
        """Add a database."""
        self._databases[name] = database

    def drop_database(self, name: str) -> None:
        """Remove a database with all that is in it."""
        del self._databases[name]

    def put_table(self, path: TablePath, table: TableOrView) -> None:
        """Add a table or view, or put it in the place of another."""
        self._existing(path.database).tables[path.name] = replace(table, path=path)

    def drop_table(self, path: TablePath) -> None:
        """Remove a table or view."""
        self._existing(path.database).tables.pop(path.name, None)

    def put_function(self, path: TablePath, function: UserFunction) -> None:
        """Add a function, or put it in the place of another."""
        self._existing(path.database).functions[path.name] = function

    def drop_function(self, path: TablePath) -> None:
        """Remove a function."""
        self._existing(path.database).functions.pop(path.name, None)

    def _existing(self, name: str) -> Database:
        found = self._databases.get(name)
        if found is None:
            raise missing_database(self.name, name, self._databases)
        return found


def missing_database(
    catalog: str, name: str, known: Sequence[str] | dict[str, Database]
) -> ValidationError:
    """Return the error for a database that does not exist."""
    return ValidationError(
        f"database '{name}' does not exist in catalog '{catalog}'",
        hint=did_you_mean(name, known)
        or "SHOW DATABASES lists the databases; CREATE DATABASE creates one",
    )
