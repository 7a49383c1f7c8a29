"""PyFlink's catalog API: paths, databases, tables and catalogs as objects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import total_ordering
from typing import Any

from penstock.catalogs.in_memory import Database
from penstock.catalogs.in_memory import GenericInMemoryCatalog as Store
from penstock.catalogs.reader import UserFunction
from penstock.catalogs.tables import ResolvedTable, ResolvedView
from penstock.catalogs.tables import TablePath as Path
from penstock.errors import ArgumentError
from penstock.errors.argument_checks import check_text
from penstock.errors.not_implemented import not_implemented
from penstock.options.configuration import Configuration
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.results.table_schema import TableSchema
from penstock.sql.table_api.schema import Schema

_NO_STATISTICS = "the planner does not use statistics"
_NO_PARTITIONS = (
    "in-memory catalogs do not store partitions; partitions are discovered from directories"
)
_NO_MODELS = "models are not supported"


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


class CatalogDescriptor:
    """A catalog as options describe it, for create_catalog."""

    def __init__(self, name: str, configuration: Configuration, comment: str | None) -> None:
        self.name = name
        self.configuration = configuration
        self.comment = comment

    @staticmethod
    def of(
        catalog_name: str, configuration: Configuration, comment: str | None = None
    ) -> CatalogDescriptor:
        """Return the description."""
        return CatalogDescriptor(check_text(catalog_name, "catalog_name"), configuration, comment)


class _Described:
    """Base of objects with options and a comment."""

    def __init__(self, properties: Mapping[str, str], comment: str | None) -> None:
        self._properties = dict(properties)
        self._comment = comment

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self._comment

    def get_description(self) -> str | None:
        """Return the comment."""
        return self._comment

    def get_detailed_description(self) -> str | None:
        """Return the comment."""
        return self._comment


class CatalogDatabase(_Described):
    """A database of a catalog."""

    @staticmethod
    def create_instance(
        properties: Mapping[str, str], comment: str | None = None
    ) -> CatalogDatabase:
        """Return a database with these options."""
        return CatalogDatabase(properties, comment)

    def get_properties(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._properties)

    def copy(self) -> CatalogDatabase:
        """Return a copy."""
        return CatalogDatabase(self._properties, self._comment)


class CatalogBaseTable(_Described):
    """A table or view of a catalog."""

    create_view = not_implemented("views are defined by SQL", hint="use CREATE VIEW or create_view")

    def __init__(
        self,
        schema: Schema | None,
        partition_keys: tuple[str, ...],
        properties: Mapping[str, str],
        comment: str | None,
        found: ResolvedTable | ResolvedView | None = None,
    ) -> None:
        super().__init__(properties, comment)
        self._schema = schema
        self._partition_keys = partition_keys
        self.found = found

    @staticmethod
    def create_table(
        schema: Schema | TableSchema,
        partition_keys: list[str] = [],  # noqa: B006 - PyFlink's signature
        properties: Mapping[str, str] = {},
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Return a table with these columns and options."""
        if isinstance(schema, TableSchema):
            names, types = schema.get_field_names(), schema.get_field_data_types()
            schema = Schema.new_builder().from_fields(names, types).build()
        return CatalogBaseTable(schema, tuple(partition_keys), properties, comment)

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._properties)

    def get_unresolved_schema(self) -> Schema | None:
        """Return the columns as they were declared, if a Schema declared them."""
        return self._schema

    def copy(self) -> CatalogBaseTable:
        """Return a copy."""
        return CatalogBaseTable(
            self._schema, self._partition_keys, self._properties, self._comment, self.found
        )

    def resolved(self, path: Path) -> ResolvedTable:
        """Return the table as catalogs keep it."""
        if self._schema is None or any(each.kind == "computed" for each in self._schema.columns):
            raise ValidationError(
                "cannot create a table with computed columns from a TableSchema",
                hint="use create_table of the TableEnvironment, or CREATE TABLE",
            )
        from penstock.catalogs.tables import MetadataColumn, PhysicalColumn
        from penstock.sql.parse.types import data_type_of

        columns = []
        for each in self._schema.columns:
            kind = data_type_of(each.type) if isinstance(each.type, str) else each.type
            assert kind is not None
            if each.kind == "metadata":
                key = each.metadata_key or each.name
                columns.append(MetadataColumn(each.name, kind, key, each.virtual, each.comment))
            else:
                columns.append(PhysicalColumn(each.name, kind, each.comment))  # type: ignore[arg-type]
        return ResolvedTable(
            path,
            tuple(columns),
            self.get_options(),
            None,
            self._schema.primary_key,
            self._partition_keys,
            self._comment,
        )


