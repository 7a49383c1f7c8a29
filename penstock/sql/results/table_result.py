"""TableResult: the result of a statement, and the handle of the job that it started."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from penstock.common.job_client import JobClient
from penstock.common.types import Row
from penstock.errors import InvalidProgramError
from penstock.sql.results.printing import ResultTable
from penstock.sql.results.resolved_schema import ResolvedSchema
from penstock.sql.results.result_kind import ResultKind
from penstock.sql.results.row_names import without_names
from penstock.sql.results.table_schema import TableSchema
from penstock.sql.types import BigIntType, DataType, VarCharType

STRING = VarCharType(2**31 - 1)


class TableResult:
    """The result of a statement: its kind, its columns, its rows, the job behind it.

    `rows` is a list of rows, or an iterator over those of a running job, which can be read once. `lines` makes the text that print() shows.
    """

    def __init__(
        self,
        kind: ResultKind,
        schema: ResolvedSchema,
        rows: Iterable[Row],
        *,
        client: JobClient | None = None,
        lines: Callable[[Iterable[Row]], Iterable[str]] | None = None,
    ) -> None:
        self._kind = kind
        self._schema = schema
        self._rows = rows
        self._client = client
        self._lines = ResultTable(schema).lines if lines is None else lines
        self._taken = False

    def get_result_kind(self) -> ResultKind:
        """Return whether there are rows to look at."""
        return self._kind

    def get_job_client(self) -> JobClient | None:
        """Return the handle of the job, if the statement started one."""
        return self._client

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns of the result."""
        return self._schema

    def get_table_schema(self) -> TableSchema:
        """Return the columns of the result, in PyFlink's old form."""
        return TableSchema(self._schema.get_column_names(), self._schema.get_column_data_types())

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait for the end of the job that was started by INSERT, or for the first row of a query; with a limit, at most so long."""
        if self._client is None:
            return
        if isinstance(self._rows, JobRows):
            self._rows.wait_for_first(None if timeout_ms is None else timeout_ms / 1000)
            return
        result = self._client.get_job_execution_result()
        result.result() if timeout_ms is None else result.result(timeout_ms / 1000)

    def collect(self) -> CloseableRows:
        """Return the rows, with the kind of change that each stands for. Those of a running job can be read once; closing cancels it.

        Rows have no names of fields, as in PyFlink: get_resolved_schema() has them.
        """
        return CloseableRows(self.take(), without_names(self._schema.get_column_data_types()))

    def print(self) -> None:
        """Print the result as Flink does; of a job without an end, as long as it runs. Ctrl-C cancels the job."""
        rows = self.take()
        out = sys.stdout
        try:
            for line in self._lines(rows):
                out.write(line + "\n")
                out.flush()
        except BaseException:
            CloseableRows(rows).close()
            raise

    def _repr_html_(self) -> str:
        """Return the rows, for notebooks. Those of a running job are not taken: they can be read once."""
        from penstock.sql.results.html_tables import html_result

        rows = self._rows
        known = rows if isinstance(rows, Sequence) else None
        return html_result(self._schema, known, raw=self._lines is raw_lines)

    def take(self) -> Iterable[Row]:
        """Return the rows with the names of their fields; those of a running job once."""
        if not isinstance(self._rows, Sequence):
            if self._taken:
                raise InvalidProgramError(
                    "the rows of this result were already consumed",
                    hint="execute the statement again, or keep the rows that collect() returned",
                )
            self._taken = True
        return self._rows


class JobRows(Iterator[Row]):
    """The rows of a running job, one after another; the first may have been waited for."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._ahead: list[Row] = []
        self._ended = False

    def __next__(self) -> Row:
        if self._ahead:
            return self._ahead.pop()
        if self._ended:
            raise StopIteration
        found: Row = next(self._rows)
        return found

    def wait_for_first(self, timeout: float | None) -> None:
        """Wait until there is a row, or it is clear that there is none."""
        if self._ahead or self._ended:
            return
        waiting = threading.Thread(target=self._look_ahead, daemon=True)
        waiting.start()
        waiting.join(timeout)
        if waiting.is_alive():
            raise TimeoutError("timed out waiting for the first row")

    def _look_ahead(self) -> None:
        try:
            self._ahead.append(next(self._rows))
        except StopIteration:
            self._ended = True

    def close(self) -> None:
        """Stop reading; the job is cancelled if it still runs."""
        self._rows.close()


class CloseableRows(Iterator[Row]):
    """The rows of a result. Closing them cancels the job that makes them."""

    def __init__(self, rows: Iterable[Row], convert: Callable[[Row], Row] | None = None) -> None:
        self._all = rows
        self._rows = iter(rows)
        self._convert = convert

    def __next__(self) -> Row:
        row = next(self._rows)
        return row if self._convert is None else self._convert(row)

    def next(self) -> Row:
        """Return the next row."""
        return next(self)

    def close(self) -> None:
        """Stop reading."""
        close = getattr(self._all, "close", None)
        if close is not None:
            close()
        self._rows = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def ok() -> TableResult:
    """Return the result of a statement that has nothing to say but that it was carried out."""
    schema = ResolvedSchema.physical(["result"], [STRING])
    return TableResult(ResultKind.SUCCESS, schema, [named(schema, "OK")], lines=raw_lines)


def of_rows(
    names: Sequence[str],
    types: Sequence[DataType],
    rows: Iterable[Sequence[Any]],
    zone: str = "UTC",
) -> TableResult:
    """Return a result of a few rows, which print() shows as wide as they are."""
    schema = ResolvedSchema.physical(names, types)
    show = ResultTable(schema, zone=zone, widest=sys.maxsize, null="").lines
    made = [named(schema, *row) for row in rows]
    return TableResult(ResultKind.SUCCESS_WITH_CONTENT, schema, made, lines=show)


def of_texts(name: str, texts: Iterable[str]) -> TableResult:
    """Return a result with one column of text."""
    return of_rows([name], [STRING], [(text,) for text in texts])


def of_text(name: str, text: str) -> TableResult:
    """Return a result of one long text, which print() shows as it is."""
    schema = ResolvedSchema.physical([name], [STRING])
    return TableResult(
        ResultKind.SUCCESS_WITH_CONTENT, schema, [named(schema, text)], lines=raw_lines
    )


def of_inserts(names: Sequence[str], client: JobClient) -> TableResult:
    """Return the result of a job that writes tables: -1 for each, since rows are not counted."""
    schema = ResolvedSchema.physical(names, [BigIntType()] * len(names))
    row = named(schema, *[-1] * len(names))
    return TableResult(ResultKind.SUCCESS_WITH_CONTENT, schema, [row], client=client)


def named(schema: ResolvedSchema, *values: Any) -> Row:
    """Return a row with the names of a schema."""
    row = Row(*values)
    row.set_field_names(schema.get_column_names())
    return row


def raw_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the values of rows as they are."""
    for row in rows:
        yield ",".join(map(str, row))


__all__ = ["TableResult"]
