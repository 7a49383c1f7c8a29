"""What queries give: the columns with their names, types and time attributes, and the shape of the plan."""

from __future__ import annotations

import pytest

from penstock.catalogs.reader import UserFunction
from penstock.sql.logical.nodes import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalJoin,
    LogicalMatch,
    LogicalOverAggregate,
    LogicalSort,
    LogicalTableFunctionScan,
    LogicalTableScan,
    LogicalValues,
)
from penstock.sql.types import IntType
from tests.unit.sql.logical.plans import (
    Catalog,
    columns,
    find,
    outline,
    plan,
    times,
)

TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT 1", "EXPR$0 INT NOT NULL"),
        ("SELECT 1.50, 'abc', 3000000000, 1e3, TRUE", "EXPR$0 DECIMAL(3, 2) NOT NULL, EXPR$1 CHAR(3) NOT NULL, EXPR$2 BIGINT NOT NULL, EXPR$3 DOUBLE NOT NULL, EXPR$4 BOOLEAN NOT NULL"),
        ("SELECT -2147483648 AS a, -1.5 AS b", "a INT NOT NULL, b DECIMAL(2, 1) NOT NULL"),
        ("SELECT DATE '2024-01-31' AS d, TIME '12:30:00' AS t, TIMESTAMP '2024-01-31 00:00:00.125' AS s", "d DATE NOT NULL, t TIME(0) NOT NULL, s TIMESTAMP(3) NOT NULL"),
        ("SELECT INTERVAL '1' DAY AS d, INTERVAL '1-2' YEAR TO MONTH AS y", "d INTERVAL SECOND(3) NOT NULL, y INTERVAL MONTH NOT NULL"),
        ("SELECT k, v + 1, v AS v FROM s", "k INT, EXPR$1 INT, v INT"),
        ("SELECT * FROM s", "k INT, v INT"),
        ("SELECT s.*, t.w FROM s, t", "k INT, v INT, w INT"),
        ("SELECT * FROM s JOIN t ON s.k = t.k", "k INT, v INT, k0 INT, w INT"),
        ("SELECT * FROM s LEFT JOIN auction ON s.k = id", "k INT, v INT, id BIGINT, name STRING, seller BIGINT, ts TIMESTAMP(3), expires TIMESTAMP(3)"),
        ("SELECT id FROM auction", "id BIGINT NOT NULL"),
        ("SELECT * FROM s JOIN t USING (k)", "k INT, v INT, w INT"),
        ("SELECT s.k, t.k FROM s JOIN t USING (k)", "k INT, k0 INT"),
        ("SELECT k, w, v, x FROM s JOIN t USING (k) LEFT JOIN (SELECT w, k AS x FROM t) u USING (w)", "k INT, w INT, v INT, x INT"),
        ("SELECT r.x, r.y.z AS z, bid.r.y FROM bid", "x INT, z STRING, y ROW<`z` STRING>"),
        ("SELECT x, y.z FROM bid", "x INT, z STRING"),
        ("SELECT r.* FROM bid", "x INT, y ROW<`z` STRING>"),
        ("SELECT b.r.y.* FROM bid AS b", "z STRING"),
        ("SELECT arr[1], m['a'] FROM bid", "EXPR$0 INT, EXPR$1 INT"),
        ("SELECT * FROM (VALUES (1, 'a'), (2, 'bcd')) AS x(id, name)", "id INT NOT NULL, name VARCHAR(3) NOT NULL"),
        ("VALUES (1, NULL), (2.5, 3)", "EXPR$0 DECIMAL(11, 1) NOT NULL, EXPR$1 INT"),
        ("SELECT COUNT(*), SUM(price), AVG(price) AS a FROM bid", "EXPR$0 BIGINT NOT NULL, EXPR$1 BIGINT, a BIGINT"),
        ("SELECT k FROM s UNION ALL SELECT price FROM bid", "k BIGINT"),
        ("SELECT * FROM meta", "a INT, o BIGINT, t TIMESTAMP(3), twice INT"),
        ("SELECT * FROM expensive", "auction BIGINT, price BIGINT"),
        ("SELECT y FROM renamed", "y BIGINT"),
        ("WITH x(a) AS (SELECT k FROM s), y AS (SELECT a + 1 AS b FROM x) SELECT * FROM x, y", "a INT, b INT"),
        ("SELECT v, k AS `a b` FROM s ORDER BY `a b`", "v INT, a b INT"),
        ("SELECT v FROM s ORDER BY k LIMIT 1", "v INT"),
        ("SELECT v AS z FROM s ORDER BY z + 1 LIMIT 1", "z INT"),
        ("SELECT x FROM bid CROSS JOIN UNNEST(arr) AS u(x)", "x INT"),
        ("SELECT u.*, x FROM bid, UNNEST(arr) AS u", "u INT, x INT"),
        ("SELECT id IN (SELECT id FROM auction) AS i, X'1F' AS x FROM auction", "i BOOLEAN NOT NULL, x BINARY(1) NOT NULL"),
        ("SELECT name, MAX(id) AS a, SUM(id) FILTER (WHERE seller > 1) AS b, MIN(seller) AS c FROM auction GROUP BY name", "name STRING, a BIGINT NOT NULL, b BIGINT, c BIGINT"),
        ("SELECT MAX(id) AS a FROM auction", "a BIGINT"),
        ("SELECT SUM(id) OVER (ORDER BY ts) AS a, LAG(id) OVER (ORDER BY ts) AS b FROM auction", "a BIGINT NOT NULL, b BIGINT"),
        ("SELECT SUM(id) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS a, MIN(id) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS b FROM auction", "a BIGINT, b BIGINT"),
        ("SELECT u.* FROM bid, UNNEST(m) AS u", "KEY STRING, VALUE INT"),
        ("SELECT u.* FROM UNNEST(CAST(NULL AS ARRAY<ROW<a INT NOT NULL> NULL>)) AS u", "a INT"),
        ("SELECT u.* FROM UNNEST(CAST(NULL AS ARRAY<ROW<a INT NOT NULL> NOT NULL>)) AS u", "a INT NOT NULL"),
        ("SELECT u.* FROM s LEFT JOIN UNNEST(ARRAY[1, 2]) AS u(a) ON TRUE", "a INT"),
        ("SELECT u.* FROM bid LEFT JOIN UNNEST(arr) WITH ORDINALITY AS u(x, n) ON TRUE", "x INT, n INT"),
        ("SELECT default_catalog.default_database.s.k FROM default_catalog.default_database.s", "k INT"),
        ("SELECT channel, GROUPING(channel) AS g FROM bid GROUP BY ROLLUP (channel)", "channel STRING, g BIGINT NOT NULL"),
        ("SELECT id, COUNT(*) AS n FROM auction GROUP BY GROUPING SETS ((id), ())", "id BIGINT, n BIGINT NOT NULL"),
    ],
)  # fmt: skip
def test_columns_have_flinks_names_and_types(query: str, wanted: str) -> None:
    assert ", ".join(f"{each.name} {each.type}" for each in plan(query).schema) == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT ts, pt FROM bid", {"ts": "rowtime", "pt": "proctime"}),
        ("SELECT ts AS x FROM bid WHERE price > 1", {"x": "rowtime"}),
        ("SELECT ts + INTERVAL '1' SECOND AS x, CAST(ts AS TIMESTAMP(3)) AS y FROM bid", {}),
        ("SELECT *, PROCTIME() AS now FROM s", {"now": "proctime"}),
        ("SELECT ts, COUNT(*) FROM bid GROUP BY ts", {}),
        ("SELECT DISTINCT ts FROM bid", {}),
        ("SELECT ts FROM bid UNION ALL SELECT ts FROM auction", {"ts": "rowtime"}),
        ("SELECT ts FROM bid UNION SELECT ts FROM auction", {}),
        ("SELECT expires FROM auction UNION ALL SELECT ts FROM bid", {}),
        ("SELECT ts FROM bid UNION ALL SELECT expires FROM auction", {}),
        ("SELECT ts FROM bid b WHERE EXISTS (SELECT 1 FROM auction a WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR)", {}),
        ("SELECT b.ts, a.ts AS ats FROM bid b JOIN auction a ON b.auction = a.id", {}),
        ("SELECT b.ts, a.ts AS ats FROM bid b JOIN auction a ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR", {"ts": "rowtime", "ats": "rowtime"}),
        ("SELECT b.ts, a.ts AS ats FROM bid b, auction a WHERE b.auction = a.id AND b.ts >= a.ts - INTERVAL '1' HOUR AND a.ts > b.ts", {"ts": "rowtime", "ats": "rowtime"}),
        ("SELECT b.ts FROM bid b JOIN auction a ON b.auction = a.id AND b.ts >= a.ts", {}),
        ("SELECT b.ts FROM bid b JOIN auction a ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.expires", {}),
        ("SELECT b.ts, a.ts AS ats FROM bid b JOIN auction FOR SYSTEM_TIME AS OF b.ts AS a ON b.auction = a.id", {"ts": "rowtime"}),
        ("SELECT ts, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) AS n FROM bid", {"ts": "rowtime"}),
        (f"SELECT * FROM {TUMBLE}", {"ts": "rowtime", "pt": "proctime", "window_time": "rowtime"}),
        (f"SELECT window_start, window_time, COUNT(*) FROM {TUMBLE} GROUP BY window_start, window_end, window_time", {"window_time": "rowtime"}),
        (f"SELECT window_time, COUNT(*) FROM {TUMBLE} GROUP BY window_start, window_time", {}),
        ("SELECT window_time FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(pt), INTERVAL '10' SECOND))", {"window_time": "proctime"}),
        ("SELECT TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR) AS r, TUMBLE_END(ts, INTERVAL '1' HOUR) AS e FROM bid GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", {"r": "rowtime"}),
        ("SELECT SESSION_PROCTIME(pt, INTERVAL '1' HOUR) AS r FROM bid GROUP BY SESSION(pt, INTERVAL '1' HOUR)", {"r": "proctime"}),
        (f"SELECT w.window_time, COUNT(*) FROM {TUMBLE} w JOIN auction a ON w.auction = a.id AND w.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR GROUP BY w.window_start, w.window_end, w.window_time", {}),
        ("SELECT ts FROM bid WHERE auction IN (SELECT id FROM auction)", {}),
        ("SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_ROWTIME() AS r, A.ts AS first PATTERN (A) DEFINE A AS price > 1)", {"r": "rowtime"}),
    ],
)  # fmt: skip
def test_time_attributes_stay_where_rows_keep_the_order_of_watermarks(
    query: str, wanted: dict[str, str]
) -> None:
    assert times(plan(query)) == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT * FROM s", "s"),
        ("SELECT k FROM s WHERE v > 1", "Project(Filter(s))"),
        ("SELECT v, COUNT(*) FROM s GROUP BY v HAVING COUNT(*) > 1", "Project(Filter(Aggregate(Project(s))))"),
        ("SELECT k FROM s UNION ALL SELECT k FROM t UNION ALL SELECT v FROM s", "UNION(Project(s), Project(t), Project(Project(s)))"),
        ("SELECT k FROM s EXCEPT SELECT k FROM t EXCEPT SELECT v FROM s", "EXCEPT(EXCEPT(Project(s), Project(t)), Project(Project(s)))"),
        ("SELECT * FROM s ORDER BY k LIMIT 3", "Sort(s)"),
        ("SELECT v FROM s ORDER BY k LIMIT 3", "Project(Sort(Project(s)))"),
        ("SELECT DISTINCT v FROM s", "Aggregate(Project(s))"),
        ("SELECT k, COUNT(*) OVER w, SUM(v) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY v)", "Project(OverAggregate(s))"),
        ("SELECT k, COUNT(*) OVER (ORDER BY k), SUM(v) OVER (ORDER BY v) FROM s", "Project(OverAggregate(OverAggregate(s)))"),
        ("SELECT k FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1", "Project(Filter(OverAggregate(s)))"),
        ("SELECT 1", "Project(Values())"),
    ],
)  # fmt: skip
def test_plans_have_the_shape_of_their_query(query: str, wanted: str) -> None:
    assert outline(plan(query)) == wanted


