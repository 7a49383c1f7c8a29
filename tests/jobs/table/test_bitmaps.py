"""Bitmaps in programs: what Python sees of them, what prints them, which connectors have them, state that holds them."""

from __future__ import annotations

import pytest
from pyroaring import BitMap

from penstock.sql.errors import ValidationError
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.expressions import col
from penstock.table.udf import udf
from penstock.testing import MiniCluster


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with MiniCluster():
        yield


@pytest.fixture
def tables():
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def values_of(result):
    with result.collect() as rows:
        return [tuple(row) for row in rows]


def test_values_are_bytes_that_other_libraries_read(tables):
    [(data, nothing)] = values_of(
        tables.execute_sql("SELECT BITMAP_BUILD(ARRAY[5, 1, -1]), CAST(NULL AS BITMAP)")
    )
    assert sorted(BitMap.deserialize(data)) == [1, 5, 2**32 - 1]
    assert nothing is None


def test_functions_of_the_program_take_and_give_them(tables):
    doubled = udf(
        lambda data: BitMap(2 * each for each in BitMap.deserialize(data)).serialize(),
        result_type=DataTypes.BITMAP(),
    )
    tables.create_temporary_system_function("doubled", doubled)
    query = "SELECT CAST(doubled(BITMAP_BUILD(ARRAY[1, 2, 4])) AS STRING)"
    assert values_of(tables.execute_sql(query)) == [("{2,4,8}",)]


def test_rows_of_a_program_have_them(tables):
    row = DataTypes.ROW(
        [DataTypes.FIELD("k", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.BITMAP())]
    )
    numbers = [BitMap(range(1, 4)), BitMap([3, 2, 1])]
    table = tables.from_elements([(1, each.serialize()) for each in numbers], row)
    tables.create_temporary_view("t", table)
    found = values_of(tables.execute_sql("SELECT COUNT(DISTINCT b), COUNT(*) FROM t"))
    assert found[-1] == (1, 2)


def test_the_table_api_has_their_functions(tables):
    table = tables.from_elements([(1, [1, 2]), (1, [2, 3]), (2, [7])], ["k", "a"])
    tables.create_temporary_view("given", table)
    table = tables.sql_query("SELECT k, CAST(a AS ARRAY<INT>) AS a, CAST(k AS INT) AS n FROM given")
    built = table.select(col("k"), col("n"), col("a").bitmap_build().alias("b"))
    found = built.group_by(col("k")).select(
        col("k"),
        col("b").bitmap_or_agg().bitmap_to_string(),
        col("b").bitmap_and_cardinality_agg(),
        col("n").bitmap_build_agg().bitmap_to_array(),
    )
    final = {row[0]: row[1:] for row in values_of(found.execute())}
    assert final == {1: ("{1,2,3}", 1, [1]), 2: ("{7}", 1, [2])}


def test_they_are_printed_as_sets(tables, capsys):
    tables.get_config().set("parallelism.default", "1")
    tables.execute_sql(
        "CREATE TABLE out (k INT, b BITMAP, a ARRAY<BITMAP>) WITH ('connector' = 'print')"
    )
    tables.execute_sql(
        "INSERT INTO out SELECT 1, BITMAP_BUILD(ARRAY[-1, 1]), ARRAY[BITMAP_BUILD(ARRAY[2])]"
    ).wait()
    assert capsys.readouterr().out.strip() == "+I[1, {1,4294967295}, [{2}]]"
    tables.execute_sql("SELECT BITMAP_BUILD(ARRAY[1, 2]) AS b").print()
    assert "|                          {1,2} |" in capsys.readouterr().out


@pytest.mark.parametrize(
    "connector", ["'filesystem', 'path' = '/tmp/b', 'format' = 'json'", "'datagen'"]
)
def test_connectors_without_them_are_refused_them(tables, connector):
    tables.execute_sql(f"CREATE TABLE t (b BITMAP NOT NULL) WITH ('connector' = {connector})")
    [row] = values_of(tables.execute_sql("DESCRIBE t"))
    assert row[:3] == ("b", "BITMAP", False)
    with pytest.raises(ValidationError, match=r"column 'b' .* does not support") as caught:
        tables.execute_sql("SELECT * FROM t")
    assert "BITMAP_TO_BYTES" in caught.value.hint


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT b FROM t ORDER BY b LIMIT 1", "cannot order by values of type BITMAP"),
        ("SELECT ROW_NUMBER() OVER (ORDER BY b) FROM t", "cannot order by values of type"),
        ("SELECT MAX(b) FROM t", "MAX does not accept BITMAP"),
        ("SELECT b < b FROM t", "is not ordered"),
        ("SELECT JSON_ARRAYAGG(b) FROM t", "JSON_ARRAYAGG does not accept BITMAP"),
        ("SELECT BITMAP_BUILD_AGG(CAST(1 AS BIGINT)) FROM t", "does not accept BIGINT"),
        ("SELECT BITMAP_OR_AGG(1) FROM t", "BITMAP_OR_AGG does not accept INT"),
    ],
)
def test_unsupported_bitmap_operations_are_rejected(tables, query, message):
    tables.execute_sql("CREATE TABLE t (b BITMAP) WITH ('connector' = 'blackhole')")
    with pytest.raises(ValidationError, match=message):
        tables.sql_query(query)
