"""`print`: a table whose rows appear on the output of the program, with their kinds: `+I[1, a]`."""

from __future__ import annotations

from typing import Any

from penstock.connectors.staged_sinks import PrintSink
from penstock.table.changelog_mode import ChangelogMode
from penstock.table.connectors.options import checked, flag, number, text
from penstock.table.connectors.providers import TableContext, Written

OPTIONS = (text("print-identifier"), flag("standard-error"), number("sink.parallelism"))


class PrintFactory:
    """Makes tables that print."""

    identifier = "print"

    def source(self, context: TableContext) -> None:
        """Return None: there is nothing to read."""

    def sink(self, context: TableContext) -> PrintTable:
        """Return the table."""
        options = checked(context.options, OPTIONS, str(context.table.path))
        sink = PrintSink(options["print-identifier"], to_stderr=options["standard-error"])
        return PrintTable(sink, options["sink.parallelism"])


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