def test_aggregates_are_computed_once_from_columns() -> None:
    node = find(
        plan(
            "SELECT channel, COUNT(*), SUM(price + 1), SUM(price + 1) * 2, COUNT(DISTINCT auction) FILTER (WHERE price > 3)"
            " FROM bid GROUP BY channel HAVING COUNT(*) > 1"
        ),
        LogicalAggregate,
    )
    assert [str(each) for each in node.aggregates] == [
        "COUNT(*)",
        "SUM($1)",
        "COUNT(DISTINCT $2) FILTER $3",
    ]
    assert node.keys == (0,)


def test_an_aggregate_of_the_user_has_the_filter_that_is_written() -> None:
    catalog = Catalog("CREATE TABLE s (k INT, v INT)")
    catalog.functions["best"] = UserFunction(
        name="best", kind="AGGREGATE", function=object(), result_types=(IntType(),)
    )
    query = "SELECT k, best(DISTINCT v) FILTER (WHERE v > 1) FROM s GROUP BY k"
    (call,) = find(plan(query, catalog), LogicalAggregate).aggregates
    assert (call.distinct, call.filter is not None) == (True, True)


def test_expressions_of_group_by_are_keys_in_any_place() -> None:
    node = plan("SELECT (price + 1) * 2, r.x FROM bid GROUP BY price + 1, r.x ORDER BY price + 1")
    assert [str(each.type) for each in node.schema] == ["BIGINT", "INT"]
    assert find(node, LogicalAggregate).keys == (0, 1)


