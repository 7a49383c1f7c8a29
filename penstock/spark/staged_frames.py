"""DataFrames of rows that tasks have put into files, read by Spark's tasks in Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ArgumentTypeError
from penstock.errors.argument_checks import describe
from penstock.files.arrow_streams import read_arrow_stream
from penstock.spark.state_frames import numbers_in, session_of_process

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def staged_frame(
    paths: Sequence[str],
    types: StructType,
    session: SparkSession | None = None,
    *,
    owned: str | None = None,
) -> DataFrame:
    """Return the rows of Arrow streams with these columns, one partition for each file, in this order.

    The files are opened as Penstock opens them, by whatever storage it knows: Spark needs no settings for it. They are read by every
    action, so they must stay as long as the DataFrame. The directory `owned` is deleted when nothing can read them any more.
    """
    from penstock.spark.data_frame_types import carried_schema, with_month_intervals
    from penstock.spark.frame_files import frame_files

    session = session or session_of_process()
    paths = tuple(paths)
    # One row, and one partition, for each file: its number.
    numbers = session.range(0, len(paths), 1, max(len(paths), 1))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            yield from read_arrow_stream(paths[number])

    frame = numbers.mapInArrow(read, carried_schema(types))
    if owned is not None:
        frame_files.own(frame, owned)
    return with_month_intervals(frame, types)


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """Return the columns of Arrow tables as Spark's."""
    from pyspark.sql.pandas import types

    return types.from_arrow_schema(schema)


def with_text(name: str, types: StructType) -> StructType:
    """Return columns with one more before them: a text that is never NULL."""
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType(), nullable=False), *types])


def check_session(session: object) -> None:
    """Refuse anything but a session of this process; None stands for the one that it has."""
    from pyspark.sql import SparkSession

    if session is not None and not isinstance(session, SparkSession):
        raise ArgumentTypeError(
            f"session must be a SparkSession, got {describe(session)}",
            hint="pass a session of this process; one of Spark Connect has no executors that jobs could use",
        )


def rows_left(changes: DataFrame, kind: str) -> DataFrame:
    """Return the rows that are left after all changes; column `kind` says what each does: +I, -U, +U or -D.

    Equal rows are counted, so the order of the changes does not matter, and that of the rows is lost.
    """
    from pyspark.sql import functions as f

    from penstock.spark.data_frame_types import quoted

    columns = [changes[quoted(each)] for each in changes.columns if each != kind]
    step = f.when(changes[kind].isin("+I", "+U"), 1).otherwise(-1)
    count = "$count"
    counted = changes.groupBy(*columns).agg(f.sum(step).cast("int").alias(count))
    repeated = counted.where(f.col(count) > 0).withColumn(
        count, f.explode(f.array_repeat(f.lit(0), f.col(count)))
    )
    return repeated.drop(count)
