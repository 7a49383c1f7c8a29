"""What catalogs hold, as objects: databases, tables, views and functions."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalogs.tables import ResolvedTable, ResolvedView
from penstock.catalogs.tables import TablePath as Path
from penstock.errors.argument_checks import check_text
from penstock.errors.not_implemented import not_implemented
from penstock.options.configuration import Configuration
from penstock.sql.errors import ValidationError
from penstock.sql.results.table_schema import TableSchema
from penstock.sql.table_api.schema import Schema


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