def test_a_field_of_a_key_is_grouped() -> None:
    assert columns(plan("SELECT r.x, r.y.z FROM bid GROUP BY r")) == "x INT, z STRING"


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ("GROUPING SETS ((auction, channel), (auction), ())", ((0, 1), (0,), ())),
        ("ROLLUP (auction, channel)", ((0, 1), (0,), ())),
        ("CUBE (auction, channel)", ((0, 1), (0,), (1,), ())),
        ("auction, ROLLUP (channel)", ((0, 1), (0,))),
        ("GROUPING SETS (ROLLUP (auction), (channel))", ((0,), (), (1,))),
        ("ROLLUP ((auction, channel))", ((0, 1), ())),
    ],
)
def test_grouping_sets_are_subsets_of_the_keys(group: str, wanted: object) -> None:
    node = find(plan(f"SELECT COUNT(*) FROM bid GROUP BY {group}"), LogicalAggregate)
    assert node.sets == wanted


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)", ("TUMBLE", 10_000, 0, 0, 0, 3, None)),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '8' HOUR)", ("TUMBLE", 86_400_000, 0, 28_800_000, 0, 3, None)),
        ("TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '-8' HOUR)", ("TUMBLE", 86_400_000, 0, -28_800_000, 0, 3, None)),
        ("HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)", ("HOP", 10_000, 5000, 0, 0, 3, None)),
        ("HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, SLIDE => INTERVAL '5' SECOND)", ("HOP", 10_000, 5000, 0, 0, 3, None)),
        ("CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)", ("CUMULATE", 10_000, 2000, 0, 0, 3, None)),
        ("SESSION(TABLE bid PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '10' SECOND)", ("SESSION", 0, 0, 0, 10_000, 3, None)),
        ("TUMBLE(TABLE bid, DESCRIPTOR(pt), INTERVAL '10' SECOND)", ("TUMBLE", 10_000, 0, 0, 0, None, "UTC")),
        ("TUMBLE(TABLE local_time, DESCRIPTOR(ts), INTERVAL '10' SECOND)", ("TUMBLE", 10_000, 0, 0, 0, 1, "UTC")),
    ],
)  # fmt: skip
def test_window_table_functions_are_defined_by_their_operands(call: str, wanted: object) -> None:
    window = find(plan(f"SELECT * FROM TABLE({call})"), LogicalTableFunctionScan).window
    found = (
        window.kind,
        window.size,
        window.slide,
        window.offset,
        window.gap,
        window.time,
        window.zone,
    )
    assert found == wanted
    assert window.partition == ((0,) if window.kind == "SESSION" else ())


