"""Spark DataFrames of state, read by Spark's tasks; and the rows of DataFrames that state is made of."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.spark.session import get_context

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def read_frame(session: SparkSession | None, parts: Sequence[Any], reader: Any) -> DataFrame:
    """Return the rows of some parts of a state: one task reads one part.

    `reader` looks at parts (`look_at`) to find out what their types are (`schema`), and reads them as Arrow batches (`batches`).
    Without a session that of this process is used, started if need be.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    session = session or session_of_process()
    parts = list(parts)
    count = max(len(parts), 1)
    # One row, and one partition, for each part: its number.
    numbers = session.range(0, len(parts), 1, count)

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for number in numbers_in(batches):
            profile = pickle.dumps(reader.look_at([parts[number]]))
            yield pa.record_batch([pa.array([profile], pa.binary())], ["profile"])

    found = numbers.mapInArrow(look, "profile binary").collect()
    types, schema = reader.schema([pickle.loads(row.profile) for row in found])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            yield from reader.batches([parts[number]], types)

    return numbers.mapInArrow(read, from_arrow_schema(schema))


def arrow_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Collect a DataFrame and iterate over its rows as Arrow batches."""
    yield from frame.toArrow().to_batches()


def numbers_in(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Yield the numbers of the parts that a task reads."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def session_of_process() -> SparkSession:
    """Return the SparkSession of this process, started if need be."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession(get_context())
