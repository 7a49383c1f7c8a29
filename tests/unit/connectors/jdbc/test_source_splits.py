"""The JDBC source over SQLite: every row is in one split, and reading resumes after the row of the position."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from penstock.connectors.base.source import ReadLimits
from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.connectors.jdbc.source import JdbcSource

ROWS = [(n, n // 3 if n % 7 else None, f"name {n}") for n in range(60)]  # id, part, name


@pytest.fixture
def database(tmp_path) -> str:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE keyed (id integer PRIMARY KEY, part integer, name text)")
        connection.execute("CREATE TABLE bare (id integer, part integer, name text)")
        # Backwards: the order in which rows are read is not the one in which they were written.
        for table in ("keyed", "bare"):
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", ROWS[::-1])
    return f"sqlite:///{path}"


def source(url, table, column: str | None = "part", bounds=(None, None), partitions=4):
    builder = JdbcSource.builder().set_connection_options(JdbcConnectionOptions(url))
    builder.set_table(table)
    if table == "keyed":
        builder.set_key_columns("id")
    if column is not None:
        builder.set_partition_column(column, *bounds, partitions)
    return builder.build()


def all_splits(found, parallelism=100):
    return list(found.create_enumerator(parallelism).discover())


def ids(batches):
    return [record[0] for batch in batches for record in batch.records]


def read(found, split, position=None, size=1024) -> Iterator:
    reader = found.create_reader()
    try:
        yield from reader.read(split, position, ReadLimits(batch_size=size))
    finally:
        reader.close()


@pytest.mark.parametrize("table", ["keyed", "bare"])
@pytest.mark.parametrize("bounds", [(None, None), (5, 12), (-100, 100), (7, 7)], ids=str)
def test_every_row_is_in_exactly_one_split(database, table, bounds):
    found = source(database, table, bounds=bounds)
    splits = all_splits(found)
    assert sorted(n for split in splits for n in ids(read(found, split))) == list(range(60))
    assert sum(split.split_id == "nulls" for split in splits) == 1


@pytest.mark.parametrize("table", ["keyed", "bare"])
@pytest.mark.parametrize("column", ["part", "id", None])
def test_reading_resumes_after_the_last_row_of_every_position(database, table, column):
    found = source(database, table, column)
    for split in all_splits(found):
        whole = ids(read(found, split))
        seen = []
        for batch in read(found, split, size=3):
            seen += ids([batch])
            rest = ids(read(found, split, batch.position, size=4))
            assert seen + rest == whole
        assert seen == whole


@pytest.mark.parametrize("table", ["keyed", "bare"])
def test_a_reader_that_is_sent_back_reads_from_there_and_not_from_its_open_cursor(database, table):
    found = source(database, table, None)
    (split,) = all_splits(found)
    reader = found.create_reader()
    limits = ReadLimits(batch_size=5)
    reading = reader.read(split, None, limits)
    first, second = next(reading), next(reading)
    assert ids([first, second]) == list(range(10))
    assert ids([next(reader.read(split, first.position, limits))]) == list(range(5, 10))
    assert ids([next(reader.read(split, None, limits))]) == list(range(5))
    reader.close()


def test_reader_reuses_its_open_cursor_at_the_same_position(database, monkeypatch):
    found = source(database, "keyed", None)
    (split,) = all_splits(found)
    reader = found.create_reader()
    limits = ReadLimits(batch_size=5)
    first = next(reader.read(split, None, limits))
    monkeypatch.setattr(reader, "_begin", None)  # it would open another one
    assert ids([next(reader.read(split, first.position, limits))]) == list(range(5, 10))
    reader.close()


def test_splits_that_wait_are_in_the_checkpoint_and_none_comes_twice(database):
    found = source(database, "keyed", partitions=8)
    enumerator = found.create_enumerator(1)
    assert enumerator.snapshot() is None
    handed_out = list(enumerator.discover())
    assert len(handed_out) == 2  # two for each subtask
    assert enumerator.discover() == []
    restored = found.create_enumerator(1, enumerator.snapshot())
    while not restored.no_more_splits():
        handed_out += restored.discover()
        restored.observe([])
    assert [each.split_id for each in handed_out] == [f"{n} of 8" for n in range(1, 9)] + ["nulls"]


def test_a_table_without_values_in_its_column_is_one_split(database):
    with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE keyed SET part = NULL")
    found = source(database, "keyed")
    (split,) = all_splits(found)
    assert ids(read(found, split)) == list(range(60))


def test_whole_numbers_are_cut_as_in_flink(database):
    """The ranges of Flink's `scan.partition.*`: bounds are included, and the first ranges have one value more."""
    found = source(database, "keyed", column="id", bounds=(0, 59), partitions=2)
    splits = [sorted(ids(read(found, split))) for split in all_splits(found)]
    assert splits == [list(range(30)), list(range(30, 60)), []]  # the last one: NULL
    found = source(database, "keyed", column="id", bounds=(0, 59), partitions=7)
    sizes = [len(ids(read(found, split))) for split in all_splits(found)]
    assert sizes == [9, 9, 9, 9, 8, 8, 8, 0]