class CatalogFunction:
    """A function of a catalog, by the name of a Python object."""

    def __init__(self, class_name: str, function_language: str = "Python") -> None:
        self._class_name = class_name
        self._language = function_language

    @staticmethod
    def create_instance(class_name: str, function_language: str = "Python") -> CatalogFunction:
        """Return a function with this implementation."""
        return CatalogFunction(class_name, function_language)

    def get_class_name(self) -> str:
        """Return the name of the implementation."""
        return self._class_name

    def get_function_language(self) -> str:
        """Return the language of the implementation."""
        return self._language

    def get_description(self) -> str | None:
        """Return a description of the function."""
        return f"{self._language} function {self._class_name}"

    get_detailed_description = get_description

    def get_options(self) -> dict[str, str]:
        """Return no options."""
        return {}

    def copy(self) -> CatalogFunction:
        """Return a copy."""
        return CatalogFunction(self._class_name, self._language)


class Catalog(Store):
    """A catalog in memory, with the methods of PyFlink's catalogs; register_catalog takes it."""

    alter_partition = not_implemented(_NO_PARTITIONS)
    create_partition = not_implemented(_NO_PARTITIONS)
    drop_partition = not_implemented(_NO_PARTITIONS)
    get_partition = not_implemented(_NO_PARTITIONS)
    list_partitions = not_implemented(_NO_PARTITIONS)
    list_partitions_by_filter = not_implemented(_NO_PARTITIONS)
    partition_exists = not_implemented(_NO_PARTITIONS)
    alter_partition_column_statistics = not_implemented(_NO_STATISTICS)
    alter_partition_statistics = not_implemented(_NO_STATISTICS)
    alter_table_column_statistics = not_implemented(_NO_STATISTICS)
    alter_table_statistics = not_implemented(_NO_STATISTICS)
    bulk_get_partition_column_statistics = not_implemented(_NO_STATISTICS)
    bulk_get_partition_statistics = not_implemented(_NO_STATISTICS)
    get_partition_column_statistics = not_implemented(_NO_STATISTICS)
    get_partition_statistics = not_implemented(_NO_STATISTICS)
    get_table_column_statistics = not_implemented(_NO_STATISTICS)
    get_table_statistics = not_implemented(_NO_STATISTICS)
    alter_model = not_implemented(_NO_MODELS)
    create_model = not_implemented(_NO_MODELS)
    drop_model = not_implemented(_NO_MODELS)
    get_model = not_implemented(_NO_MODELS)
    list_models = not_implemented(_NO_MODELS)
    model_exists = not_implemented(_NO_MODELS)
    rename_model = not_implemented(_NO_MODELS)
    get_procedure = not_implemented("procedures are not supported")
    list_procedures = not_implemented("procedures are not supported")

    def get_default_database(self) -> str:
        """Return the name of the first database."""
        return self.default_database

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""
        return self.databases()

    def database_exists(self, database_name: str) -> bool:
        """Whether there is a database with this name."""
        return self.database(database_name) is not None

    def get_database(self, database_name: str) -> CatalogDatabase:
        """Return a database."""
        found = self._existing(database_name)
        return CatalogDatabase(found.options, found.comment)

    def create_database(
        self, name: str, database: CatalogDatabase | Database, ignore_if_exists: bool = False
    ) -> None:
        """Add a database."""
        if self.database(name) is not None:
            if not ignore_if_exists:
                raise ValidationError(f"database '{name}' already exists")
            return
        if isinstance(database, CatalogDatabase):
            database = Database(database.get_comment(), database.get_properties())
        super().create_database(name, database)

    def drop_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Remove a database with all that is in it."""
        if not ignore_if_exists:
            self._existing(name)
        if self.database_exists(name):
            super().drop_database(name)

    def alter_database(
        self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool
    ) -> None:
        """Give a database other options and another comment."""
        if ignore_if_not_exists and not self.database_exists(name):
            return
        found = self._existing(name)
        found.options, found.comment = new_database.get_properties(), new_database.get_comment()

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of all tables and views of a database."""
        return sorted(self._existing(database_name).tables)

    def list_views(self, database_name: str) -> list[str]:
        """Return the names of the views of a database."""
        tables = self._existing(database_name).tables
        return sorted(name for name, each in tables.items() if isinstance(each, ResolvedView))

    def list_materialized_tables(self, database_name: str) -> list[str]:
        """Return an empty list: materialized tables are not supported."""
        self._existing(database_name)
        return []

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Return a table or view."""
        found = self._table(table_path)
        options = found.options if isinstance(found, ResolvedTable) else {}
        keys = found.partition_keys if isinstance(found, ResolvedTable) else ()
        return CatalogBaseTable(None, keys, options, found.comment, found)

    def table_exists(self, table_path: ObjectPath) -> bool:
        """Whether there is a table or view with this path."""
        database = self.database(table_path.get_database_name())
        return database is not None and table_path.get_object_name() in database.tables

    def create_table(
        self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool
    ) -> None:
        """Add a table."""
        if self.table_exists(table_path):
            if not ignore_if_exists:
                raise ValidationError(f"table {table_path} already exists")
            return
        path = self._path(table_path)
        self.put_table(path, table.found or table.resolved(path))

    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool
    ) -> None:
        """Put a table in the place of another."""
        if ignore_if_not_exists and not self.table_exists(table_path):
            return
        self._table(table_path)
        path = self._path(table_path)
        self.put_table(path, new_table.found or new_table.resolved(path))

    def drop_table(self, table_path: ObjectPath | Path, ignore_if_not_exists: bool = False) -> None:
        """Remove a table or view."""
        if isinstance(table_path, ObjectPath):
            if not ignore_if_not_exists:
                self._table(table_path)
            table_path = self._path(table_path)
        super().drop_table(table_path)

    def rename_table(
        self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool
    ) -> None:
        """Give a table or view another name."""
        if ignore_if_not_exists and not self.table_exists(table_path):
            return
        found = self._table(table_path)
        new = ObjectPath(table_path.get_database_name(), new_table_name)
        if self.table_exists(new):
            raise ValidationError(f"table {new} already exists")
        self.put_table(self._path(new), found)
        super().drop_table(self._path(table_path))

    def list_functions(self, database_name: str) -> list[str]:
        """Return the names of the functions of a database."""
        return sorted(self._existing(database_name).functions)

    def get_function(self, function_path: ObjectPath) -> UserFunction:
        """Return a function."""
        functions = self._existing(function_path.get_database_name()).functions
        name = function_path.get_object_name().lower()
        if name not in functions:
            raise ValidationError(
                f"function {function_path} does not exist", hint=did_you_mean(name, functions)
            )
        return functions[name]

    def function_exists(self, function_path: ObjectPath) -> bool:
        """Whether there is a function with this path."""
        database = self.database(function_path.get_database_name())
        return database is not None and function_path.get_object_name().lower() in (
            database.functions
        )

    def create_function(
        self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool
    ) -> None:
        """Add a function by the name of a Python object."""
        if self.function_exists(function_path):
            if not ignore_if_exists:
                raise ValidationError(f"function {function_path} already exists")
            return
        self._put_function(function_path, function)

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        """Put a function in the place of another."""
        if ignore_if_not_exists and not self.function_exists(function_path):
            return
        self.get_function(function_path)
        self._put_function(function_path, new_function)

    def drop_function(
        self, function_path: ObjectPath | Path, ignore_if_not_exists: bool = False
    ) -> None:
        """Remove a function."""
        if isinstance(function_path, ObjectPath):
            if not ignore_if_not_exists:
                self.get_function(function_path)
            function_path = self._function_path(function_path)
        super().drop_function(function_path)

    def _put_function(self, path: ObjectPath, function: CatalogFunction) -> None:
        from penstock.sql.table_api.udf import import_function

        made = import_function(path.get_object_name(), function.get_class_name())
        self.put_function(self._function_path(path), made)

    def _function_path(self, path: ObjectPath) -> Path:
        return Path(self.name, path.get_database_name(), path.get_object_name().lower())

    def _path(self, path: ObjectPath) -> Path:
        return Path(self.name, path.get_database_name(), path.get_object_name())

    def _table(self, path: ObjectPath) -> ResolvedTable | ResolvedView:
        tables = self._existing(path.get_database_name()).tables
        name = path.get_object_name()
        if name not in tables:
            raise ValidationError(
                f"table or view {path} does not exist", hint=did_you_mean(name, tables)
            )
        found: Any = tables[name]
        return found  # type: ignore[no-any-return]
