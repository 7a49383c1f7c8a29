"""Where a stream of records becomes a table, and back."""

from __future__ import annotations

from typing import Any

import polars as pl

from penstock.common.types import Row, RowKind, make_row
from penstock.errors import RecordError
from penstock.errors.user_errors import shorten
from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.times import millis
from penstock.runtime.columnar.values import fields_of, series_of, values_of_series
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.records import RowBatch

_KINDS = tuple(RowKind)
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}


class RowsToColumnsOperator(StreamOperator):
    """Makes columns of records."""

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Make one batch of columns."""
        self.output.emit(columns_of_rows(self.spec, batch, self.context.operator_name))


def columns_of_rows(spec: RowsToColumnsSpec, batch: RowBatch, operator_name: str) -> ColumnBatch:
    """Return records as columns."""
    rows = batch.values
    filled = spec.timestamp
    wanted = [name for at, name in enumerate(spec.names) if at != filled]
    lists = [rows] if spec.single else _fields(rows, wanted, operator_name)
    columns = []
    given = iter(lists)
    for at, (name, data_type) in enumerate(zip(spec.names, spec.types, strict=True)):
        if at == filled:
            times = batch.timestamps or [None] * len(rows)
            made = pl.Series(column(at), times, dtype=pl.Int64).cast(pl.Datetime("ms"))
            columns.append(_as_time(made, dtype_of(data_type)))
        else:
            columns.append(series_of(column(at), next(given), data_type, name))
    if spec.kinds:
        kinds = [_NUMBERS[row.get_row_kind()] if isinstance(row, Row) else 0 for row in rows]
        if any(kinds):
            columns.append(pl.Series(KIND, kinds, dtype=pl.Int8))
    return ColumnBatch(pl.DataFrame(columns), batch.timestamps)


def _fields(rows: list[Any], wanted: list[str], operator_name: str) -> list[Any]:
    """Return the fields of all rows, column by column."""
    fields = [fields_of(row, wanted) for row in rows]
    count = len(wanted)
    for row, each in zip(rows, fields, strict=True):
        if len(each) != count:
            raise RecordError(
                f"record has {len(each)} fields, but the table has {count} columns",
                detail=f"in operator '{operator_name}', record {shorten(row)}",
                hint="declare a schema with one column per field of the records",
            )
    return list(zip(*fields, strict=True)) if fields else [[] for _ in wanted]


def _as_time(made: pl.Series, dtype: pl.DataType) -> pl.Series:
    zoned = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    return (made.dt.replace_time_zone("UTC") if zoned else made).cast(dtype)


class ColumnsToRowsOperator(StreamOperator):
    """Makes Rows of columns, or values if there is one column that is to be the record."""

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Make one batch of records."""
        spec, frame = self.spec, batch.frame
        columns = [
            values_of_series(frame[column(at)], data_type)
            for at, data_type in enumerate(spec.types)
        ]
        names = tuple(spec.names)
        rows: list[Any]
        if spec.single:
            rows = columns[0]
        else:
            numbers = batch.kinds
            if numbers is None:
                insert = RowKind.INSERT
                rows = [make_row(names, list(each), insert) for each in _rows(columns, frame)]
            else:
                rows = [
                    make_row(names, list(each), _KINDS[number])
                    for each, number in zip(_rows(columns, frame), numbers.tolist(), strict=True)
                ]
        self.output.emit(RowBatch(rows, self._timestamps(batch)))

    def _timestamps(self, batch: ColumnBatch) -> list[int | None] | None:
        if self.spec.timestamp is None:
            return batch.timestamps  # type: ignore[no-any-return]
        times: list[int | None] = millis(batch.frame[column(self.spec.timestamp)]).to_list()
        return times


def _rows(columns: list[list[Any]], frame: pl.DataFrame) -> Any:
    return zip(*columns, strict=True) if columns else [()] * frame.height
