"""StatementSet: several INSERTs that run as one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream._unexecuted import Definitions
from penstock.errors import InvalidProgramError
from penstock.errors.argument_checks import check_instance, check_text
from penstock.errors.not_implemented import not_implemented
from penstock.sql.errors import ValidationError
from penstock.sql.execution.explain_detail import ExplainDetail
from penstock.sql.logical.nodes import LogicalSink

if TYPE_CHECKING:
    from penstock.sql.results.table_result import TableResult
    from penstock.sql.table_api.table_descriptor import TableDescriptor
    from penstock.table.table import Table, TablePipeline
    from penstock.table.table_environment import TableEnvironment


class StatementSet:
    """A set of INSERTs that share their sources: they are planned together and run as one job."""

    compile_plan = not_implemented(
        "plans are compiled again from the statements; a job resumes from its checkpoints"
    )

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._writes: list[LogicalSink] = []
        self._unexecuted = Definitions("statement set")

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Add a TablePipeline, as insert_into returns."""
        from penstock.table.table import TablePipeline

        check_instance(table_pipeline, TablePipeline, "table_pipeline")
        return self._add(table_pipeline.hand_over())

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT."""
        from penstock.sql.execution.parsing import parse_one
        from penstock.sql.parse import statements

        statement = parse_one(check_text(stmt, "stmt"))
        if not isinstance(statement, statements.InsertStatement):
            raise ValidationError("only INSERT statements can be added", detail=stmt)
        return self._add(self._environment.context.planner.insert(statement))

    def _add(self, write: LogicalSink) -> StatementSet:
        self._writes.append(write)
        self._unexecuted.add(f"INSERT INTO {write.table.path}")
        return self

    def add_insert(
        self,
        target_path_or_descriptor: str | TableDescriptor,
        table: Table,
        overwrite: bool = False,
    ) -> StatementSet:
        """Add that a table's rows are written into another."""
        return self.add(table.insert_into(target_path_or_descriptor, overwrite))

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the plans as text."""
        from penstock.sql.execution.explaining import explain_plans

        return explain_plans(self._environment.context, self._checked(), extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plans."""
        print(self.explain(*extra_details))

    def execute(self) -> TableResult:
        """Start the job. The set is empty afterwards."""
        from penstock.sql.execution.queries import write

        writes = self._checked()
        self._writes = []
        return write(self._environment.context, writes)

    def attach_as_datastream(self) -> None:
        """Make the INSERTs part of the program of streams: its execute() runs them too."""
        environment: Any = self._environment.stream_environment
        for each in self._environment.context.planner.translate(self._checked()):
            environment.add_operator(each)
        self._writes = []

    def _checked(self) -> list[LogicalSink]:
        if not self._writes:
            raise InvalidProgramError(
                "the statement set is empty", hint="call add_insert_sql or add_insert first"
            )
        self._unexecuted.done()
        return list(self._writes)


__all__ = ["StatementSet"]
