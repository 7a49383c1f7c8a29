"""TablePipeline: a query, and the table that its rows go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.catalogs.tables import ResolvedTable, TablePath
from penstock.datastream._unexecuted import Definitions
from penstock.errors.not_implemented import not_implemented
from penstock.sql.execution.explain_detail import ExplainDetail
from penstock.sql.logical.nodes import LogicalSink

if TYPE_CHECKING:
    from penstock.sql.results.table_result import TableResult
    from penstock.table.table_environment import TableEnvironment


class TablePipeline:
    """A table and where its rows go."""

    compile_plan = not_implemented(
        "plans are compiled again from the statement; a job resumes from its checkpoints"
    )

    def __init__(self, environment: TableEnvironment, write: LogicalSink) -> None:
        self._environment = environment
        self._write = write
        self._unexecuted = Definitions("table pipeline")
        self._unexecuted.add(f"INSERT INTO {write.table.path}")

    def hand_over(self) -> LogicalSink:
        """Return the logical plan to the object that executes it instead."""
        self._unexecuted.done()
        return self._write

    def execute(self) -> TableResult:
        """Start the job."""
        from penstock.sql.execution.queries import write

        return write(self._environment.context, [self.hand_over()])

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the plans as text."""
        from penstock.sql.execution.explaining import explain_plans

        return explain_plans(self._environment.context, [self.hand_over()], extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plans."""
        print(self.explain(*extra_details))

    def get_sink_identifier(self) -> TablePath | None:
        """Return where the table is that is written; None if it has no name in a catalog."""
        table: ResolvedTable = self._write.table
        return None if table.path.name.startswith("*anonymous") else table.path
