"""The catalog in memory, with the methods of PyFlink's catalogs."""

from __future__ import annotations

from typing import Any

from penstock.catalogs.in_memory import Database
from penstock.catalogs.in_memory import GenericInMemoryCatalog as Store
from penstock.catalogs.reader import UserFunction
from penstock.catalogs.tables import ResolvedTable, ResolvedView
from penstock.catalogs.tables import TablePath as Path
from penstock.errors.not_implemented import not_implemented
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.table.catalog.objects import CatalogBaseTable, CatalogDatabase, CatalogFunction
from penstock.table.catalog.paths import ObjectPath

_NO_STATISTICS = "the planner does not use statistics"
_NO_PARTITIONS = (
    "in-memory catalogs do not store partitions; partitions are discovered from directories"
)
_NO_MODELS = "models are not supported"


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
