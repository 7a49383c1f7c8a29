"""Programs of tables for tests: an environment with a table of words, and what a table has."""

from __future__ import annotations

from typing import Any

from penstock.datastream import StreamExecutionEnvironment
from penstock.table import StreamTableEnvironment, Table

WORDS = [(1, "to", 2.0), (2, "be", 2.5), (3, "or", None), (4, "to", 3.0)]


def with_words() -> StreamTableEnvironment:
    """Return an environment that has the table `words`."""
    streams = StreamExecutionEnvironment.get_execution_environment()
    streams.set_parallelism(1)
    made = StreamTableEnvironment.create(streams)
    made.create_temporary_view("words", made.from_elements(WORDS, ["id", "word", "size"]))
    return made


def rows(table: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a table, or of a result."""
    result = table.execute() if isinstance(table, Table) else table
    with result.collect() as found:
        return [tuple(row) for row in found]


def kinds(table: Any) -> list[tuple[Any, ...]]:
    """Return the changes of a table, or of a result: the kind, and then the row."""
    result = table.execute() if isinstance(table, Table) else table
    with result.collect() as found:
        return [(str(row.get_row_kind()), *row) for row in found]
