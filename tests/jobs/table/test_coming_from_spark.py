"""The page for who comes from Flink's or Spark's SQL: what it says to write is run."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from penstock.client.local_cluster import LocalCluster
from penstock.errors import PenstockError
from penstock.sql.parse.parser import parse
from penstock.table import EnvironmentSettings, TableEnvironment

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "from-flink-and-spark-sql.md"
ROWS = "(VALUES (7, 2, 'x', ARRAY[5, 6])) AS t(a, b, j, xs)"
T = """CREATE TABLE t (k STRING, x INT, xs ARRAY<INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen')"""

# What the page says to write -> a statement with it, and the rows that it gives; None: it is planned only.
WRITTEN: dict[str, tuple[str, list[object] | None]] = {
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES))": ("SELECT window_end, COUNT(*) {} GROUP BY window_start, window_end", None),
    "GROUP BY window_start, window_end": ("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) {}", None),
    "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND": ("CREATE TEMPORARY TABLE w (ts TIMESTAMP(3), {}) WITH ('connector' = 'datagen')", None),
    "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTES))": ("SELECT k, COUNT(*) FROM {} GROUP BY k, window_start, window_end", None),
    "SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) WHERE n = 1": ("{}", None),
    "CROSS JOIN UNNEST(xs) AS u(x)": ("SELECT u.x FROM " + ROWS + " {}", [5, 6]),
    "WHERE EXISTS (...)": ("SELECT k FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.x = t.x)", None),
    "WHERE NOT EXISTS (...)": ("SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM t AS u WHERE u.x = t.x)", None),
    "IN": ("SELECT k FROM t WHERE x IN (SELECT x FROM t WHERE x > 1)", None),
    "CREATE TABLE t (...) WITH ('connector' = 'filesystem', 'path' = '...', 'format' = 'parquet')": ("CREATE TEMPORARY TABLE f (a INT) WITH ('connector' = 'filesystem', 'path' = '/tmp/none', 'format' = 'parquet')", None),
    "INTERVAL 5 MINUTES": ("SELECT TIMESTAMP '2024-01-01 00:00:00' + {}", [dt.datetime(2024, 1, 1, 0, 5)]),
    "INTERVAL '5' MINUTES": ("SELECT TIMESTAMP '2024-01-01 00:00:00' + {}", [dt.datetime(2024, 1, 1, 0, 5)]),
    "CAST(x AS INT)": ("SELECT {} FROM (VALUES ('5')) AS v(x)", [5]),
    "TRY_CAST": ("SELECT {}(j AS INT) FROM " + ROWS, [None]),
    "7 / 2.0": ("SELECT CAST({} AS DOUBLE)", [3.5]),
    "a / b": ("SELECT {} FROM " + ROWS, [3]),
    "a IS NOT DISTINCT FROM b": ("SELECT {} FROM " + ROWS, [False]),
    "REGEXP(a, b)": ("SELECT {} FROM (VALUES ('abc', 'b')) AS v(a, b)", [True]),
    "xs[1]": ("SELECT {} FROM " + ROWS, [5]),
    "CAST(ROW(1) AS ROW<a INT>)": ("SELECT s.r.a FROM (SELECT {} AS r) AS s", [1]),
    "ROW<a INT>": ("SELECT CAST(ROW(1) AS {}).a", [1]),
    "ARRAY_AGG(x)": ("SELECT {} FROM (VALUES (1)) AS v(x)", [[1]]),
    "LISTAGG(x, ',')": ("SELECT {} FROM (VALUES ('a')) AS v(x)", ["a"]),
    "FLOOR(ts TO HOUR)": ("SELECT {} FROM (VALUES (TIMESTAMP '2024-01-01 10:20:30')) AS v(ts)", [dt.datetime(2024, 1, 1, 10)]),
    "d + INTERVAL '1' DAY": ("SELECT {} FROM (VALUES (DATE '2024-02-28')) AS v(d)", [dt.date(2024, 2, 29)]),
    "TIMESTAMPDIFF(DAY, b, a)": ("SELECT {} FROM (VALUES (DATE '2024-03-01', DATE '2024-02-28')) AS v(a, b)", [2]),
    "(a - b) DAY": ("SELECT {} FROM (VALUES (DATE '2024-03-01', DATE '2024-02-28')) AS v(a, b)", [dt.timedelta(days=2)]),
    "CURRENT_TIMESTAMP": ("SELECT {} IS NOT NULL", [True]),
    "JSON_VALUE(j, '$.a')": ("SELECT {} FROM (VALUES ('{{\"a\": 1}}')) AS v(j)", ["1"]),
    "JSON_STRING(x)": ("SELECT {} FROM (VALUES (5)) AS v(x)", ["5"]),
    "IFNULL(a, b)": ("SELECT {} FROM (VALUES (CAST(NULL AS INT), 5)) AS v(a, b)", [5]),
    "COALESCE": ("SELECT {}(a, b) FROM (VALUES (CAST(NULL AS INT), 5)) AS v(a, b)", [5]),
    "IF(c, a, b)": ("SELECT {} FROM (VALUES (TRUE, 1, 2)) AS v(c, a, b)", [1]),
    "LIMIT": ("SELECT x FROM t ORDER BY x {} 3", None),
}  # fmt: skip
# What the page says that is not SQL, or is about running.
OTHER = {"BATCH", "env.sql_query(...)", "env.from_spark(df)", "Table", "to_pandas()"}
# What the page says that Spark has and Penstock has as well.
SAME = {
    "from_unixtime(s)": ("SELECT FROM_UNIXTIME(0)", ["1970-01-01 00:00:00"]),
    "unix_timestamp(t)": ("SELECT UNIX_TIMESTAMP('1970-01-01 00:00:10')", [10]),
}
REFUSED = [
    "CREATE FUNCTION f AS 'com.example.F'",
    "ADD JAR 'x.jar'",
    "LOAD MODULE hive",
    "COMPILE PLAN 'p' FOR INSERT INTO t SELECT 1",
    "EXECUTE PLAN 'p'",
    "ANALYZE TABLE t COMPUTE STATISTICS",
    "CALL f()",
    "CREATE MATERIALIZED TABLE m AS SELECT 1",
    "CREATE MODEL m",
    "CREATE TABLE d (a INT) DISTRIBUTED BY HASH(a) INTO 4 BUCKETS",
    "SELECT * FROM t TABLESAMPLE BERNOULLI(1)",
    "DELETE FROM t",
    "UPDATE t SET x = 1",
    "SELECT x::INT FROM t",
    'SELECT "text"',
    "SELECT k FROM t ORDER BY x",
    "SELECT k FROM t LEFT SEMI JOIN t AS u ON t.x = u.x",
]


