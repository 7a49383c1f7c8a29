"""Interfaces between SQL connectors and the planner.

A factory is found by the option `connector`. It checks its options when a statement is planned: unknown ones are refused with the nearest name.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from penstock.sql.connector.options import Option, OptionGroup

if TYPE_CHECKING:
    from penstock.catalogs.tables import ResolvedTable
    from penstock.common import Configuration
    from penstock.connectors.base.sink import Sink
    from penstock.connectors.base.source import Source
    from penstock.sql.connector.changelog_mode import ChangelogMode
    from penstock.sql.expr.nodes import Rex
    from penstock.sql.types import DataType


@dataclass(frozen=True, slots=True)
class TableContext:
    """Input of a factory: the table, its options with hints applied, the configuration, whether the job runs in BATCH mode."""

    table: ResolvedTable
    options: dict[str, str]
    configuration: Configuration
    batch: bool = False


@dataclass(frozen=True, slots=True)
class ScanProvider:
    """How a table is read: a source of Rows with these columns, or of polars.DataFrames (`columnar`: SourceBatch.records is a DataFrame, columns by name; `$kind` if it has changes).

    `parallelism`: None is the default of the job.
    """

    source: Source
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    columnar: bool = False
    parallelism: int | None = None
    # The strategy of a connector that has watermarks of its own, for tables that declare SOURCE_WATERMARK(); None: it has none.
    watermarks: Any = None


class ScanTable(Protocol):
    """A table that can be read. Push-downs are optional: the planner calls the existing ones before `scan`."""

    def changelog_mode(self) -> ChangelogMode:
        """The kinds of rows that it gives. Without UPDATE_BEFORE but with UPDATE_AFTER it is an upsert source: it has a primary key."""

    def bounded(self) -> bool:
        """Whether the table has an end."""

    def scan(self) -> ScanProvider:
        """How it is read."""


class SupportsProjection(Protocol):
    """A table that reads some columns only."""

    def apply_projection(self, names: Sequence[str]) -> None:
        """Give these columns, physical and metadata ones, in this order."""


class SupportsFilters(Protocol):
    """A table that leaves out rows itself."""

    def apply_filters(self, filters: Sequence[Rex]) -> Sequence[Rex]:
        """Take conditions over all physical columns; return those that must still be checked behind it."""


class SupportsLimit(Protocol):
    """A table that need not give more rows than this."""

    def apply_limit(self, limit: int) -> None:
        """Push down LIMIT: at least this many rows are needed."""


class LookupProvider(Protocol):
    """Looks rows of a table up, in a task. It is sent there, then opened.

    It may have more: `lookup_async(keys)`, which is awaited; or `frame()`, if it has the whole table in memory, as columns `c0`, `c1`, ...: then
    it is joined in columns, and asked for the frame with every batch.
    """

    def open(self, context: Any) -> None:
        """Connect."""

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> Iterable[Sequence[tuple[Any, ...]]]:
        """Return for each key its rows; all at once, so that a database is asked once for many."""

    def close(self) -> None:
        """Disconnect."""


class LookupTable(Protocol):
    """A table that can be asked for the rows of a key."""

    def lookup_provider(self, keys: Sequence[str], names: Sequence[str]) -> LookupProvider:
        """Return a lookup provider by these key columns, which returns rows of the given columns."""


@dataclass(frozen=True, slots=True)
class SinkProvider:
    """How a table is written: a sink of Rows (with names and row kinds), or of ColumnBatches (`columnar`)."""

    sink: Sink
    columnar: bool = False
    parallelism: int | None = None
    # The option that makes the sink wait for watermarks, if one does: an unbounded query without any is refused.
    needs_watermarks: str | None = None


class SinkTable(Protocol):
    """A table that can be written."""

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Of the kinds that the query has, which ones it takes; a query with more is refused, except -U, which is left out."""

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> SinkProvider:
        """How it is written. `partition`: constant values of partition columns."""


class TableFactory(ABC):
    """Makes tables of one kind of connector. It overrides `source`, `sink` or both, as far as its tables can be read and written."""

    identifier: str
    #: What WITH (...) takes. The planner checks `scan.watermark.*` of tables that are read.
    options: ClassVar[tuple[Option, ...]] = ()
    #: Further options, whose names depend on columns, formats or clients.
    option_groups: ClassVar[tuple[OptionGroup, ...]] = ()
    #: Whether columns may have types that cannot be stored, such as RAW.
    takes_all_types: ClassVar[bool] = False

    def source(self, context: TableContext) -> ScanTable | LookupTable | None:
        """Return a table to read, or to look up, or both."""
        return None

    def sink(self, context: TableContext) -> SinkTable | None:
        """Return a table to write."""
        return None

    @property
    def is_readable(self) -> bool:
        """Whether there are sources of this kind."""
        return type(self).source is not TableFactory.source

    @property
    def is_writable(self) -> bool:
        """Whether there are sinks of this kind."""
        return type(self).sink is not TableFactory.sink
