"""TableDescriptor and FormatDescriptor: tables as a program describes them, instead of in CREATE TABLE."""

from __future__ import annotations

from typing import Any

from penstock.errors.argument_checks import check_instance, check_text
from penstock.options.config_options import ConfigOption
from penstock.options.config_values import to_text
from penstock.sql.table_api.schema import Schema


class TableDescriptor:
    """Connector, schema, options, partitions of a table.

    >>> table = TableDescriptor.for_connector("datagen").option("number-of-rows", "3").build()
    >>> table.get_options()
    {'connector': 'datagen', 'number-of-rows': '3'}
    """

    def __init__(
        self,
        options: dict[str, str],
        schema: Schema | None,
        partition_keys: tuple[str, ...],
        comment: str | None,
        distribution: str | None = None,
    ) -> None:
        self._options = options
        self._schema = schema
        self._partition_keys = partition_keys
        self._comment = comment
        self.distribution = distribution

    @staticmethod
    def for_connector(connector: str) -> Builder:
        """Start describing a table of a connector."""
        return TableDescriptor.Builder().option("connector", check_text(connector, "connector"))

    @staticmethod
    def for_managed() -> Builder:
        """Start describing a table whose catalog knows the connector."""
        return TableDescriptor.Builder()

    def get_schema(self) -> Schema | None:
        """Return the schema, if one was given."""
        return self._schema

    def get_options(self) -> dict[str, str]:
        """Return the options, the connector among them."""
        return dict(self._options)

    def get_partition_keys(self) -> list[str]:
        """Return the columns by which the table is partitioned."""
        return list(self._partition_keys)

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self._comment

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableDescriptor) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        options = ",\n".join(f"  '{key}' = '{value}'" for key, value in self._options.items())
        comment = f"\nCOMMENT '{self._comment}'" if self._comment else ""
        keys = ", ".join(f"`{key}`" for key in self._partition_keys)
        partitions = f"\nPARTITIONED BY ({keys})" if keys else ""
        return f"{self._schema or ''}{comment}{partitions}\nWITH (\n{options}\n)"

    class Builder:
        """A table that is being described."""

        def __init__(self) -> None:
            self._options: dict[str, str] = {}
            self._schema: Schema | None = None
            self._partition_keys: tuple[str, ...] = ()
            self._comment: str | None = None

        def schema(self, schema: Schema) -> Builder:
            """Set the columns."""
            check_instance(schema, Schema, "schema", hint="use Schema.new_builder()")
            self._schema = schema
            return self

        def option(self, key: str | ConfigOption[Any], value: object) -> Builder:
            """Set an option of the connector."""
            name = key.key if isinstance(key, ConfigOption) else check_text(key, "key")
            self._options[name] = to_text(value)
            return self

        def format(
            self, format: str | FormatDescriptor, format_option: ConfigOption[str] | None = None
        ) -> Builder:
            """Set the format of the data, with its options under the format's name."""
            option = "format" if format_option is None else format_option.key
            if isinstance(format, str):
                format = FormatDescriptor.for_format(format).build()
            check_instance(format, FormatDescriptor, "format")
            prefix = option.removesuffix("format") + format.get_format()
            self._options[option] = format.get_format()
            for key, value in format.get_options().items():
                self._options[f"{prefix}.{key}"] = value
            return self

        def partitioned_by(self, *partition_keys: str) -> Builder:
            """Set the columns by which the table is partitioned."""
            self._partition_keys += tuple(check_text(key, "a key") for key in partition_keys)
            return self

        def comment(self, comment: str) -> Builder:
            """Set the comment."""
            self._comment = comment
            return self

        def build(self) -> TableDescriptor:
            """Return the description."""
            return TableDescriptor(
                dict(self._options), self._schema, self._partition_keys, self._comment
            )


Builder = TableDescriptor.Builder


class FormatDescriptor:
    """A format and its options.

    >>> str(FormatDescriptor.for_format("json").option("ignore-parse-errors", "true").build())
    'json[{ignore-parse-errors=true}]'
    """

    def __init__(self, format: str, options: dict[str, str]) -> None:
        self._format = format
        self._options = options

    @staticmethod
    def for_format(format: str) -> FormatBuilder:
        """Start describing a format."""
        return FormatDescriptor.Builder(check_text(format, "format"))

    def get_format(self) -> str:
        """Return the format's name."""
        return self._format

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatDescriptor) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        shown = ", ".join(f"{key}={value}" for key, value in self._options.items())
        return f"{self._format}[{{{shown}}}]"

    class Builder:
        """A format that is being described."""

        def __init__(self, format: str) -> None:
            self._format = format
            self._options: dict[str, str] = {}

        def option(self, key: str | ConfigOption[Any], value: object) -> FormatBuilder:
            """Set an option of the format."""
            name = key.key if isinstance(key, ConfigOption) else check_text(key, "key")
            self._options[name] = to_text(value)
            return self

        def build(self) -> FormatDescriptor:
            """Return the description."""
            return FormatDescriptor(self._format, dict(self._options))


FormatBuilder = FormatDescriptor.Builder

__all__ = ["FormatDescriptor", "TableDescriptor"]
