"""WATERMARK FOR belongs to the source: a subtask that reads several splits, each in order, drops none of their rows."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, RowKind
from penstock.table import DataTypes, EnvironmentSettings, Schema, TableDescriptor, TableEnvironment
from penstock.table.udf import udf
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.environments import restarts
from tests.builders.modes import WAYS, Way
from tests.builders.split_tables import register_splits

BEGIN = dt.datetime(2024, 1, 1)
EPOCH = dt.datetime(1970, 1, 1)
ROWS = 400  # of each split, two seconds apart
# The second split is a day behind the first one.
SPLITS = [
    [(f"{name}{at}", start + 2_000 * at) for at in range(ROWS)]
    for name, start in (("a", 86_400_000), ("b", 0))
]
WINDOW = 300_000


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


def wanted() -> Counter[Any]:
    """The rows of each window of five minutes."""
    times = [time for split in SPLITS for _, time in split]
    return Counter(BEGIN + dt.timedelta(milliseconds=time // WINDOW * WINDOW) for time in times)


def moments(rows: list[tuple[str, int]]) -> list[tuple[str, dt.datetime]]:
    return [(name, BEGIN + dt.timedelta(milliseconds=time)) for name, time in rows]


def millis(rows: list[tuple[str, int]]) -> list[tuple[str, int]]:
    first = (BEGIN - EPOCH) // dt.timedelta(milliseconds=1)
    return [(name, first + time) for name, time in rows]


def tables(options: dict[str, str]) -> TableEnvironment:
    configuration = Configuration()
    # A watermark after each batch.
    often = {"pipeline.auto-watermark-interval": "1 ms"}
    given = {"parallelism.default": "1", "table.local-time-zone": "UTC", **often, **options}
    for key, value in given.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    return TableEnvironment.create(settings.with_configuration(configuration).build())


def counted(environment: TableEnvironment, table: str = "readings", hint: str = "") -> Counter[Any]:
    """The number of rows in each window of a query over the table."""
    query = (
        "SELECT CAST(window_start AS TIMESTAMP(3)), COUNT(*) FROM TABLE(TUMBLE("
        f"(SELECT * FROM {table}{hint}), DESCRIPTOR(t), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end"
    )
    found: Counter[Any] = Counter()
    with environment.execute_sql(query).collect() as rows:
        for row in rows:
            assert row.get_row_kind() is RowKind.INSERT
            found[row[0]] += row[1]
    return found


STORED = "name STRING, t TIMESTAMP(3)"
COMPUTED = "name STRING, x BIGINT, t AS TO_TIMESTAMP_LTZ(x, 3)"
BY_FUNCTION = "name STRING, x BIGINT, t AS TO_TIMESTAMP_LTZ(same(x), 3)"
WATERMARK = "WATERMARK FOR t AS t - INTERVAL '10' SECOND"
# Columns, options of the table, an OPTIONS hint.
TABLES: dict[str, tuple[str, str, str]] = {
    "rows": (STORED, "", ""),
    "columns": (STORED, ", 'columnar' = 'true'", ""),
    "a computed time": (COMPUTED, "", ""),
    "a computed time of columns": (COMPUTED, ", 'columnar' = 'true'", ""),
    "a time that a user's function gives": (BY_FUNCTION, "", ""),
    "a watermark for each row": (STORED, ", 'scan.watermark.emit.strategy' = 'on-event'", ""),
    "a hint": (
        COMPUTED,
        ", 'columnar' = 'true'",
        " /*+ OPTIONS('scan.watermark.emit.strategy' = 'on-event', 'scan.watermark.emit.on-event.gap' = '7') */",
    ),
    "idle splits": (STORED, ", 'scan.watermark.idle-timeout' = '1 h'", ""),
}


def create(environment: TableEnvironment, columns: str, options: str = "") -> None:
    same = udf(lambda n: n, result_type=DataTypes.BIGINT())
    environment.create_temporary_system_function("same", same)
    data = register_splits(*map(millis if "BIGINT" in columns else moments, SPLITS))
    environment.execute_sql(
        f"CREATE TABLE readings ({columns}, {WATERMARK}) WITH ('connector' = 'splits', 'data' = '{data}'{options})"
    )


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_row_is_late_because_of_another_split(way: Way) -> None:
    def check(case: tuple[str, str, str]) -> None:
        columns, options, hint = case
        environment = tables(way.options)
        create(environment, columns, options)
        assert counted(environment, hint=hint) == wanted()

    check_all(TABLES, check)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_splits_keep_their_watermarks_over_a_restart(way: Way, tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    options = {
        **way.options,
        **restarts(1),
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    environment = tables(options)
    create(environment, STORED, f", 'fails-once' = '{failed}'")
    assert counted(environment) == wanted()
    assert failed.exists()


@pytest.mark.parametrize("way", WAYS[::2], ids=str)
def test_files_in_one_subtask_have_watermarks_of_their_own(way: Way, tmp_path: Path) -> None:
    for number, split in enumerate(SPLITS):
        lines = [f"{name},{time.isoformat(' ', 'milliseconds')}" for name, time in moments(split)]
        (tmp_path / f"{number}.csv").write_text("\n".join(lines) + "\n")
    environment = tables(way.options)
    environment.create_temporary_table(
        "readings",
        TableDescriptor.for_connector("filesystem")
        .schema(
            Schema.new_builder()
            .column("name", DataTypes.STRING())
            .column("t", DataTypes.TIMESTAMP(3))
            .watermark("t", "t - INTERVAL '10' SECOND")
            .build()
        )
        .option("path", str(tmp_path))
        .option("format", "csv")
        .option("scan.watermark.emit.strategy", "on-event")
        .build(),
    )
    assert counted(environment) == wanted()


@pytest.mark.parametrize("way", WAYS[::2], ids=str)
def test_a_row_behind_the_watermark_of_its_own_split_is_late(way: Way) -> None:
    environment = tables(way.options)
    rows = [("first", 0), ("next", 600_000), ("late", 1_000), ("in time", 595_000)]
    data = register_splits(moments(rows))
    environment.execute_sql(
        f"CREATE TABLE readings ({STORED}, {WATERMARK}) WITH ('connector' = 'splits', 'data' = '{data}', "
        "'scan.watermark.emit.strategy' = 'on-event')"
    )
    found = counted(environment)
    assert found == {BEGIN: 1, at(300_000): 1, at(600_000): 1}


def at(time: int) -> dt.datetime:
    return BEGIN + dt.timedelta(milliseconds=time)


@pytest.mark.parametrize("way", WAYS[::2], ids=str)
def test_a_connector_with_watermarks_of_its_own_has_source_watermarks(way: Way) -> None:
    environment = tables(way.options)
    data = register_splits(*map(millis, SPLITS))
    environment.execute_sql(
        "CREATE TABLE readings (name STRING, x BIGINT, t AS TO_TIMESTAMP_LTZ(x, 3), WATERMARK FOR t AS SOURCE_WATERMARK()) "
        f"WITH ('connector' = 'splits', 'data' = '{data}', 'watermarks' = 'true')"
    )
    assert counted(environment) == wanted()


@pytest.mark.parametrize("way", WAYS[::2], ids=str)
def test_splits_that_are_assigned_later_have_no_late_rows(way: Way, tmp_path: Path) -> None:
    # Twenty ranges of ids: each in order, and a day before the one that is read before it.
    rows = [(at, 86_400_000 * (20 - at // 20) + 60_000 * (at % 20)) for at in range(400)]
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE readings (id INTEGER PRIMARY KEY, x INTEGER)")
        database.executemany("INSERT INTO readings VALUES (?, ?)", rows)
    environment = tables(way.options)
    environment.execute_sql(
        f"CREATE TABLE readings (id BIGINT, x BIGINT, t AS TO_TIMESTAMP_LTZ(x, 3), {WATERMARK}) WITH ("
        f"'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{tmp_path}/shop.db', 'table-name' = 'readings', "
        "'scan.partition.column' = 'id', 'scan.partition.num' = '20', "
        "'scan.partition.lower-bound' = '0', 'scan.partition.upper-bound' = '399')"
    )
    found = counted(environment)
    assert found == Counter(
        EPOCH + dt.timedelta(milliseconds=x // WINDOW * WINDOW) for _, x in rows
    )
