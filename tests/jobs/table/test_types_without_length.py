"""VARCHAR and VARBINARY without a length are STRING and BYTES; CHAR and BINARY are of length 1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.sql.parse.types import data_type_of
from penstock.table import DataTypes, EnvironmentSettings, Schema, TableDescriptor, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import rows

NAMES = {
    "VARCHAR": "STRING",
    "VARCHAR NOT NULL": "STRING NOT NULL",
    "CHAR VARYING": "STRING",
    "CHARACTER VARYING": "STRING",
    "VARCHAR(3)": "VARCHAR(3)",
    "CHAR VARYING(3)": "VARCHAR(3)",
    "VARBINARY": "BYTES",
    "BINARY VARYING": "BYTES",
    "BINARY VARYING(3)": "VARBINARY(3)",
    "CHAR": "CHAR(1)",
    "CHARACTER": "CHAR(1)",
    "BINARY": "BINARY(1)",
    "ARRAY<VARCHAR>": "ARRAY<STRING>",
    "VARCHAR ARRAY": "ARRAY<STRING>",
    "MULTISET<VARBINARY>": "MULTISET<BYTES>",
    "MAP<VARCHAR, CHAR>": "MAP<STRING, CHAR(1)>",
    "ROW<a VARCHAR, b ROW<c VARBINARY>>": "ROW<`a` STRING, `b` ROW<`c` BYTES>>",
}
EXPRESSIONS = {
    "CAST(421 AS VARCHAR)": "421",
    "TRY_CAST(421 AS VARCHAR)": "421",
    "CAST(421 AS CHAR)": "4",
    "CAST(x'0102' AS VARBINARY)": b"\x01\x02",
    "CAST(x'0102' AS BINARY)": b"\x01",
    "CAST(ARRAY['ab'] AS ARRAY<VARCHAR>)": ["ab"],
    "CAST(MAP['ab', 'cd'] AS MAP<VARCHAR, CHAR>)": {"ab": "c"},
    "CAST(ROW('ab', 'cd') AS ROW<a VARCHAR, b CHAR>).a": "ab",
    "CAST(ROW('ab', 'cd') AS ROW<a VARCHAR, b CHAR>).b": "c",
    """JSON_VALUE('{"a": "xyz"}', '$.a' RETURNING VARCHAR)""": "xyz",
}


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    with MiniCluster():
        yield


def batch() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_batch_mode())


def test_names_of_types() -> None:
    def check(case: tuple[str, str]) -> None:
        name, shown = case
        assert str(data_type_of(name)) == shown

    check_all({name: (name, shown) for name, shown in NAMES.items()}, check)


def test_expressions_keep_the_whole_value() -> None:
    [found] = rows(batch().sql_query(f"SELECT {', '.join(EXPRESSIONS)}"))

    def check(case: tuple[object, object]) -> None:
        assert case[0] == case[1]

    check_all(
        dict(zip(EXPRESSIONS, zip(found, EXPRESSIONS.values(), strict=True), strict=True)), check
    )


def test_columns_of_tables() -> None:
    env = batch()
    env.execute_sql(
        "CREATE TABLE t (a VARCHAR, b VARBINARY, c CHAR, d BINARY, e ARRAY<VARCHAR>) WITH ('connector' = 'blackhole')"
    )
    described = [row[1] for row in rows(env.execute_sql("DESCRIBE t"))]
    assert described == ["STRING", "BYTES", "CHAR(1)", "BINARY(1)", "ARRAY<STRING>"]
    schema = Schema.new_builder().column("a", "VARCHAR").column("b", DataTypes.VARCHAR(3)).build()
    env.create_temporary_table(
        "u", TableDescriptor.for_connector("blackhole").schema(schema).build()
    )
    assert [row[1] for row in rows(env.execute_sql("DESCRIBE u"))] == ["STRING", "VARCHAR(3)"]