def test_group_windows_give_what_their_functions_ask_for() -> None:
    node = find(
        plan(
            "SELECT HOP_END(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR) AS e, auction, COUNT(*) AS n,"
            " HOP_START(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR) AS b FROM bid"
            " GROUP BY auction, HOP(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)"
        ),
        LogicalAggregate,
    )
    assert node.properties == ("end", "start")
    assert (node.window.kind, node.window.size, node.window.slide) == ("HOP", 3_600_000, 60_000)
    assert [each.name for each in node.schema] == ["auction", "EXPR$0", "end", "start"]


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        ("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", (True, 2, 0)),
        ("ROWS UNBOUNDED PRECEDING", (True, None, 0)),
        ("RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW", (False, 60_000, 0)),
        ("RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", (False, None, None)),
        ("ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING", (True, 1, 3)),
        ("", (False, None, 0)),
    ],
)
def test_frames_of_over_are_read(frame: str, wanted: object) -> None:
    node = find(
        plan(f"SELECT SUM(price) OVER (PARTITION BY channel ORDER BY ts {frame}) FROM bid"),
        LogicalOverAggregate,
    )
    assert (node.window.rows, node.window.preceding, node.window.following) == wanted
    assert (node.window.partition, node.window.order[0].index) == ((2,), 3)


