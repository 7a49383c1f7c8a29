"""A bounded source of the rows of a table or a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from penstock.common.type_information import TypeInformation
from penstock.common.typeinfo import check_type
from penstock.common.types import Row
from penstock.common.user_types import Position, StateValue
from penstock.connectors.base.source import (
    Boundedness,
    MalformedRecord,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.connectors.jdbc.failures import may_pass, named, with_retries
from penstock.connectors.jdbc.options import JdbcConnectionOptions, text, whole_number
from penstock.connectors.jdbc.scans import Cursor, JdbcScan, ask, primary_key
from penstock.connectors.jdbc.sink import check_options
from penstock.connectors.jdbc.splits import SplitRange, check_bound, cut
from penstock.connectors.jdbc.statements import check_sql, count_parameters
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError

Extractor = Callable[[Row], Any]
_RETRIES = 3
T = TypeVar("T")


class JdbcSource(Source):
    """Reads a table or a query, split by a numeric or time column. Built by `JdbcSource.builder()`.

    Records are Rows with the column names, or the results of the extractor. A split is read in the order of its column and of the
    key, so a restored job resumes after the last row of the checkpoint; unchanged rows are read exactly once.
    """

    carries_timestamps = False
    assigns_on_demand = True

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        relation: str,
        *,
        table: str | None,
        column: str | None,
        bounds: tuple[Any, Any],
        partitions: int | None,
        key: Sequence[str],
        type_info: TypeInformation | None,
        extractor: Extractor | None,
    ) -> None:
        self.connection = connection
        self.relation = relation
        self.table = table
        self.column = column
        self.bounds = bounds
        self.partitions = partitions
        self.key = tuple(key)
        self.type_info = type_info
        self.extractor = extractor

    @staticmethod
    def builder() -> JdbcSourceBuilder:
        """Return a builder."""
        return JdbcSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: always."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, if it was given."""
        return self.type_info

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create the enumerator, which splits the table."""
        return _Enumerator(self, parallelism, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _Reader(self)


class JdbcSourceBuilder:
    """Builds a JdbcSource: connection options, and a table or a query, are required.

    >>> source = (
    ...     JdbcSource.builder()
    ...     .set_connection_options(JdbcConnectionOptions("jdbc:postgresql://localhost/shop"))
    ...     .set_table("orders")
    ...     .set_partition_column("id", partitions=8)
    ...     .build()
    ... )
    """

    def __init__(self) -> None:
        self._connection: JdbcConnectionOptions | None = None
        self._table: str | None = None
        self._query: str | None = None
        self._column: str | None = None
        self._bounds: tuple[Any, Any] = (None, None)
        self._partitions: int | None = None
        self._key: tuple[str, ...] = ()
        self._type_info: TypeInformation | None = None
        self._extractor: Extractor | None = None

    def set_connection_options(self, options: JdbcConnectionOptions) -> Self:
        """Set the connection to the database."""
        self._connection = check_options(options)
        return self

    def set_table(self, table: str) -> Self:
        """Set the table (`orders`, `sales.orders`), quoted like in SQL if necessary."""
        self._table = text(table, "the table")
        return self

    def set_query(self, query: str) -> Self:
        """Set a SELECT whose rows are read."""
        self._query = check_sql(query, "the query").strip().rstrip(";")
        if count_parameters(self._query):
            raise ArgumentError(
                "the query must not have parameters",
                detail=f"query: {query}",
                hint="write values into the query; splits add their own conditions. The operator ? is written ??",
            )
        return self

    def set_partition_column(
        self,
        column: str,
        lower_bound: Any = None,
        upper_bound: Any = None,
        partitions: int | None = None,
    ) -> Self:
        """Set the numeric or time column whose ranges are the splits.

        Without bounds, the minimum and the maximum are queried. Rows outside the bounds belong to the first and the last
        split, and rows whose column is NULL have their own split: no row is skipped. The default is 4 splits per subtask.
        """
        self._column = text(column, "the partition column")
        self._bounds = (
            check_bound(lower_bound, "lower_bound"),
            check_bound(upper_bound, "upper_bound"),
        )
        if (lower_bound is None) != (upper_bound is None):
            raise ArgumentError(
                "one bound of the partition column is missing", hint="pass both bounds, or neither"
            )
        if lower_bound is not None and not lower_bound <= upper_bound:
            raise ArgumentError(
                "the lower bound of the partition column is greater than the upper bound",
                detail=f"lower_bound={lower_bound!r}, upper_bound={upper_bound!r}",
            )
        if partitions is not None:
            self._partitions = whole_number(partitions, "the number of partitions", 1)
        return self

    def set_key_columns(self, *columns: str) -> Self:
        """Set the columns of a unique key. The default for a table is its primary key."""
        self._key = tuple(text(column, "a key column") for column in columns)
        return self

    def set_type_info(self, type_info: TypeInformation) -> Self:
        """Set the type of the records."""
        self._type_info = check_type(type_info, "type_info")
        return self

    def set_result_extractor(self, extractor: Extractor) -> Self:
        """Set a function from row to record. A row for which it raises is a malformed record."""
        if not callable(extractor):
            raise ArgumentTypeError(
                "the result extractor is not callable", detail=f"got {extractor!r}"
            )
        self._extractor = extractor
        return self

    def build(self) -> JdbcSource:
        """Build the source."""
        if self._connection is None:
            raise ArgumentError(
                "the source has no connection options", hint="call set_connection_options(...)"
            )
        if (self._table is None) == (self._query is None):
            raise ArgumentError(
                "the source has neither a table nor a query"
                if self._table is None
                else "the source has both a table and a query",
                hint="call either set_table or set_query",
            )
        return JdbcSource(
            self._connection,
            self._table if self._table is not None else f"({self._query})",
            table=self._table,
            column=self._column,
            bounds=self._bounds,
            partitions=self._partitions,
            key=self._key,
            type_info=self._type_info,
            extractor=self._extractor,
        )


class _Enumerator(SplitEnumerator):
    """Splits the table once, and assigns a few splits at a time, so that faster subtasks get more of them."""

    def __init__(self, source: JdbcSource, parallelism: int, restored: StateValue) -> None:
        self._source = source
        self._parallelism = parallelism
        self._waiting: list[SourceSplit] | None = restored
        self._unfinished = 0

    def observe(self, unfinished: Sequence[SourceSplit]) -> None:
        """Record how many splits are being read."""
        self._unfinished = len(unfinished)

    def discover(self) -> list[SourceSplit]:
        """Return as many splits as there are free readers."""
        if self._waiting is None:
            with named(self._source.connection.target, "return the splits of a source"):
                self._waiting = with_retries(self._plan, _RETRIES)
        free = max(0, 2 * self._parallelism - self._unfinished)
        found, self._waiting = self._waiting[:free], self._waiting[free:]
        self._unfinished += len(found)
        return found

    def no_more_splits(self) -> bool:
        """Whether all splits were assigned."""
        return self._waiting == []

    def snapshot(self) -> StateValue:
        """Return the unassigned splits; None before the table is split."""
        return self._waiting

    def _plan(self) -> list[SourceSplit]:
        source = self._source
        key = source.key
        if not key and source.table is not None:
            key = primary_key(source.connection, source.table)
        scan = JdbcScan(source.relation, source.column, key, _quote(source.connection))
        if not key and source.connection.target.kind != "postgresql":
            scan = replace(scan, every=self._columns())
        if source.column is None:
            return [SourceSplit("all", (scan, SplitRange()))]
        column = scan.quoted(source.column)
        nulls = SplitRange(nulls=True)
        low, high = source.bounds
        if low is None:
            low, high = ask(
                source.connection,
                f"SELECT MIN({column}), MAX({column}) FROM {source.relation} AS penstock_rows",  # noqa: S608
            )
            if low is None:
                return [SourceSplit("nulls", (scan, nulls))]
            check_bound(low, f"the least value of column {source.column}")
        parts = cut(low, high, source.partitions or 4 * self._parallelism)
        splits = [
            SourceSplit(f"{number + 1} of {len(parts)}", (scan, part))
            for number, part in enumerate(parts)
        ]
        return [*splits, SourceSplit("nulls", (scan, nulls))]

    def _columns(self) -> tuple[str, ...]:
        sql = f"SELECT * FROM {self._source.relation} AS penstock_rows WHERE 1 = 0"  # noqa: S608
        cursor = Cursor(self._source.connection, sql, [])
        cursor.close()
        return cursor.names


class _Reader(SourceReader):
    """Reads splits, each over its own connection, which stays open as long as reading continues at the same position."""

    def __init__(self, source: JdbcSource) -> None:
        self._source = source
        self._open: dict[str, tuple[Any, Cursor]] = {}

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield the rows after a position."""
        scan, part = split.payload
        while True:
            rows, cursor = self._fetch(split, position, limits.batch_size)
            if not rows:
                cursor.close()
                return
            places = [cursor.names.index(name) for name in scan.order_columns(part)]
            if scan.key:
                position = tuple(rows[-1][place] for place in places)
            else:
                position = (position or 0) + len(rows)
            self._open[split.split_id] = (position, cursor)
            yield self._batch(split, rows, cursor.names, position)

    def close(self) -> None:
        """Close the connections."""
        for _, cursor in self._open.values():
            cursor.close()
        self._open.clear()

    def _fetch(
        self, split: SourceSplit, position: object, count: int
    ) -> tuple[list[tuple[Any, ...]], Cursor]:
        opened = self._open.pop(split.split_id, None)
        if opened is not None:
            if opened[0] == position:
                try:
                    return opened[1].fetch(count), opened[1]
                except Exception as error:
                    opened[1].close()
                    if not may_pass(error):
                        raise self._refused(error) from error
            else:
                opened[1].close()
        with named(self._source.connection.target, "read", self._source.relation):
            return with_retries(lambda: self._begin(split, position, count), _RETRIES)

    def _begin(
        self, split: SourceSplit, position: object, count: int
    ) -> tuple[list[tuple[Any, ...]], Cursor]:
        scan, part = split.payload
        cursor = Cursor(self._source.connection, *scan.statement(part, position))
        try:
            return cursor.fetch(count), cursor
        except BaseException:
            cursor.close()
            raise

    def _refused(self, error: Exception) -> PenstockError:
        from penstock.connectors.jdbc.failures import refused

        return refused(error, self._source.connection.target, "read", self._source.relation)

    def _batch(
        self,
        split: SourceSplit,
        rows: list[tuple[Any, ...]],
        names: tuple[str, ...],
        position: object,
    ) -> SourceBatch:
        records: list[Any] = []
        malformed: list[MalformedRecord] = []
        extractor = self._source.extractor
        for values in rows:
            row = Row(*values)
            row.set_field_names(names)
            if extractor is None:
                records.append(row)
                continue
            try:
                records.append(extractor(row))
            except Exception as error:  # noqa: BLE001 - the user's function may raise anything
                origin = {
                    "database": self._source.connection.target.name,
                    "relation": self._source.relation,
                    "split": split.split_id,
                }
                malformed.append(MalformedRecord.of(row, error, origin))
        return SourceBatch(records, position, malformed=malformed)


def _quote(options: JdbcConnectionOptions) -> str:
    return "`" if options.target.url.startswith(("mysql", "mariadb")) else '"'
