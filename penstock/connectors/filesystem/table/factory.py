"""The factory of `filesystem`."""

from __future__ import annotations

from penstock.connectors.filesystem.table.options import OPTIONS
from penstock.connectors.filesystem.table.scan import FilesScan
from penstock.connectors.filesystem.table.write import FilesTable
from penstock.sql.connector.options import OptionGroup
from penstock.sql.connector.providers import TableContext, TableFactory


class FilesFactory(TableFactory):
    """Files of a directory, which may be partitioned. A bounded table can be looked up: it is read completely."""

    identifier = "filesystem"
    options = OPTIONS
    option_groups = (OptionGroup("<format>.", "Options of the format."),)

    def source(self, context: TableContext) -> FilesScan:
        """Return the table to read."""
        return FilesScan(context)

    def sink(self, context: TableContext) -> FilesTable:
        """Return the table to write."""
        return FilesTable(context)
