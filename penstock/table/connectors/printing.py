"""`print`: a table whose rows appear on the output of the program, with their kinds: `+I[1, a]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.types import Row
from penstock.connectors.staged_sinks import PrintSink
from penstock.table.catalog.tables import ComputedColumn, MetadataColumn
from penstock.table.changelog_mode import ChangelogMode
from penstock.table.connectors.options import checked, flag, number, text
from penstock.table.connectors.providers import TableContext, Written
from penstock.table.expressions.typing import holds
from penstock.table.printing import text_of
from penstock.table.types import BitmapType, DataType

OPTIONS = (text("print-identifier"), flag("standard-error"), number("sink.parallelism"))


class PrintFactory:
    """Makes tables that print."""

    identifier = "print"
    takes_all_types = True

    def source(self, context: TableContext) -> None:
        """Return None: there is nothing to read."""

    def sink(self, context: TableContext) -> PrintTable:
        """Return the table."""
        options = checked(context.options, OPTIONS, str(context.table.path))
        shown = _shown(context.table)
        sink = _TableSink(options["print-identifier"], options["standard-error"], shown)
        return PrintTable(sink, options["sink.parallelism"])


class _TableSink(PrintSink):
    """Prints rows; columns of types that streams do not have as SQL writes their values."""

    def __init__(self, identifier: str | None, to_stderr: bool, shown: dict[int, DataType]) -> None:
        super().__init__(identifier, to_stderr)
        self._shown = shown

    def text_function(self) -> Callable[[Any], str]:
        """Return what makes text of a row."""
        plain = super().text_function()
        if not self._shown:
            return plain

        def text(row: Row) -> str:
            values = list(row)
            for at, kind in self._shown.items():
                values[at] = None if values[at] is None else text_of(values[at], kind, "UTC")
            made = Row(*values)
            made.set_row_kind(row.get_row_kind())
            return plain(made)

        return text


def _shown(table: Any) -> dict[int, DataType]:
    written = [
        each
        for each in table.columns
        if not isinstance(each, ComputedColumn)
        and not (isinstance(each, MetadataColumn) and each.virtual)
    ]
    return {at: each.type for at, each in enumerate(written) if holds(each.type, BitmapType)}


class PrintTable:
    """Takes all kinds of changes."""

    def __init__(self, sink: PrintSink, parallelism: int | None) -> None:
        self._sink = sink
        self._parallelism = parallelism

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Return what is asked for."""
        return requested

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> Written:
        """Return a sink that prints rows as text."""
        return Written(self._sink, parallelism=self._parallelism)