@pytest.fixture(scope="module")
def environment():
    with LocalCluster():
        environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        environment.get_config().set("table.local-time-zone", "UTC")
        environment.execute_sql(T)
        yield environment


def said() -> list[str]:
    """What stands in the right column about Spark, between backquotes."""
    table = PAGE.read_text(encoding="utf-8").partition("## From Spark SQL")[2]
    cells = re.findall(r"^\| .* \| (.*) \|$", table, re.MULTILINE)
    return [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]


def test_everything_that_the_page_says_to_write_is_known():
    assert set(said()) - OTHER == set(WRITTEN)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        *((text.format(key.replace("...", "*")), rows) for key, (text, rows) in WRITTEN.items()),
        *SAME.values(),
    ],
    ids=[*WRITTEN, *SAME],
)
def test_what_the_page_says_to_write_runs(environment, statement, expected):
    if statement.startswith("CREATE"):
        environment.execute_sql(statement)
    elif expected is None:
        assert "Optimized Execution Plan" in environment.explain_sql(statement)
    else:
        with environment.execute_sql(statement).collect() as rows:
            assert [row[0] for row in rows] == expected


@pytest.mark.parametrize("statement", REFUSED)
def test_features_documented_as_missing_are_rejected(environment, statement):
    with pytest.raises(PenstockError) as caught:
        environment.execute_sql(statement)
    assert "internal" not in str(caught.value)


def test_words_that_flink_reserves_may_be_names(environment):
    for word in ("value", "date", "timestamp", "user", "language"):
        assert parse(f"SELECT {word} FROM (VALUES (1)) AS t({word})")


def test_functions_are_python(environment):
    # the function itself is in the module that the statement names
    environment.execute_sql(
        "CREATE TEMPORARY FUNCTION shout AS 'tests.unit.sql.test_refusals.shout' LANGUAGE PYTHON"
    )
    with environment.execute_sql("SELECT shout('a')").collect() as rows:
        assert [row[0] for row in rows] == ["a!"]
