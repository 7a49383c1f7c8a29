"""The rows of a query as Arrow or Polars data. Columns stay columns on the way from the tasks to the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import polars as pl
import pyarrow as pa

from penstock.common.job_client import JobClient
from penstock.errors import ArgumentError
from penstock.runtime.columnar.arrow_columns import arrow_table, named_frame
from penstock.runtime.columnar.changelogs import (
    KINDS,
    concat_changes,
    final_frame,
    kind_numbers,
)
from penstock.runtime.columnar.dtypes import schema_of
from penstock.sql import types as t

#: The column of batches that says what each row does
ROW_KIND: Final = "row_kind"
_KIND_DTYPE: Final = pl.Enum(KINDS)

_Batch = TypeVar("_Batch")


class ResultBatches(Iterator[_Batch], Generic[_Batch]):
    """The changes of a running query, batch by batch. Closing them cancels the job; it can be used in a `with` statement."""

    def __init__(
        self, frames: Any, client: JobClient, convert: Callable[[pl.DataFrame], _Batch]
    ) -> None:
        self._frames = frames
        self._client = client
        self._convert = convert

    def __next__(self) -> _Batch:
        return self._convert(next(self._frames))

    def get_job_client(self) -> JobClient:
        """Return the handle of the job."""
        return self._client

    def close(self) -> None:
        """Stop reading; the job is cancelled if it still runs."""
        self._frames.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class ColumnResult:
    """The columns of a query, in the forms that users ask for."""

    def __init__(self, names: Sequence[str], types: Sequence[t.DataType]) -> None:
        self._names = tuple(names)
        self._types = tuple(types)

    def check_names(self) -> None:
        """Refuse a query that has a column with the name of the column of kinds."""
        if ROW_KIND in self._names:
            raise ArgumentError(
                f"column '{ROW_KIND}' exists, which batches have for the kind of change",
                hint=f"rename it: table.rename_columns(col('{ROW_KIND}').alias('kind'))",
            )

    def arrow(self, frames: Iterator[pl.DataFrame]) -> pa.Table:
        """Return the rows that are left in the end as an Arrow table."""
        return arrow_table(self._left(frames), self._names, self._types)

    def polars(self, frames: Iterator[pl.DataFrame]) -> pl.DataFrame:
        """Return the rows that are left in the end as a Polars frame."""
        return self._named(self._left(frames))

    def arrow_batch(self, frame: pl.DataFrame) -> pa.RecordBatch:
        """Return changes as a record batch, whose first column has their kinds."""
        kinds = pa.DictionaryArray.from_arrays(
            kind_numbers(frame).to_arrow(), pa.array(KINDS, pa.string())
        )
        table = arrow_table(frame, self._names, self._types).combine_chunks()
        columns = [
            each.chunk(0) if each.num_chunks else pa.array([], each.type) for each in table.columns
        ]
        schema = pa.schema([pa.field(ROW_KIND, kinds.type, nullable=False), *table.schema])
        return pa.RecordBatch.from_arrays([kinds, *columns], schema=schema)

    def polars_batch(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return changes as a Polars frame, whose first column has their kinds."""
        kinds = kind_numbers(frame).cast(pl.UInt8).cat.to(_KIND_DTYPE).alias(ROW_KIND)
        return self._named(frame).insert_column(0, kinds)

    def _left(self, frames: Iterator[pl.DataFrame]) -> pl.DataFrame:
        parts = list(frames)
        if not parts:
            return pl.DataFrame(schema=schema_of(self._types))
        return final_frame(concat_changes(parts), self._types)

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        return named_frame(frame, self._names, self._types)