def test_order_by_says_where_nulls_are() -> None:
    node = find(
        plan("SELECT * FROM s ORDER BY k, v DESC, 2 NULLS FIRST LIMIT 5 OFFSET 2"), LogicalSort
    )
    assert [(each.index, each.ascending, each.nulls_first) for each in node.order] == [
        (0, True, True),
        (1, False, False),
        (1, True, True),
    ]
    assert (node.limit, node.offset) == (5, 2)


def test_hints_come_with_the_table_and_the_join() -> None:
    node = plan(
        "SELECT /*+ STATE_TTL('s' = '1d') */ * FROM s /*+ OPTIONS('a' = 'b') */ JOIN t ON s.k = t.k"
    )
    assert find(node, LogicalTableScan).options == {"a": "b"}
    assert find(node, LogicalJoin).hints == {"STATE_TTL": {"left": 86_400_000}}


def test_hints_of_lookups_are_about_the_table_that_they_name() -> None:
    pair = "s JOIN t ON s.k = t.k JOIN auction AS a ON a.id = s.k"
    for hints, wanted in (
        ("LOOKUP('table' = 't', 'async' = 'true')", ["t", None]),
        ("LOOKUP('table' = 'a'), LOOKUP('table' = 'db.T')", ["db.T", "a"]),
        ("LOOKUP('table' = 's')", [None, None]),
    ):
        second = find(plan(f"SELECT /*+ {hints} */ s.k FROM {pair}"), LogicalJoin)
        found = [each.hints.get("LOOKUP", {}).get("table") for each in (second.left, second)]
        assert found == wanted, hints


@pytest.mark.parametrize(
    "hint", ["BROADCAST(z)", "LOOKUP('table' = 'z')", "STATE_TTL('z' = '1d')", "OPTIONS('a' = 'b')"]
)
def test_hints_that_are_about_nothing_are_passed_over(hint: str) -> None:
    assert outline(plan(f"SELECT /*+ {hint} */ k FROM s")) == outline(plan("SELECT k FROM s"))


