"""Streams become tables, and tables streams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Row, RowKind, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.errors import ArgumentError
from penstock.sql.errors import UnsupportedQueryError
from penstock.table import ChangelogMode, DataTypes, Schema, StreamTableEnvironment
from penstock.table.expressions import col, lit
from penstock.table.window import Over, Session, Slide, Tumble
from penstock.testing import MiniCluster
from tests.builders.tables import kinds, rows, with_words

NOON = dt.datetime(2024, 5, 1, 12, 0)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture
def env() -> StreamTableEnvironment:
    return with_words()


class FirstField(TimestampAssigner):
    """The first field is the time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def stream(env: StreamTableEnvironment) -> Any:
    streams = env.stream_environment
    elements = [(1_000, "a", 1), (2_000, "b", 2), (61_000, "a", 3)]
    made = streams.from_collection(
        elements, Types.TUPLE([Types.LONG(), Types.STRING(), Types.INT()])
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return made.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(FirstField()))


def test_a_stream_becomes_a_table_and_a_stream_again(env: StreamTableEnvironment) -> None:
    table = env.from_data_stream(stream(env))
    assert table.get_resolved_schema().get_column_names() == ["f0", "f1", "f2"]
    back = env.to_data_stream(table.select(col("f1"), col("f2") + 1))
    assert back.get_type() == Types.ROW_NAMED(["f1", "_c1"], [Types.STRING(), Types.INT()])
    plain = back.map(lambda row: (row.f1, row[1]))
    assert list(plain.execute_and_collect()) == [("a", 2), ("b", 3), ("a", 4)]


def test_a_stream_of_single_values_has_one_column(env: StreamTableEnvironment) -> None:
    numbers = env.stream_environment.from_collection([3, 4], Types.INT())
    env.create_temporary_view("numbers", numbers)
    assert rows(env.sql_query("SELECT f0 * 2 FROM numbers")) == [(6,), (8,)]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: [
            Schema.new_builder()
            .column("f1", "STRING")
            .column("f2", DataTypes.INT())
            .column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime")
            .watermark("at", "SOURCE_WATERMARK()")
            .build()
        ],
        lambda: [
            Schema.new_builder()
            .column_by_expression("at", "TO_TIMESTAMP_LTZ(f0, 3)")
            .watermark("at", "`at` - INTERVAL '1' SECOND")
            .build()
        ],
        lambda: [col("f0"), col("f1"), col("f2"), col("at").rowtime],
    ],
    ids=["the stream's own", "computed", "expressions"],
)
def test_event_time_of_a_stream(env: StreamTableEnvironment, declare: Any) -> None:
    env.get_config().set_local_timezone("UTC")
    env.create_temporary_view("events", stream(env), *declare())
    found = rows(
        env.sql_query(
            "SELECT window_end, f1, SUM(f2) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`at`), "
            "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, f1"
        )
    )
    first, second = dt.datetime(1970, 1, 1, 0, 1), dt.datetime(1970, 1, 1, 0, 2)
    assert sorted(found) == [(first, "a", 1), (first, "b", 2), (second, "a", 3)]


@pytest.mark.parametrize(
    ("window", "count"),
    [
        (lambda: Tumble.over(lit(1).minutes), 3),
        (lambda: Slide.over(lit(2).minutes).every(lit(1).minutes), 5),
        (lambda: Session.with_gap(lit(10).seconds), 3),
    ],
)
def test_windows_of_the_table_api(env: StreamTableEnvironment, window: Any, count: int) -> None:
    table = env.from_data_stream(stream(env), col("t"), col("k"), col("n"), col("at").rowtime)
    made = (
        table.window(window().on(col("at")).alias("w"))
        .group_by(col("w"), col("k"))
        .select(col("k"), col("w").start.alias("s"), col("w").end.alias("e"), col("n").sum)
    )
    assert len(rows(made)) == count


def test_over_windows_of_the_table_api(env: StreamTableEnvironment) -> None:
    table = env.from_data_stream(stream(env), col("t"), col("k"), col("n"), col("at").rowtime)
    window = Over.partition_by(col("k")).order_by(col("at")).alias("w")
    made = table.over_window(window).select(col("k"), col("n").sum.over(col("w")).alias("s"))
    assert sorted(rows(made)) == [("a", 1), ("a", 4), ("b", 2)]


def changelog(env: StreamTableEnvironment) -> Any:
    changes = [
        Row.of_kind(RowKind.INSERT, "a", 1),
        Row.of_kind(RowKind.INSERT, "b", 2),
        Row.of_kind(RowKind.UPDATE_BEFORE, "a", 1),
        Row.of_kind(RowKind.UPDATE_AFTER, "a", 5),
        Row.of_kind(RowKind.DELETE, "b", 2),
    ]
    kind = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()])
    return env.stream_environment.from_collection(changes, kind)


