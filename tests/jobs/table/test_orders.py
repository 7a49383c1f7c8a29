"""Queries in which the order of rows counts: Top-N, OVER, ORDER BY, MATCH_RECOGNIZE; run as whole jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import RowKind
from penstock.sql.errors import ValidationError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster

# symbol, second, price, tax
TICKER = [
    ("ACME", 0, 12, 1),
    ("ACME", 1, 17, 2),
    ("ACME", 2, 19, 1),
    ("ACME", 3, 21, 3),
    ("ACME", 4, 25, 2),
    ("ACME", 5, 18, 1),
    ("ACME", 6, 15, 1),
    ("ACME", 7, 14, 2),
    ("ACME", 8, 24, 2),
    ("ACME", 9, 25, 2),
    ("ACME", 10, 19, 1),
    ("XYZ", 3, 7, 1),
    ("XYZ", 4, 5, 1),
    ("XYZ", 11, 9, 1),
]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ticker")
    lines = [
        f"{symbol},{price},{tax},2024-04-01 10:00:{second:02d}"
        for symbol, second, price, tax in sorted(TICKER, key=lambda row: row[1])
    ]
    (path / "ticker.csv").write_text("\n".join(lines) + "\n")
    return path


def _environment(files: Path, *, batch: bool = False, parallelism: int = 2) -> TableEnvironment:
    builder = EnvironmentSettings.new_instance()
    settings = (builder.in_batch_mode() if batch else builder.in_streaming_mode()).build()
    env = TableEnvironment.create(settings)
    env.get_config().set("parallelism.default", str(parallelism))
    env.execute_sql(
        f"""CREATE TABLE ticker (
          symbol STRING, price INT, tax INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{files}', 'format' = 'csv')"""
    )
    return env


def _table(env: TableEnvironment, sql: str) -> list[tuple[Any, ...]]:
    """The table that a query leaves, as sorted rows; times as their seconds."""
    table: Counter[Any] = Counter()
    with env.execute_sql(sql).collect() as rows:
        for row in rows:
            comes = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
            plain = tuple(getattr(value, "second", value) for value in row)
            table[plain] += 1 if comes else -1
    assert not [row for row, count in table.items() if count < 0]
    return sorted(table.elements(), key=repr)


OVER = {
    "the two before, by time": (
        """SELECT symbol, at, SUM(price) OVER w, COUNT(*) OVER w, LAG(price) OVER w FROM ticker
        WINDOW w AS (PARTITION BY symbol ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)""",
        lambda before, row: (
            sum(each[2] for each in [*before[-2:], row]),
            min(len(before), 2) + 1,
            before[-1][2] if before else None,
        ),
    ),
    "two seconds": (
        """SELECT symbol, at, MAX(price) OVER w, MIN(price) OVER w FROM ticker
        WINDOW w AS (PARTITION BY symbol ORDER BY at RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW)""",
        lambda before, row: (
            max([row[2], *(each[2] for each in before if each[1] >= row[1] - 2)]),
            min([row[2], *(each[2] for each in before if each[1] >= row[1] - 2)]),
        ),
    ),
    "all before": (
        """SELECT symbol, at, COUNT(*) OVER w, ROW_NUMBER() OVER w, FIRST_VALUE(price) OVER w FROM ticker
        WINDOW w AS (PARTITION BY symbol ORDER BY at)""",
        lambda before, row: (len(before) + 1, len(before) + 1, [*before, row][0][2]),
    ),
    "before by price": (
        """SELECT symbol, at, SUM(price) OVER (PARTITION BY symbol ORDER BY at DESC, price
        ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM ticker""",
        lambda before, row: (sum(each[2] for each in [*before[-1:], row]),),
    ),
}


@pytest.mark.parametrize("batch", [False, True], ids=["streaming", "batch"])
@pytest.mark.parametrize(("sql", "values"), OVER.values(), ids=OVER)
def test_over(files: Path, sql: str, values: Any, batch: bool) -> None:
    expected = []
    for symbol in ("ACME", "XYZ"):
        rows = [row for row in TICKER if row[0] == symbol]
        expected += [(*row[:2], *values(rows[:at], row)) for at, row in enumerate(rows)]
    assert _table(_environment(files, batch=batch), sql) == sorted(expected, key=repr)


def test_days_are_as_far_apart_as_they_are(files: Path) -> None:
    sql = """SELECT day, SUM(n) OVER (ORDER BY day RANGE BETWEEN INTERVAL '2' DAY PRECEDING AND CURRENT ROW) FROM (
      VALUES (DATE '2024-01-01', 1), (DATE '2024-01-02', 2), (DATE '2024-01-05', 3), (DATE '2024-01-07', 4)) AS v (day, n)"""
    found = _table(_environment(files), sql.replace("day", "`day`"))
    assert [row[1] for row in found] == [1, 3, 3, 7]


