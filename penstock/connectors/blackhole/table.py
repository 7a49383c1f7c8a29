"""`blackhole`: a table that discards all rows."""

from __future__ import annotations

from typing import Any

from penstock.common.types import RowKind
from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import Sink, SinkWriter, WriterContext
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.options import checked, text
from penstock.sql.connector.providers import SinkProvider, TableContext, TableFactory


class BlackholeFactory(TableFactory):
    """Rows are discarded; write only."""

    identifier = "blackhole"
    takes_all_types = True
    options = (
        text(
            "property-version",
            "Version of the options.",
            no_effect="it belongs to older versions of Flink",
        ),
    )

    def sink(self, context: TableContext) -> BlackholeTable:
        """Return the table."""
        checked(context.options, self.options, str(context.table.path))
        return BlackholeTable()


class BlackholeTable:
    """Takes all kinds of changes."""

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Return the requested mode without UPDATE_BEFORE: the rows are discarded anyway."""
        return ChangelogMode(requested.kinds - {RowKind.UPDATE_BEFORE})

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> SinkProvider:
        """Return a sink that does nothing."""
        return SinkProvider(BlackholeSink(), columnar=True)


class BlackholeSink(Sink):
    """Drops records."""

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Return a writer that does nothing."""
        return _Nothing()


class _Nothing(SinkWriter):
    def write(self, values: Any, timestamps: Any, watermark: int) -> None:
        """Drop the records."""

    def prepare_commit(self) -> list[Any]:
        """Return nothing to commit."""
        return []
