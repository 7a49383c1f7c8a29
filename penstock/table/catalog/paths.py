"""Names of what catalogs hold, as objects."""

from __future__ import annotations

from functools import total_ordering

from penstock.catalogs.tables import TablePath as Path
from penstock.errors import ArgumentError
from penstock.errors.argument_checks import check_text


@total_ordering
class ObjectPath:
    """Database and name of something in a catalog.

    >>> ObjectPath.from_string("shop.orders").get_object_name()
    'orders'
    """

    def __init__(self, database_name: str | None = None, object_name: str | None = None) -> None:
        self._database = check_text(database_name, "database_name")
        self._name = check_text(object_name, "object_name")

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        """Return the path that a text such as database.table means."""
        parts = check_text(full_name, "full_name").split(".")
        if len(parts) != 2:
            raise ArgumentError(f"invalid object path '{full_name}'", hint="write database.table")
        return ObjectPath(*parts)

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self._database

    def get_object_name(self) -> str:
        """Return the name in the database."""
        return self._name

    def get_full_name(self) -> str:
        """Return database.name."""
        return f"{self._database}.{self._name}"

    def compare_to(self, other: ObjectPath) -> int:
        """Return a number below, equal to or above 0."""
        return (self > other) - (self < other)

    def __lt__(self, other: ObjectPath) -> bool:
        return self.get_full_name() < other.get_full_name()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and other.get_full_name() == self.get_full_name()

    def __hash__(self) -> int:
        return hash(self.get_full_name())

    def __str__(self) -> str:
        return self.get_full_name()


class ObjectIdentifier:
    """Catalog, database and name of something."""

    def __init__(self, catalog_name: str, database_name: str, object_name: str) -> None:
        self._parts = (
            check_text(catalog_name, "catalog_name"),
            check_text(database_name, "database_name"),
            check_text(object_name, "object_name"),
        )

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        """Return the identifier with these parts."""
        return ObjectIdentifier(catalog_name, database_name, object_name)

    def get_catalog_name(self) -> str:
        """Return the name of the catalog."""
        return self._parts[0]

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self._parts[1]

    def get_object_name(self) -> str:
        """Return the name in the database."""
        return self._parts[2]

    def to_object_path(self) -> ObjectPath:
        """Return the path in the catalog."""
        return ObjectPath(self._parts[1], self._parts[2])

    def to_list(self) -> list[str]:
        """Return the parts."""
        return list(self._parts)

    def as_serializable_string(self) -> str:
        """Return the name as SQL writes it."""
        return str(Path(*self._parts))

    def as_summary_string(self) -> str:
        """Return the name as messages write it."""
        return ".".join(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectIdentifier) and other._parts == self._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __str__(self) -> str:
        return self.as_serializable_string()