def test_changes_go_in_and_out(env: StreamTableEnvironment) -> None:
    table = env.from_changelog_stream(changelog(env))
    assert kinds(table) == [
        ("+I", "a", 1), ("+I", "b", 2), ("-U", "a", 1), ("+U", "a", 5), ("-D", "b", 2),
    ]  # fmt: skip
    total = env.sql_query(f"SELECT SUM(v) AS s FROM {table}").to_pandas()
    assert total["s"].tolist() == [5]
    back = env.to_changelog_stream(table.select(col("k"), col("v") * 10))
    out = [(str(row.get_row_kind()), *row) for row in back.execute_and_collect()]
    assert out[0] == ("+I", "a", 10)
    assert out[-1] == ("-D", "b", 20)


def test_upserts_need_a_primary_key(env: StreamTableEnvironment) -> None:
    with pytest.raises(ArgumentError, match="need a primary key"):
        env.from_changelog_stream(changelog(env), None, ChangelogMode.upsert())
    upserts = env.stream_environment.from_collection(
        [Row.of_kind(RowKind.INSERT, "a", 1), Row.of_kind(RowKind.UPDATE_AFTER, "a", 5)],
        Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()]),
    )
    schema = Schema.new_builder().column("k", "STRING").column("v", "INT").primary_key("k").build()
    table = env.from_changelog_stream(upserts, schema, ChangelogMode.upsert())
    assert table.to_pandas()["v"].tolist() == [5]


def test_a_stream_of_upserts_with_a_time_is_a_table_of_versions(
    env: StreamTableEnvironment,
) -> None:
    streams = env.stream_environment
    later = [NOON + dt.timedelta(minutes=minutes) for minutes in range(4)]
    rates = streams.from_collection(
        [
            Row.of_kind(RowKind.INSERT, "EUR", 1, later[0]),
            Row.of_kind(RowKind.UPDATE_AFTER, "EUR", 2, later[2]),
        ],
        Types.ROW_NAMED(["k", "rate", "ts"], [Types.STRING(), Types.INT(), Types.SQL_TIMESTAMP()]),
    )
    declared = (
        Schema.new_builder()
        .column("k", "STRING NOT NULL")
        .column("rate", "INT")
        .column("ts", "TIMESTAMP(3)")
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .primary_key("k")
        .build()
    )
    table = env.from_changelog_stream(rates, declared, ChangelogMode.upsert())
    env.create_temporary_view("rates", table)
    orders = streams.from_collection(
        [(1, later[1]), (2, later[3])], Types.TUPLE([Types.INT(), Types.SQL_TIMESTAMP()])
    )
    schema = (
        Schema.new_builder()
        .column("f0", "INT")
        .column("f1", "TIMESTAMP(3)")
        .watermark("f1", "f1 - INTERVAL '1' SECOND")
        .build()
    )
    env.create_temporary_view("orders", orders, schema)
    joined = env.sql_query(
        "SELECT f0, rate FROM (SELECT *, 'EUR' AS c FROM orders) AS orders "
        "JOIN rates FOR SYSTEM_TIME AS OF orders.f1 ON rates.k = orders.c"
    )
    assert sorted(rows(joined)) == [(1, 1), (2, 2)]


def test_fields_of_a_stream_are_named_by_their_place(env: StreamTableEnvironment) -> None:
    table = env.from_data_stream(stream(env), col("t"), col("k"), col("n"), col("p").proctime)
    assert table.get_resolved_schema().get_column_names() == ["t", "k", "n", "p"]
    assert rows(table.select(col("k"), col("n")))[0] == ("a", 1)


def test_table_with_updates_cannot_become_an_insert_only_stream(
    env: StreamTableEnvironment,
) -> None:
    counted = env.sql_query("SELECT word, COUNT(*) AS n FROM words GROUP BY word")
    with pytest.raises(UnsupportedQueryError, match="update changes"):
        env.to_data_stream(counted)
    out = env.to_changelog_stream(counted, None, ChangelogMode.upsert())
    found = [str(row.get_row_kind()) for row in out.execute_and_collect()]
    assert "-U" not in found
    retracted = env.to_retract_stream(counted, Types.ROW([Types.STRING(), Types.LONG()]))
    final: dict[str, int] = {}
    for added, row in retracted.execute_and_collect():
        if added:
            final[row[0]] = row[1]
    assert final == {"to": 2, "be": 1, "or": 1}
