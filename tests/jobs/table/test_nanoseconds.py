"""TIMESTAMP(9) and TIMESTAMP_LTZ(9) keep their nanoseconds everywhere."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from penstock.common import Row
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import rows

FINE = "TIMESTAMP '2024-01-01 00:00:00.123456789'"
MOMENT = pd.Timestamp("2024-01-01 00:00:00.123456789")
SECOND = pd.Timestamp("2024-01-01 00:00:01.123456789")
#: What Flink 2.3 answers, where it is a value that SQL shows
EXPRESSIONS: dict[str, Any] = {
    FINE: MOMENT,
    "CAST('2024-01-01 00:00:00.123456789' AS TIMESTAMP(9))": MOMENT,
    "CAST('2024-1-1 00:00:00.123456789' AS TIMESTAMP(9))": MOMENT,
    "TRY_CAST('2024-01-01 00:00:00.123456789' AS TIMESTAMP(9))": MOMENT,
    f"CAST({FINE} AS STRING)": "2024-01-01 00:00:00.123456789",
    f"CAST({FINE} AS TIMESTAMP_LTZ(9))": MOMENT.tz_localize("UTC"),
    f"CAST(CAST({FINE} AS TIMESTAMP_LTZ(9)) AS STRING)": "2024-01-01 00:00:00.123456789",
    "CAST('2024-01-01 02:00:00.123456789+02:00' AS TIMESTAMP_LTZ(9))": MOMENT.tz_localize("UTC"),
    f"CAST({FINE} AS TIMESTAMP(8))": pd.Timestamp("2024-01-01 00:00:00.123456780"),
    f"CAST({FINE} AS TIMESTAMP(6))": dt.datetime(2024, 1, 1, 0, 0, 0, 123456),
    f"{FINE} + INTERVAL '1' SECOND": SECOND,
    f"{FINE} + INTERVAL '1' MONTH": pd.Timestamp("2024-02-01 00:00:00.123456789"),
    f"{FINE} - INTERVAL '1' MONTH": pd.Timestamp("2023-12-01 00:00:00.123456789"),
    f"TIMESTAMPADD(SECOND, 1, {FINE})": SECOND,
    f"DATE_FORMAT({FINE}, 'ss.SSSSSSSSS')": "00.123456789",
    f"DATE_FORMAT({FINE}, 'kk:n')": "24:123456789",
    f"EXTRACT(NANOSECOND FROM {FINE})": 123456789,
    f"FLOOR({FINE} TO SECOND)": dt.datetime(2024, 1, 1),
    f"CEIL({FINE} TO SECOND)": dt.datetime(2024, 1, 1, 0, 0, 1),
    f"{FINE} = TIMESTAMP '2024-01-01 00:00:00.123456788'": False,
    f"{FINE} > TIMESTAMP '2024-01-01 00:00:00.123456788'": True,
    f"GREATEST({FINE}, TIMESTAMP '2024-01-01 00:00:00.123456788')": MOMENT,
    f"COALESCE(CAST(NULL AS TIMESTAMP(9)), {FINE})": MOMENT,
    f"CASE WHEN n > 0 THEN {FINE} END": MOMENT,
    f"ARRAY[{FINE}]": [MOMENT],
    f"ARRAY_CONTAINS(ARRAY[{FINE}], {FINE})": True,
    f"ARRAY_DISTINCT(ARRAY[{FINE}, TIMESTAMP '2024-01-01 00:00:00.123456788'])": [
        MOMENT,
        pd.Timestamp("2024-01-01 00:00:00.123456788"),
    ],
    f"ROW({FINE})": Row(MOMENT),
    f"MAP['k', {FINE}]": {"k": MOMENT},
    f"CAST(ROW({FINE}) AS STRING)": "(2024-01-01 00:00:00.123456789)",
    f"CAST(ARRAY[{FINE}] AS STRING)": "[2024-01-01 00:00:00.123456789]",
    f"JSON_STRING({FINE})": '"2024-01-01T00:00:00.123456789"',
    f"JSON_OBJECT('a' VALUE {FINE})": '{"a":"2024-01-01T00:00:00.123456789"}',
    f"later({FINE})": SECOND,
}
AGGREGATES: dict[str, Any] = {
    "MAX(t)": MOMENT,
    "MIN(t)": MOMENT,
    "LAST_VALUE(t)": MOMENT,
    "ARRAY_AGG(t)": [MOMENT],
    "COLLECT(t)": {MOMENT: 1},
    "COUNT(DISTINCT t)": 1,
}


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture
def env() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.get_config().set("parallelism.default", "1")
    return made


def is_same(case: tuple[Any, Any]) -> None:
    found, wanted = case
    assert found == wanted


def test_expressions_keep_nanoseconds(env: TableEnvironment) -> None:
    later = udf(lambda at: at + pd.Timedelta(seconds=1), result_type=DataTypes.TIMESTAMP(9))
    env.create_temporary_function("later", later)
    [found] = env.execute_sql(
        f"SELECT {', '.join(EXPRESSIONS)} FROM (VALUES (1)) AS t(n)"
    ).collect()
    check_all(
        dict(zip(EXPRESSIONS, zip(found, EXPRESSIONS.values(), strict=True), strict=True)), is_same
    )


def test_aggregates_keep_nanoseconds(env: TableEnvironment) -> None:
    [found] = rows(env.sql_query(f"SELECT {', '.join(AGGREGATES)} FROM (VALUES ({FINE})) AS v(t)"))
    check_all(
        dict(zip(AGGREGATES, zip(found, AGGREGATES.values(), strict=True), strict=True)), is_same
    )
    grouped = env.sql_query(
        f"SELECT t, COUNT(*) FROM (VALUES ({FINE}), ({FINE}), (TIMESTAMP '2024-01-01 00:00:00.123456788')) AS v(t) GROUP BY t"
    )
    assert sorted(rows(grouped)) == [
        (pd.Timestamp("2024-01-01 00:00:00.123456788"), 1),
        (MOMENT, 2),
    ]


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "orc"])
def test_files_keep_nanoseconds(env: TableEnvironment, tmp_path: Path, form: str) -> None:
    nested = "" if form == "csv" else ", r ROW<x TIMESTAMP(9)>, l ARRAY<TIMESTAMP(9)>"
    env.execute_sql(
        f"CREATE TABLE t (a TIMESTAMP(9), b TIMESTAMP_LTZ(9), c TIMESTAMP(3){nested}) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / form}', 'format' = '{form}')"
    )
    more = "" if form == "csv" else f", ROW({FINE}), ARRAY[{FINE}]"
    env.execute_sql(
        f"INSERT INTO t SELECT {FINE}, CAST({FINE} AS TIMESTAMP_LTZ(9)), CAST({FINE} AS TIMESTAMP(3)){more}"
    ).wait()
    [found] = env.execute_sql("SELECT * FROM t").collect()
    values = [MOMENT, MOMENT.tz_localize("UTC"), dt.datetime(2024, 1, 1, 0, 0, 0, 123000)]
    assert list(found) == values + ([] if form == "csv" else [Row(MOMENT), [MOMENT]])


def test_programs_give_and_get_nanoseconds(
    env: TableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    table = env.from_elements(
        [(MOMENT,)], DataTypes.ROW([DataTypes.FIELD("t", DataTypes.TIMESTAMP(9))])
    )
    assert rows(table) == [(MOMENT,)]
    assert table.to_pandas()["t"].tolist() == [MOMENT]
    assert rows(env.from_pandas(pd.DataFrame({"t": [MOMENT]}))) == [(MOMENT,)]
    table.execute().print()
    assert "2024-01-01 00:00:00.123456789" in capsys.readouterr().out


@pytest.mark.parametrize("year", ["1500", "9999"])
def test_years_that_nanoseconds_do_not_reach_are_refused(env: TableEnvironment, year: str) -> None:
    for operand in (f"'{year}-01-01 00:00:00'", f"CAST('{year}-01-01 00:00:00' AS TIMESTAMP(6))"):
        with pytest.raises(Exception, match=r"cannot cast|out of range for nanosecond"):
            rows(env.sql_query(f"SELECT CAST({operand} AS TIMESTAMP(9))"))
    assert rows(env.sql_query(f"SELECT TRY_CAST('{year}-01-01 00:00:00' AS TIMESTAMP(9))")) == [
        (None,)
    ]
