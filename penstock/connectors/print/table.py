"""`print`: a table whose rows appear on the output of the program, with their kinds: `+I[1, a]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.catalogs.tables import ComputedColumn, MetadataColumn
from penstock.connectors.base.staged_sinks import PrintSink
from penstock.connectors.print.texts import row_text
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.options import (
    checked,
    flag,
    number,
    text,
)
from penstock.sql.connector.providers import SinkProvider, TableContext, TableFactory
from penstock.sql.types import DataType


class PrintFactory(TableFactory):
    """Rows are printed, with their kinds; write only."""

    identifier = "print"
    takes_all_types = True
    options = (
        text("print-identifier", "Text before each row."),
        flag("standard-error", "Print to the standard error."),
        number("sink.parallelism", "Parallelism of the sink."),
    )

    def sink(self, context: TableContext) -> PrintTable:
        """Return the table."""
        options = checked(context.options, self.options, str(context.table.path))
        types = _types(context.table)
        sink = _TableSink(options["print-identifier"], options["standard-error"], types)
        return PrintTable(sink, options["sink.parallelism"])


class _TableSink(PrintSink):
    """Prints rows, with values as Flink's `print` shows them."""

    def __init__(self, identifier: str | None, to_stderr: bool, types: list[DataType]) -> None:
        super().__init__(identifier, to_stderr)
        self._types = types

    def text_function(self) -> Callable[[Any], str]:
        """Return a function that formats a row."""
        return row_text(self._types)


def _types(table: Any) -> list[DataType]:
    return [
        each.type
        for each in table.columns
        if not isinstance(each, ComputedColumn)
        and not (isinstance(each, MetadataColumn) and each.virtual)
    ]


class PrintTable:
    """Takes all kinds of changes."""

    def __init__(self, sink: PrintSink, parallelism: int | None) -> None:
        self._sink = sink
        self._parallelism = parallelism

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Accept the requested mode."""
        return requested

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> SinkProvider:
        """Return a sink that prints rows as text."""
        return SinkProvider(self._sink, parallelism=self._parallelism)