@pytest.mark.parametrize(
    "data",
    [
        "(SELECT * FROM bid)",
        "(TABLE bid)",
        "DATA => (SELECT * FROM bid)",
        "DATA => TABLE bid",
        "(SELECT * FROM bid) PARTITION BY auction",
    ],
)
def test_windows_are_over_tables_and_queries(data: str) -> None:
    partitioned = "PARTITION BY" in data
    rest = "DESCRIPTOR(ts), INTERVAL '1' HOUR"
    named = "TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' HOUR"
    node = find(
        plan(f"SELECT * FROM TABLE(SESSION({data}, {named if '=>' in data else rest}))"),
        LogicalTableFunctionScan,
    )
    assert "bid" in outline(node)
    assert node.window.partition == ((0,) if partitioned else ())
    assert times(node)["ts"] == "rowtime"


def test_temporal_joins_know_the_time_of_the_left_row() -> None:
    node = find(
        plan(
            "SELECT * FROM bid b LEFT JOIN auction FOR SYSTEM_TIME AS OF b.pt AS a ON b.auction = a.id"
        ),
        LogicalJoin,
    )
    assert (str(node.temporal), node.kind) == ("$7", "LEFT")


def test_table_functions_take_columns_of_the_row_to_their_left() -> None:
    node = find(plan("SELECT * FROM s, UNNEST(ARRAY[k, v]) AS u(x)"), LogicalCorrelate)
    assert (node.function, str(node.operands[0]), node.outer) == ("UNNEST", "ARRAY($0, $1)", False)


def test_patterns_are_trees_and_columns_belong_to_variables() -> None:
    node = find(
        plan(
            "SELECT * FROM bid MATCH_RECOGNIZE (PARTITION BY auction ORDER BY ts"
            " MEASURES FIRST(A.price) AS low, LAST(B.price, 1) AS high, COUNT(B.*) AS n, SUM(A.price) AS total"
            " AFTER MATCH SKIP TO LAST B PATTERN (A{2,3} B+? C) WITHIN INTERVAL '1' MINUTE"
            " DEFINE A AS price < 10, B AS B.price > LAST(A.price))"
        ),
        LogicalMatch,
    )
    assert [(each.variable, each.least, each.most, each.greedy) for each in node.pattern.parts] == [
        ("A", 2, 3, True),
        ("B", 1, None, False),
        ("C", 1, 1, True),
    ]
    assert dict(node.definitions).keys() == {"A", "B"}
    assert str(dict(node.definitions)["B"]) == ">(PATTERN REF(B, $1), LAST(PATTERN REF(A, $1), 0))"
    assert [str(rex) for _, rex in node.measures] == [
        "FIRST(PATTERN REF(A, $1), 0)",
        "LAST(PATTERN REF(B, $1), 1)",
        "COUNT(PATTERN REF(B, True))",
        "SUM(PATTERN REF(A, $1))",
    ]
    assert (node.after_match, node.within_ms) == (("LAST", "B"), 60_000)
    assert (
        columns(node) == "auction BIGINT, low BIGINT, high BIGINT, n BIGINT NOT NULL, total BIGINT"
    )


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        ("", ("NEXT ROW", None)),
        ("AFTER MATCH SKIP TO NEXT ROW", ("NEXT ROW", None)),
        ("AFTER MATCH SKIP PAST LAST ROW", ("PAST LAST ROW", None)),
        ("AFTER MATCH SKIP TO FIRST B", ("FIRST", "B")),
        ("AFTER MATCH SKIP TO B", ("LAST", "B")),
    ],
)
def test_after_match_skip_positions(clause: str, wanted: object) -> None:
    query = f"SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS p {clause} PATTERN (A B) DEFINE A AS price > 1)"
    assert find(plan(query), LogicalMatch).after_match == wanted


def test_values_have_the_type_that_all_rows_have_in_common() -> None:
    node = find(plan("VALUES (1), (NULL), (CAST(3 AS BIGINT))"), LogicalValues)
    assert columns(node) == "EXPR$0 BIGINT"
