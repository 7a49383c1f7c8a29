"""WATERMARK FOR in plans: it is part of the scan, with its options; what cannot be pushed stays an operator of its own."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.common import Configuration, Types
from penstock.common.watermark_strategy import WatermarkAlignment
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import PenstockError
from penstock.sql.connector.watermark_options import WatermarkOptions, watermark_options
from penstock.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableEnvironment,
)
from penstock.table.udf import udf
from tests.builders.cases import check_all

PERIODIC = "watermarkEmitStrategy=[on-periodic]"


def environment(**options: str) -> TableEnvironment:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("_", "."), value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    found = TableEnvironment.create(settings.with_configuration(configuration).build())
    same = udf(lambda n: n, result_type=DataTypes.BIGINT())
    chance = udf(lambda n: n, result_type=DataTypes.BIGINT(), deterministic=False)
    found.create_temporary_system_function("same", same)
    found.create_temporary_system_function("chance", chance)
    return found


def plan(columns: str, options: str = "", hint: str = "", *, select: str = "*") -> str:
    """The physical plan of a query over a table of `datagen` or Kafka."""
    tables = environment()
    kafka = "METADATA" in columns
    connector = (
        "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'x:1', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset'"
        if kafka
        else "'connector' = 'datagen'"
    )
    tables.execute_sql(f"CREATE TABLE r ({columns}) WITH ({connector}{options})")
    text = tables.explain_sql(f"SELECT {select} FROM r{hint}")
    return text.split("== Optimized Execution Plan ==\n")[1].strip()


STORED = "id INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '10' SECOND"
AT = "default_catalog, default_database, r"
WAIT = "(t - 10000:INTERVAL)"
ON_EVENT = ", 'scan.watermark.emit.strategy' = 'on-event'"
ALIGNED = ", 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min'"
# Columns, options, hint, what is selected: the plan.
PLANS: dict[str, tuple[tuple[str, str, str, str], str]] = {
    "a stored time": (
        (STORED, "", "", "*"),
        f"TableSourceScan(table=[[{AT}, watermark=[{WAIT}], {PERIODIC}]], fields=[id, t])",
    ),
    "few columns": (
        (STORED, "", "", "t"),
        f"TableSourceScan(table=[[{AT}, project=[t], watermark=[{WAIT}], {PERIODIC}]], fields=[t])",
    ),
    "a condition": (
        (STORED, "", " WHERE id > 3", "id"),
        (
            "Calc(select=[id], where=[(id > 3)])\n"
            f"+- TableSourceScan(table=[[{AT}, watermark=[{WAIT}], {PERIODIC}]], fields=[id, t])"
        ),
    ),
    "a computed time": (
        ("x BIGINT, t AS TO_TIMESTAMP_LTZ(x, 3), WATERMARK FOR t AS t", "", "", "t"),
        (
            "Calc(select=[TO_TIMESTAMP_LTZ(x, 3) AS t])\n"
            f"+- TableSourceScan(table=[[{AT}, watermark=[TO_TIMESTAMP_LTZ(x, 3)], {PERIODIC}]], fields=[x])"
        ),
    ),
    "a time of a user's function": (
        ("x BIGINT, t AS TO_TIMESTAMP_LTZ(same(x), 3), WATERMARK FOR t AS t", "", "", "t"),
        (
            "Calc(select=[TO_TIMESTAMP_LTZ(same(x), 3) AS t])\n"
            f"+- TableSourceScan(table=[[{AT}, watermark=[TO_TIMESTAMP_LTZ(same(x), 3)], {PERIODIC}]], fields=[x])"
        ),
    ),
    "a time that is another each time": (
        ("x BIGINT, t AS TO_TIMESTAMP_LTZ(chance(x), 3), WATERMARK FOR t AS t", "", "", "t"),
        (
            "WatermarkAssigner(rowtime=[t], watermark=[t])\n"
            "+- Calc(select=[TO_TIMESTAMP_LTZ(chance(x), 3) AS t])\n"
            f"   +- TableSourceScan(table=[[{AT}]], fields=[x])"
        ),
    ),
    "a metadata time": (
        ("id INT, t TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR t AS t", "", "", "t"),
        f"TableSourceScan(table=[[{AT}, project=[t], watermark=[t], {PERIODIC}]], fields=[t])",
    ),
    "options": (
        (STORED, f"{ON_EVENT}{ALIGNED}, 'scan.watermark.idle-timeout' = '3 s'", "", "*"),
        (
            f"TableSourceScan(table=[[{AT}, watermark=[{WAIT}], idletimeout=[3000], watermarkEmitStrategy=[on-event], gap=[1], "
            "watermarkAlignment=[g, 60000 ms, 1000 ms]]], fields=[id, t])"
        ),
    ),
    "a hint": (
        (STORED, ON_EVENT, " /*+ OPTIONS('scan.watermark.emit.strategy' = 'on-periodic') */", "*"),
        f"TableSourceScan(table=[[{AT}, watermark=[{WAIT}], {PERIODIC}]], fields=[id, t])",
    ),
}


def test_the_plan_shows_the_watermark_inside_the_scan() -> None:
    def check(case: tuple[tuple[str, str, str, str], str]) -> None:
        (columns, options, hint, select), wanted = case
        assert plan(columns, options, hint, select=select) == wanted

    check_all(PLANS, check)


def test_a_watermark_of_a_stream_stays_an_operator() -> None:
    streams = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(streams)
    schema = (
        Schema.new_builder()
        .column_by_expression("t", "TO_TIMESTAMP_LTZ(f0, 3)")
        .watermark("t", "t - INTERVAL '1' SECOND")
        .build()
    )
    table = tables.from_data_stream(streams.from_collection([1, 2], Types.LONG()), schema)
    found = table.explain().split("== Optimized Execution Plan ==\n")[1]
    assert found.startswith("WatermarkAssigner(rowtime=[t], watermark=[(t - 1000:INTERVAL)])\n")


def test_the_timeout_of_a_table_counts_before_that_of_the_session() -> None:
    for own, wanted in (("", 5000), (", 'scan.watermark.idle-timeout' = '2 s'", 2000)):
        tables = environment(**{"table.exec.source.idle-timeout": "5 s"})
        tables.execute_sql(f"CREATE TABLE r ({STORED}) WITH ('connector' = 'datagen'{own})")
        assert f"idletimeout=[{wanted}]" in tables.explain_sql("SELECT * FROM r")


GIVEN: dict[str, tuple[dict[str, str], WatermarkOptions]] = {
    "none": ({"topic": "x"}, WatermarkOptions()),
    "by rows": ({"emit.strategy": "ON-EVENT", "emit.on-event.gap": "5"}, WatermarkOptions(gap=5)),
    "a gap alone": ({"emit.on-event.gap": "5"}, WatermarkOptions()),
    "alignment": (
        {"alignment.group": "g", "alignment.max-drift": "2 s", "alignment.update-interval": "1 s"},
        WatermarkOptions(watermark_alignment=("g", 2000, 1000)),
    ),
    "idle": ({"idle-timeout": "2 min"}, WatermarkOptions(idle_timeout_ms=120_000)),
    "never idle": ({"idle-timeout": "0 s"}, WatermarkOptions(idle_timeout_ms=0)),
}
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "unknown": ({"idel-timeout": "1 s"}, "did you mean 'scan.watermark.idle-timeout'"),
    "strategy": ({"emit.strategy": "often"}, "valid values are on-periodic, on-event"),
    "gap": ({"emit.on-event.gap": "0"}, "at least 1"),
    "no number": ({"emit.on-event.gap": "x"}, "invalid value 'x'"),
    "no drift": ({"alignment.group": "g"}, "'scan.watermark.alignment.max-drift' must be set"),
    "no group": ({"alignment.max-drift": "1 s"}, "'scan.watermark.alignment.group' and"),
    "interval alone": ({"alignment.update-interval": "1 s"}, "must be set to align watermarks"),
}


def named(given: dict[str, str]) -> dict[str, str]:
    return {key if key == "topic" else f"scan.watermark.{key}": each for key, each in given.items()}


def test_options_are_read() -> None:
    def check(case: tuple[dict[str, str], WatermarkOptions]) -> None:
        given, wanted = case
        assert watermark_options(named(given), "t") == wanted

    check_all(GIVEN, check)


def test_options_that_are_wrong_are_refused_also_by_a_table_that_is_written() -> None:
    def check(case: tuple[dict[str, str], str]) -> None:
        given, message = case
        written = ", ".join(f"'{key}' = '{each}'" for key, each in named(given).items())
        for connector, statement in (
            ("datagen", "SELECT * FROM r"),
            ("blackhole", "INSERT INTO r VALUES (1, CURRENT_TIMESTAMP)"),
        ):
            tables = environment()
            options = f"'connector' = '{connector}', {written}"
            tables.execute_sql(f"CREATE TABLE r ({STORED}) WITH ({options})")
            with pytest.raises(PenstockError) as refused:
                tables.explain_sql(statement)
            assert message in str(refused.value)

    check_all(REFUSED, check)


def test_a_strategy_says_who_is_idle_and_who_waits() -> None:
    options = WatermarkOptions(idle_timeout_ms=70, watermark_alignment=("g", 20, 10))
    strategy = options.strategy(5)
    assert strategy.idle_timeout_ms == 70
    assert strategy.watermark_alignment == WatermarkAlignment("g", 20, 10)
    assert WatermarkOptions().strategy(5).idle_timeout_ms == 5
    assert WatermarkOptions().strategy(0).idle_timeout_ms is None
    assert WatermarkOptions(idle_timeout_ms=0).strategy(5).idle_timeout_ms is None
    assert not any("idle" in each for each in WatermarkOptions(idle_timeout_ms=0).shown(5))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("id INT, t TIMESTAMP(3)", "does not declare a WATERMARK"),
        ("t AS CURRENT_TIMESTAMP, id INT, WATERMARK FOR t AS t", "is not deterministic"),
        (
            "t AS LOCALTIMESTAMP, id INT, s TIMESTAMP(3), WATERMARK FOR t AS s",
            "is not deterministic",
        ),
    ],
)
def test_options_without_effect_are_reported(columns: str, why: str, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "penstock.table"):
        plan(columns, ", 'scan.watermark.idle-timeout' = '1 s'", select="id, t")
    [message] = [each.getMessage() for each in caplog.records if each.name == "penstock.table"]
    assert "scan.watermark.idle-timeout has no effect" in message
    assert why in message
