"""Functions over pandas: values of all types, and the names of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from penstock.common import Row
from penstock.table import DataTypes, EnvironmentSettings, Table, TableEnvironment
from penstock.table.expressions import col
from penstock.table.udf import udaf, udf
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import rows

#: Type: a value of it
TYPES = {
    "TINYINT": "CAST(1 AS TINYINT)",
    "SMALLINT": "CAST(1 AS SMALLINT)",
    "INT": "1",
    "BIGINT": "CAST(1 AS BIGINT)",
    "FLOAT": "CAST(1.5 AS FLOAT)",
    "DOUBLE": "CAST(1.5 AS DOUBLE)",
    "DECIMAL(10, 2)": "CAST(1.5 AS DECIMAL(10, 2))",
    "BOOLEAN": "TRUE",
    "STRING": "'a'",
    "CHAR(1)": "'a'",
    "BYTES": "CAST(X'01' AS BYTES)",
    "DATE": "DATE '2024-01-02'",
    "TIME(3)": "CAST('01:02:03.123' AS TIME(3))",
    "TIMESTAMP(3)": "TIMESTAMP '2024-01-02 01:02:03.123'",
    "TIMESTAMP(9)": "TIMESTAMP '2024-01-02 01:02:03.123456789'",
    "TIMESTAMP_LTZ(3)": "TO_TIMESTAMP_LTZ(1000, 3)",
    "INTERVAL SECOND(3)": "INTERVAL '1' SECOND",
    "INTERVAL MONTH": "INTERVAL '1' MONTH",
    "ARRAY<INT>": "ARRAY[1, 2]",
    "ARRAY<DATE>": "ARRAY[DATE '2024-01-02']",
    "ARRAY<DECIMAL(10, 2)>": "ARRAY[CAST(1.5 AS DECIMAL(10, 2))]",
    "ARRAY<ARRAY<INT>>": "ARRAY[ARRAY[1], ARRAY[2, 3]]",
    "ARRAY<ROW<a INT>>": "ARRAY[CAST(ROW(1) AS ROW<a INT>)]",
    "MAP<STRING, INT>": "MAP['a', 1]",
    "MAP<STRING, DECIMAL(10, 2)>": "MAP['a', CAST(1.5 AS DECIMAL(10, 2))]",
    "ROW<a INT, b STRING>": "ROW(1, 'a')",
    "ROW<a ROW<b INT>>": "ROW(ROW(1))",
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


def test_values_of_all_types_go_through_pandas_and_back(env: TableEnvironment) -> None:
    def check(case: tuple[str, str]) -> None:
        kind, value = case
        same = udf(lambda series: series, result_type=kind, func_type="pandas")
        env.create_temporary_function("same", same)
        try:
            [found] = rows(env.sql_query(f"SELECT v, same(v) FROM (SELECT {value} AS v)"))
            assert found[0] == found[1]
            if not kind.startswith("ROW"):  # a DataFrame does not show which rows are NULL
                both = f"SELECT same(v) FROM (SELECT {value} AS v UNION ALL SELECT CAST(NULL AS {kind}))"
                assert [row[0] for row in rows(env.sql_query(both))] == [found[0], None]
        finally:
            env.drop_temporary_function("same")

    check_all({kind: (kind, value) for kind, value in TYPES.items()}, check)


def test_null_in_rows_of_rows_goes_through_pandas_and_back(env: TableEnvironment) -> None:
    kind = "ROW<a ROW<b INT, c BIGINT>, d ARRAY<INT>, e MAP<STRING, INT>>"
    env.create_temporary_function(
        "same", udf(lambda frame: frame, result_type=kind, func_type="pandas")
    )
    given = [
        "ROW(ROW(1, NULL), ARRAY[1, NULL], MAP['k', 1])",
        "ROW(ROW(NULL, 9007199254740993), NULL, NULL)",
    ]
    values = " UNION ALL ".join(f"SELECT CAST({each} AS {kind}) AS v" for each in given)
    found = rows(env.sql_query(f"SELECT v, same(v) FROM ({values})"))
    assert len(found) == 2
    assert all(before == after for before, after in found)
    nothing = rows(env.sql_query(f"SELECT same(v) FROM (SELECT CAST(NULL AS {kind}) AS v)"))
    assert nothing == [(Row(None, None, None),)]


def test_a_row_is_a_data_frame_with_the_names_of_its_fields(env: TableEnvironment) -> None:
    added = udf(lambda frame: frame["a"] + frame["b"], result_type="INT", func_type="pandas")
    env.create_temporary_function("added", added)
    query = "SELECT added(v) FROM (SELECT CAST(ROW(1, 2) AS ROW<a INT, b INT>) AS v)"
    assert rows(env.sql_query(query)) == [(3,)]


def test_map_and_aggregate_over_pandas_know_the_columns(env: TableEnvironment) -> None:
    table = env.from_elements([(1, 10), (2, 20)], ["id", "price"])
    kind = DataTypes.ROW(
        [DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("twice", DataTypes.BIGINT())]
    )

    def twice(frame: Any) -> Any:
        return pd.DataFrame({"id": frame["id"], "twice": frame["price"] * 2})

    mapped = table.map(udf(twice, result_type=kind, func_type="pandas"))
    assert mapped.get_resolved_schema().get_column_names() == ["id", "twice"]
    assert rows(mapped) == [(1, 20), (2, 40)]
    total = udaf(lambda frame: frame["price"].sum(), result_type="BIGINT", func_type="pandas")
    assert rows(table.aggregate(total.alias("total")).select(col("total"))) == [(30,)]
    by_id = table.group_by(col("id")).aggregate(total.alias("total"))
    assert sorted(rows(by_id.select(col("id"), col("total")))) == [(1, 10), (2, 20)]
    pair = udaf(
        lambda frame: (frame.id.max(), frame.price.max()), result_type=kind, func_type="pandas"
    )
    most = table.aggregate(pair.alias("a", "b")).select(col("a"), col("b"))
    assert rows(most) == [(2, 20)]


def test_all_columns_of_an_aggregate_have_the_names_of_flink(env: TableEnvironment) -> None:
    table = env.from_elements([(1, 10), (2, 20)], ["id", "price"])
    kind = DataTypes.ROW(
        [DataTypes.FIELD("p", DataTypes.BIGINT()), DataTypes.FIELD("q", DataTypes.BIGINT())]
    )

    def pair() -> Any:  # an alias belongs to the function itself, as in PyFlink
        return udaf(
            lambda frame: (frame.id.max(), frame.price.max()), result_type=kind, func_type="pandas"
        )

    grouped = table.group_by(col("id"))
    cases: dict[str, tuple[Table, list[str], list[tuple[int, ...]]]] = {
        "a row": (
            table.aggregate(pair()).select(col("*")),
            ["TMP_0$p", "TMP_0$q"],
            [(2, 20)],
        ),
        "a row with aliases": (
            grouped.aggregate(pair().alias("u", "v")).select(col("*")),
            ["id", "u", "v"],
            [(1, 1, 10), (2, 2, 20)],
        ),
        "a value": (
            grouped.aggregate(col("price").sum).select(col("*")),
            ["id", "TMP_0"],
            [(1, 10), (2, 20)],
        ),
        "by name": (
            grouped.aggregate(pair()).select(col("TMP_0$q"), col("id")),
            ["TMP_0$q", "id"],
            [(10, 1), (20, 2)],
        ),
    }

    def check(case: tuple[Table, list[str], list[tuple[int, ...]]]) -> None:
        made, names, expected = case
        assert made.get_resolved_schema().get_column_names() == names
        assert sorted(rows(made)) == expected

    check_all(cases, check)
