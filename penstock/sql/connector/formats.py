"""Interface between formats and the connectors that use them.

A format is found by its name, such as the value of the option `format`. It is one of messages, of files, or of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final

from penstock.errors import ConfigurationError
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.discovery import Factories
from penstock.sql.connector.options import Option, checked
from penstock.sql.types import DataType, RowField, RowType

if TYPE_CHECKING:
    from penstock.common.serialization import DeserializationSchema, SerializationSchema


@dataclass(frozen=True, slots=True)
class FormatContext:
    """Input of a format: the columns that it reads or writes, and the values of its options."""

    columns: Mapping[str, DataType]
    options: Mapping[str, Any]
    table: str = ""  # for messages
    prefix: str = ""  # of the names of its options, for messages
    metadata: tuple[str, ...] = ()  # keys of metadata that follow the columns of a row

    @property
    def row_type(self) -> RowType:
        """The columns as one type."""
        return RowType([RowField(name, kind) for name, kind in self.columns.items()])


class FormatFactory(ABC):
    """Base of all formats: a name and options."""

    identifier: str
    options: ClassVar[tuple[Option, ...]] = ()

    def check(self, context: FormatContext) -> None:
        """Reject options that contradict each other."""


class MessageFormatFactory(FormatFactory):
    """A format of messages: each has one row, or one change of a row."""

    #: Whether messages are changes of all kinds, instead of inserts only.
    is_changelog: ClassVar[bool] = False
    #: Keys that metadata columns may name.
    metadata_keys: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def deserializer(self, context: FormatContext) -> DeserializationSchema:
        """Return how rows are read from messages."""

    @abstractmethod
    def serializer(self, context: FormatContext) -> SerializationSchema:
        """Return how rows are written as messages."""

    def reader(self, context: FormatContext) -> DeserializationSchema:
        """Return how rows are read from messages, with a hint for errors if unreadable messages can be skipped."""
        reader = self.deserializer(context)
        if "ignore-parse-errors" in context.options:
            reader.skip_hint = skip_hint(context.prefix)
        return reader


class FileFormatFactory(FormatFactory):
    """A format of files, which are read and written in columns."""

    @abstractmethod
    def file_reader(self, context: FormatContext) -> object:
        """Return a `FileFormat` whose records are polars.DataFrames, and which has `columns` and `project(columns)`."""

    @abstractmethod
    def file_writer(self, context: FormatContext) -> FileWriting:
        """Return how files are written."""


@dataclass(frozen=True, slots=True)
class FileWriting:
    """How files of a format are written.

    `create` makes the writer of one file: an object with `add_elements(frame)`, `finish()`, and `size`, the bytes that it has written.
    `merge` writes the rows of some files as one file; None: the files are lines, which are put together one after another.
    """

    create: Callable[[IO[bytes]], Any]
    merge: Callable[[Sequence[IO[bytes]], IO[bytes]], None] | None = None


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """A format of messages with its options, for the columns of a table that are in the message."""

    factory: MessageFormatFactory
    context: FormatContext

    def changelog_mode(self) -> ChangelogMode:
        """Return the kinds of rows that messages stand for."""
        return ChangelogMode.all() if self.factory.is_changelog else ChangelogMode.insert_only()

    def reader(self) -> DeserializationSchema:
        """Return the deserialization schema."""
        return self.factory.reader(self.context)

    def writer(self) -> SerializationSchema:
        """Return the serialization schema."""
        return self.factory.serializer(self.context)


FORMATS: Final[Factories[FormatFactory]] = Factories("format")


def message_format_names() -> list[str]:
    """Return the names of the formats of messages."""
    return [name for name, found in _loadable() if isinstance(found, MessageFormatFactory)]


def file_format_names() -> list[str]:
    """Return the names of the formats of files: changes of rows as lines are among them."""
    return [name for name, found in _loadable() if _is_of_files(found)]


def _loadable() -> Iterator[tuple[str, FormatFactory]]:
    """Yield all formats by name. One that cannot be loaded is left out: the error comes when a table asks for it."""
    for name in FORMATS.names():
        with suppress(ConfigurationError):
            yield name, FORMATS.find(name)


def find_message_format(name: str, table: str) -> MessageFormatFactory:
    """Return a format of messages."""
    found = FORMATS.find(name) if name in FORMATS.names() else None
    if not isinstance(found, MessageFormatFactory):
        raise ConfigurationError(
            f"table {table}: unknown message format '{name}'",
            hint=f"valid values are {', '.join(message_format_names())}",
        )
    return found


def find_file_format(name: str, table: str) -> FormatFactory:
    """Return a format of files; it may be one of messages that are changes."""
    found = FORMATS.find(name) if name in FORMATS.names() else None
    if found is None or not _is_of_files(found):
        raise ConfigurationError(
            f"table {table}: invalid value '{name}' for option 'format'",
            hint=f"valid values are {', '.join(file_format_names())}",
        )
    return found


def message_format(
    name: str,
    given: Mapping[str, str],
    prefixes: Sequence[str],
    columns: Mapping[str, DataType],
    table: str,
    metadata: Sequence[str] = (),
) -> MessageFormat:
    """Return the format of messages with these columns; its options are those that begin with one of the prefixes."""
    factory = find_message_format(name, table)
    context = format_context(factory, given, prefixes, columns, table, metadata)
    return MessageFormat(factory, context)


def format_context(
    factory: FormatFactory,
    given: Mapping[str, str],
    prefixes: Sequence[str],
    columns: Mapping[str, DataType],
    table: str,
    metadata: Sequence[str] = (),
) -> FormatContext:
    """Check the options of a format: those that begin with one of the prefixes. The first prefix is used in messages."""
    own = {
        key.removeprefix(prefix): value
        for key, value in given.items()
        for prefix in prefixes
        if key.startswith(prefix)
    }
    options = checked(own, factory.options, f"{table}, format {factory.identifier}")
    context = FormatContext(columns, options, table, prefixes[0], tuple(metadata))
    factory.check(context)
    return context


def skip_hint(prefix: str) -> str:
    """Return how rows that cannot be read are left out, where options of the format begin with this.

    >>> skip_hint("csv.")
    "set 'csv.ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows"
    """
    return f"set '{prefix}ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows"


def _is_of_files(factory: FormatFactory) -> bool:
    if isinstance(factory, FileFormatFactory):
        return True
    return isinstance(factory, MessageFormatFactory) and factory.is_changelog