def test_over_a_changing_table_is_updated(files: Path) -> None:
    sql = """SELECT symbol, most, SUM(most) OVER (ORDER BY symbol ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    FROM (SELECT symbol, MAX(price) AS most FROM ticker GROUP BY symbol)"""
    assert _table(_environment(files), sql) == [("ACME", 25, 25), ("XYZ", 9, 34)]


@pytest.mark.parametrize("batch", [False, True], ids=["streaming", "batch"])
def test_the_first_rows_of_each_key(files: Path, batch: bool) -> None:
    sql = """SELECT symbol, price, place FROM (
      SELECT *, {}() OVER (PARTITION BY symbol ORDER BY price DESC) AS place FROM ticker) WHERE place <= 2"""
    env = _environment(files, batch=batch)
    assert _table(env, sql.format("ROW_NUMBER")) == [
        ("ACME", 25, 1),
        ("ACME", 25, 2),
        ("XYZ", 7, 2),
        ("XYZ", 9, 1),
    ]
    assert _table(env, sql.format("DENSE_RANK")) == [
        ("ACME", 24, 2),
        ("ACME", 25, 1),
        ("ACME", 25, 1),
        ("XYZ", 7, 2),
        ("XYZ", 9, 1),
    ]


def test_the_first_rows_of_a_changing_table(files: Path) -> None:
    sql = """SELECT symbol, n FROM (SELECT symbol, COUNT(*) AS n FROM ticker GROUP BY symbol) ORDER BY n DESC LIMIT 1"""
    assert _table(_environment(files), sql) == [("ACME", 11)]


def test_the_first_rows_of_windows(files: Path) -> None:
    sql = """SELECT window_end, symbol, price, place FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC, at) AS place
      FROM TABLE(TUMBLE(TABLE ticker, DESCRIPTOR(at), INTERVAL '5' SECOND))) WHERE place <= 2"""
    assert _table(_environment(files), sql) == [
        (10, "ACME", 24, 2),
        (10, "ACME", 25, 1),
        (15, "ACME", 19, 1),
        (15, "XYZ", 9, 2),
        (5, "ACME", 21, 2),
        (5, "ACME", 25, 1),
    ]


def test_rows_in_the_order_of_time(files: Path) -> None:
    with (
        _environment(files)
        .execute_sql("SELECT at, price FROM ticker ORDER BY at, price")
        .collect() as rows
    ):
        found = [(row[0].second, row[1]) for row in rows]
    assert found == sorted((row[1], row[2]) for row in TICKER)


MATCHES = {
    "a price that falls and rises": (
        """MEASURES START_ROW.at AS start_at, LAST(DOWN.at) AS bottom, LAST(UP.at) AS end_at
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP PATTERN (START_ROW DOWN+ UP)
        DEFINE DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < START_ROW.price) OR DOWN.price < LAST(DOWN.price, 1),
          UP AS UP.price > LAST(DOWN.price, 1)""",
        [("ACME", 4, 7, 8)],
    ),
    "as long as the mean is small": (
        """MEASURES FIRST(A.at) AS start_at, LAST(A.at) AS end_at, AVG(A.price) AS mean, COUNT(A.*) AS n
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) DEFINE A AS AVG(A.price) < 15""",
        [("ACME", 0, 1, 14, 2), ("ACME", 7, 7, 14, 1)],
    ),
    "what comes soon after": (
        """MEASURES A.price AS first_price, B.price AS second_price, MATCH_ROWTIME() AS at
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) WITHIN INTERVAL '3' SECOND
        DEFINE A AS price < 8 OR price > 24, B AS B.price + 0 <> A.price""",
        [("ACME", 25, 18, 5), ("ACME", 25, 19, 10), ("XYZ", 7, 5, 4)],
    ),
}


@pytest.mark.parametrize(("clauses", "expected"), MATCHES.values(), ids=MATCHES)
def test_match_recognize(files: Path, clauses: str, expected: list[Any]) -> None:
    sql = f"SELECT * FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY at {clauses}) AS m"
    assert _table(_environment(files), sql) == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(A | B) C", "alternatives"),
        ("A (B C)+? D", "quantifiers of groups"),
        ("PERMUTE(A, B) C", "PERMUTE"),
        ("A {- B -} C", "exclusions"),
        ("A B?? C", r"B\?\?"),
    ],
)
def test_patterns_without_an_answer_are_refused(files: Path, pattern: str, reason: str) -> None:
    sql = f"""SELECT * FROM ticker MATCH_RECOGNIZE (ORDER BY at MEASURES A.price AS p
    PATTERN ({pattern}) DEFINE A AS price > 1) AS m"""
    with pytest.raises(ValidationError, match=reason):
        _environment(files).execute_sql(sql)
