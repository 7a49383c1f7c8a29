"""`values`: a table whose rows a program gives, for tests of queries, including changelogs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from penstock.catalogs.tables import PhysicalColumn
from penstock.common.types import Row, RowKind
from penstock.connectors.base.collection import CollectionSource
from penstock.errors import ArgumentTypeError, ConfigurationError
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.options import checked, text
from penstock.sql.connector.providers import ScanProvider, TableContext, TableFactory
from penstock.sql.types import DataType

_KINDS: Final = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}
OPTIONS: Final = (
    text("data-id", "What register_values(rows) returned.", required=True),
    text(
        "changelog-mode",
        "Kinds of the rows: some of I, UB, UA and D, separated by commas.",
        default="I",
    ),
)
_REGISTERED: Final[dict[str, tuple[Row, ...]]] = {}


def register_values(rows: Iterable[Any]) -> str:
    """Keep rows for tables of connector `values` in this process; return the value for the option `data-id`.

    Rows are Rows, whose kinds count if the option `changelog-mode` names them (`I,UB,UA,D`), or tuples.

    >>> from penstock.table import EnvironmentSettings, TableEnvironment
    >>> from penstock.testing import MiniCluster
    >>> data = register_values([("ann", 3), ("bob", 4)])
    >>> tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    >>> _ = tables.execute_sql(f"CREATE TABLE t (name STRING, n INT) WITH ('connector' = 'values', 'data-id' = '{data}')")
    >>> with MiniCluster():
    ...     [tuple(row) for row in tables.execute_sql("SELECT SUM(n) FROM t").collect()]
    [(7,)]
    """
    kept = []
    for each in rows:
        if not isinstance(each, Row | tuple | list):
            raise ArgumentTypeError(f"rows must be Row or tuple objects, got {each!r}")
        kept.append(each if isinstance(each, Row) else Row(*each))
    name = uuid.uuid4().hex
    _REGISTERED[name] = tuple(kept)
    return name


class ValuesFactory(TableFactory):
    """Rows that a program has registered, read only: for tests of queries."""

    identifier = "values"
    takes_all_types = True
    options = OPTIONS

    def source(self, context: TableContext) -> ValuesScan:
        """Return the table to read."""
        return ValuesScan(context)


class ValuesScan:
    """Rows in their order."""

    def __init__(self, context: TableContext) -> None:
        name = str(context.table.path)
        options = checked(context.options, OPTIONS, name)
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        self._types: dict[str, DataType] = {each.name: each.type for each in columns}
        self._names = list(self._types)
        self._mode = _mode(options["changelog-mode"], name)
        found = _REGISTERED.get(options["data-id"])
        if found is None:
            raise ConfigurationError(
                f"table {name}: no values are registered as '{options['data-id']}'",
                hint="use the id that register_values(rows) returned in this process",
            )
        self._rows = found
        for row in found:
            if row.get_row_kind() not in self._mode.kinds or len(row) != len(columns):
                raise ConfigurationError(
                    f"table {name}: row does not match the table: {row.get_row_kind()} {row!r:.200}",
                    detail=f"the table has {len(columns)} columns and row kinds {self._mode}",
                    hint="list all row kinds: 'changelog-mode' = 'I,UB,UA,D'",
                )

    def changelog_mode(self) -> ChangelogMode:
        """Return the mode of the option."""
        return self._mode

    def bounded(self) -> bool:
        """Return True: the rows are a fixed list."""
        return True

    def apply_projection(self, names: Sequence[str]) -> None:
        """Give these columns only."""
        self._names = list(names)

    def scan(self) -> ScanProvider:
        """Return a source of rows."""
        types = tuple(self._types[name] for name in self._names)
        return ScanProvider(CollectionSource(self._projected()), tuple(self._names), types)

    def _projected(self) -> Iterator[Row]:
        at = [list(self._types).index(name) for name in self._names]
        for row in self._rows:
            made = Row(*(row[index] for index in at))
            made.set_row_kind(row.get_row_kind())
            yield made


def _mode(written: str, table: str) -> ChangelogMode:
    names = [each.strip().upper() for each in written.split(",")]
    unknown = [each for each in names if each not in _KINDS]
    if unknown:
        raise ConfigurationError(
            f"table {table}: unknown row kind '{unknown[0]}'",
            hint=f"'changelog-mode' is a list of {', '.join(_KINDS)}",
        )
    return ChangelogMode(_KINDS[each] for each in names)
