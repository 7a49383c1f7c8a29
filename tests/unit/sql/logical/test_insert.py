"""INSERT: which columns are written, with which casts."""

from __future__ import annotations

import pytest

from penstock.sql.errors import SqlError
from penstock.sql.logical.nodes import LogicalProject
from tests.unit.sql.logical.plans import plan, write_of


def written(text: str) -> list[str]:
    node = write_of(text).input
    assert isinstance(node, LogicalProject)
    return [str(each) for each in node.expressions]


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("INSERT INTO loose SELECT price, channel, price FROM bid", ["$0", "$1", "CAST($2 AS DOUBLE)"]),
        ("INSERT INTO loose (c, a) SELECT 1.5, k FROM s", ["CAST($1 AS BIGINT)", "NULL", "CAST($0 AS DOUBLE NOT NULL)"]),
        ("INSERT INTO days PARTITION (d = '2024-01-01') SELECT price, channel FROM bid", ["$0", "'2024-01-01'", "$1"]),
        ("INSERT INTO meta SELECT k, TIMESTAMP '2024-01-01 00:00:00.000' FROM s", ["$0", "$1"]),
    ],
)  # fmt: skip
def test_columns_are_cast_to_what_the_table_has(statement: str, wanted: list[str]) -> None:
    assert written(statement) == wanted


def test_partitions_and_overwrite_come_with_the_write() -> None:
    node = write_of("INSERT OVERWRITE days PARTITION (d = 'x', h = 'y') SELECT price FROM bid")
    assert (node.overwrite, node.partition) == (True, {"d": "x", "h": "y"})


def test_columns_that_fit_are_written_as_they_are() -> None:
    node = write_of("INSERT INTO loose SELECT a, b, c FROM loose")
    assert [each.name for each in node.schema] == ["a", "b", "c"]
    assert not isinstance(node.input, LogicalProject)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO loose SELECT price, channel FROM bid", "the query returns 2 columns, but table `default_catalog`.`default_database`.`loose` expects 3"),
        ("INSERT INTO loose SELECT channel, channel, price FROM bid", "column types of query result and sink 'loose' do not match: column 'a' at position 0 is BIGINT, the query returns STRING"),
        ("INSERT INTO loose (a, d) SELECT price, channel FROM bid", "column 'd' not found in table"),
        ("INSERT INTO loose (a, a) SELECT price, price FROM bid", "duplicate column 'a'"),
        ("INSERT INTO sink (a) SELECT price FROM bid", "column 'b' has no default value and does not allow NULLs"),
        ("INSERT INTO auction (name) SELECT channel FROM bid", "column 'id' has no default value and does not allow NULLs"),
        ("INSERT INTO days PARTITION (d = 'x') (a, d, h) SELECT price, channel, channel FROM bid", "duplicate column 'd'"),
        ("INSERT INTO expensive SELECT price, price FROM bid", "cannot insert into view"),
        ("INSERT INTO days PARTITION (x = 'y') SELECT price, channel, channel FROM bid", "'x' is not a partition column"),
        ("INSERT INTO lose SELECT price FROM bid", "table 'lose' not found"),
        ("INSERT INTO meta (a, o) SELECT k, k FROM s", "column 'o' of table"),
    ],
)  # fmt: skip
def test_mismatching_columns_are_rejected(statement: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan(statement)
    assert message in caught.value.message
