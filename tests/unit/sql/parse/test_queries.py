"""Queries as trees: what is read is written as the same tree again."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.sql.parse import trees
from penstock.sql.parse.dialect import to_sql
from penstock.sql.parse.parser import parse, parse_expression, position_of
from penstock.sql.parse.statements import QueryStatement
from penstock.sql.parse.trees import function_path, hints_of, name_parts
from tests.builders.cases import by_name, check_all

# As written, and as written again if that differs.
QUERIES: list[tuple[str, str | None]] = [
    ("SELECT 1", None),
    ("select a, b as c, d e from t", "SELECT a, b AS c, d AS e FROM t"),
    ("SELECT DISTINCT a FROM cat.db.t", None),
    ("SELECT ALL a FROM t", "SELECT a FROM t"),
    ("SELECT t.*, * FROM t AS t(x, y)", None),
    ("SELECT `select`, `a``b` FROM `my table`", None),
    ("SELECT a FROM t -- comment\n WHERE /* here */ b", "SELECT a FROM t WHERE b"),
    ("SELECT a FROM t WHERE a > 1 GROUP BY a HAVING COUNT(*) > 2 ORDER BY a LIMIT 3 OFFSET 4", None),
    ("SELECT a FROM t ORDER BY a ASC, b DESC NULLS LAST, c NULLS FIRST", "SELECT a FROM t ORDER BY a, b DESC NULLS LAST, c NULLS FIRST"),
    ("SELECT a FROM t OFFSET 2 ROWS FETCH NEXT 5 ROWS ONLY", "SELECT a FROM t LIMIT 5 OFFSET 2"),
    ("SELECT a FROM t LIMIT ALL", "SELECT a FROM t"),
    ("SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), ()), ROLLUP (c, (d, e)), CUBE (f)", "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), ()), ROLLUP (c, (d, e)), CUBE (f)"),
    ("SELECT a FROM t GROUP BY ()", None),
    ("SELECT a FROM t, u AS v, (SELECT 1) AS w", None),
    ("SELECT a FROM t JOIN u ON t.x = u.x LEFT OUTER JOIN v USING (k, l) FULL JOIN w ON TRUE", None),
    ("SELECT a FROM t CROSS JOIN u NATURAL JOIN v RIGHT JOIN w ON a = b INNER JOIN x ON c = d", None),
    ("SELECT a FROM (t JOIN u ON b = c) JOIN v ON d = e", None),
    ("SELECT a FROM ((SELECT 1) AS x JOIN u ON b = c)", None),
    ("SELECT a FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts AS r ON o.c = r.c", None),
    ("SELECT a FROM o JOIN r FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01 00:00:00' ON TRUE", None),
    ("SELECT a FROM t, UNNEST(t.xs) AS u(x)", None),
    ("SELECT a FROM t CROSS JOIN UNNEST(xs) WITH ORDINALITY AS u(x, i)", None),
    ("SELECT a FROM t, LATERAL TABLE(split(s)) AS w(word)", None),
    ("SELECT a FROM t LEFT JOIN LATERAL TABLE(db.split(s, ',')) AS w(word) ON TRUE", None),
    ("SELECT a FROM t, LATERAL (SELECT b FROM u WHERE u.x = t.x LIMIT 2) AS w", None),
    ("SELECT a FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES))", "SELECT a FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE))"),
    ("SELECT a FROM TABLE(HOP(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '1' HOUR, SIZE => INTERVAL '1' DAY)) AS w", None),
    ("SELECT a FROM TABLE(CUMULATE(TABLE a.b.t, DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '1 02:00' DAY TO MINUTE, INTERVAL '30' SECOND))", None),
    ("SELECT a FROM TABLE(SESSION(TABLE t PARTITION BY (k, l), DESCRIPTOR(ts), INTERVAL '5' MINUTE))", None),
    ("SELECT a FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE))", "SELECT a FROM TABLE(SESSION(TABLE t PARTITION BY (k), DESCRIPTOR(ts), INTERVAL '5' MINUTE))"),
    ("SELECT a FROM TABLE(TUMBLE(TABLE (SELECT b FROM u), DESCRIPTOR(ts), INTERVAL '1' DAY))", None),
    ("SELECT a FROM f(1, x => 2)", "SELECT a FROM TABLE(f(1, x => 2))"),
    ("SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), k", None),
    ("SELECT SUM(a) OVER (PARTITION BY b, c ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) FROM t", None),
    ("SELECT SUM(a) OVER (ORDER BY ts ROWS 3 PRECEDING) FROM t", "SELECT SUM(a) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t"),
    ("SELECT SUM(a) OVER w, MAX(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)", None),
    ("SELECT a FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) = 1", None),
    ("SELECT COUNT(*), COUNT(DISTINCT a, b), SUM(a) FILTER (WHERE b > 1) FROM t", "SELECT COUNT(*), COUNT(DISTINCT a, b), SUM(a) FILTER(WHERE b > 1) FROM t"),
    ("SELECT LISTAGG(a, ';') WITHIN GROUP (ORDER BY b DESC), FIRST_VALUE(a) IGNORE NULLS FROM t", None),
    ("WITH a AS (SELECT 1), b(x) AS (VALUES (1), (2)) SELECT * FROM a, b", None),
    ("VALUES (1, 'a'), (2, 'b')", None),
    ("VALUES 1, ROW(2)", "VALUES (1), (2)"),
    ("SELECT * FROM (VALUES (1, 2)) AS t(a, b)", None),
    ("SELECT 1 UNION ALL SELECT 2 UNION SELECT 3", None),
    ("SELECT 1 UNION SELECT 2 INTERSECT ALL SELECT 3", None),
    ("SELECT 1 EXCEPT ALL (SELECT 2 EXCEPT SELECT 3) ORDER BY 1 LIMIT 2", None),
    ("(SELECT 1) UNION ALL (SELECT 2)", None),
    ("SELECT * FROM ((SELECT 1) UNION ALL (SELECT 2)) AS t", None),
    ("(SELECT a FROM t ORDER BY a LIMIT 2) ORDER BY b", "SELECT * FROM (SELECT a FROM t ORDER BY a LIMIT 2) ORDER BY b"),
    ("SELECT /*+ STATE_TTL('t' = '1d', 'u' = '2h'), BROADCAST(t) */ a FROM t", None),
    ("SELECT a FROM t /*+ OPTIONS('k' = 'v', 'l' = 'it') */ AS x JOIN u ON TRUE", None),
    ("SELECT a FROM t MATCH_RECOGNIZE (PARTITION BY u ORDER BY p MEASURES A.id AS aid, LAST(B.x) AS bx ONE ROW PER MATCH AFTER MATCH SKIP TO LAST B PATTERN (A B+? C{2,} (D | E F)* G{,3}) WITHIN INTERVAL '1' HOUR DEFINE A AS name = 'a', B AS B.x > PREV(B.x, 2)) AS m", "SELECT a FROM t MATCH_RECOGNIZE (PARTITION BY u ORDER BY p MEASURES A.id AS aid, LAST(B.x) AS bx ONE ROW PER MATCH AFTER MATCH SKIP TO LAST B PATTERN (A B+? C{2,} (D | E F)* G{0,3}) WITHIN INTERVAL '1' HOUR DEFINE A AS name = 'a', B AS B.x > PREV(B.x, 2)) AS m"),
    ("SELECT a FROM t MATCH_RECOGNIZE (ORDER BY p AFTER MATCH SKIP TO NEXT ROW PATTERN (A {- B -} PERMUTE(C, D) E{3}) SUBSET s = (A, B) DEFINE A AS TRUE)", None),
]  # fmt: skip


def test_a_query_is_read_and_written_as_the_same_tree() -> None:
    def check(case: tuple[str, str | None]) -> None:
        text, again = case
        (statement,) = parse(text)
        assert isinstance(statement, QueryStatement)
        assert statement.text == text
        written = to_sql(statement.tree)
        assert written == (again or text)
        (second,) = parse(written)
        assert isinstance(second, QueryStatement)
        assert second.tree == statement.tree

    check_all(by_name(QUERIES, lambda case: case[0]), check)


EXPRESSIONS: list[tuple[str, str | None]] = [
    ("a + b * c - d / e % f", None),
    ("a OR b AND NOT c = d", None),
    ("(a - b - c) DAY TO SECOND", None),
    ("(a - b) months + c", "(a - b) MONTH + c"),
    ("CAST((a - b) HOUR(3) AS STRING)", "CAST((a - b) HOUR AS STRING)"),
    ("f(x, (SELECT a FROM t), (TABLE t))", "f(x, (SELECT a FROM t), (SELECT * FROM t))"),
    ("NOT a IS NULL", "a IS NOT NULL"),
    ("a IS NOT NULL", None),
    ("a IS NOT NULL IS TRUE", None),
    ("a > ALL (SELECT 1)", None),
    ("a IS UNKNOWN", "a IS NULL"),
    ("a IS NOT TRUE AND b IS FALSE", None),
    ("a IS DISTINCT FROM b OR a IS NOT DISTINCT FROM 1 + 2", None),
    ("a NOT BETWEEN 1 AND 2 AND b", "NOT a BETWEEN 1 AND 2 AND b"),
    ("a BETWEEN SYMMETRIC 3 AND 1", None),
    ("a NOT LIKE 'x!%' ESCAPE '!'", "NOT a LIKE 'x!%' ESCAPE '!'"),
    ("a SIMILAR TO 'x*'", None),
    ("a IN (1, 2) AND (b, c) NOT IN (SELECT d, e FROM t)", "a IN (1, 2) AND NOT (b, c) IN (SELECT d, e FROM t)"),
    ("EXISTS(SELECT 1 FROM t) AND a > (SELECT MAX(b) FROM t)", None),
    ("a = ANY (SELECT 1)", None),
    ("a <> 1 AND a != 2 AND a <= 3", "a <> 1 AND a <> 2 AND a <= 3"),
    ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END", None),
    ("CASE a WHEN 1 THEN 'x' END", None),
    ("CASE a WHEN 1, 2 THEN 'x' END", "CASE a WHEN 1 THEN 'x' WHEN 2 THEN 'x' END"),
    ("CAST(a AS DECIMAL(10, 2)) + TRY_CAST(b AS BIGINT)", None),
    ("CAST(ROW(1, 'x') AS ROW<a INT, b STRING>)", "CAST(ROW(1, 'x') AS ROW<`a` INT, `b` STRING>)"),
    ("a.b.c.d.e.f", None),
    ("a[1].b['k']", None),
    ("f(x).y", None),
    ("cat.db.f(x, y)", None),
    ("ARRAY[1, 2][1]", None),
    ("MAP['a', 1, 'b', 2]['a']", None),
    ("ROW(1, ROW(2))", None),
    ("(1, 2)", None),
    ("-a - -1 + +2", "-a - -1 + 2"),
    ("'it''s' || 'x'", None),
    ("'a' 'b'", "'ab'"),
    ("U&'\\00e9'", "'é'"),
    ("X'1F'", None),
    (".5 + 1.5E3", "0.5 + 1.5E3"),
    ("DATE '2024-02-29'", None),
    ("TIME '10:00:00'", None),
    ("TIMESTAMP '2024-02-29 10:00:00.123'", None),
    ("INTERVAL '1' DAY + INTERVAL -'3' MONTH", "INTERVAL '1' DAY + INTERVAL '-3' MONTH"),
    ("INTERVAL '1 02:03:04.5' DAY TO SECOND", None),
    ("INTERVAL '10' SECOND(3)", "INTERVAL '10' SECOND"),
    ("INTERVAL 5 MINUTES - INTERVAL -1.5 SECOND", "INTERVAL '5' MINUTE - INTERVAL '-1.5' SECOND"),
    ("INTERVAL (a + 1) DAY", "(a + 1) * INTERVAL '1' DAY"),
    ("INTERVAL a DAYS + interval", "a * INTERVAL '1' DAY + interval"),
    ("CURRENT_TIMESTAMP", None),
    ("LOCALTIME", None),
    ("CURRENT_DATE()", "CURRENT_DATE"),
    ("EXTRACT(EPOCH FROM ts)", None),
    ("FLOOR(ts TO HOUR) = CEIL(ts TO DAY)", None),
    ("FLOOR(1.5)", None),
    ("TIMESTAMPADD(DAYS, 1, ts)", "TIMESTAMPADD(DAY, 1, ts)"),
    ("TIMESTAMPDIFF(SECOND, a, b)", None),
    ("TRIM(a)", None),
    ("TRIM('x' FROM a)", "TRIM(BOTH 'x' FROM a)"),
    ("TRIM(LEADING FROM a)", None),
    ("POSITION('x' IN a)", None),
    ("SUBSTRING(a FROM 2 FOR 3)", "SUBSTRING(a, 2, 3)"),
    ("SUBSTRING(a, 2)", None),
    ("OVERLAY(a PLACING b FROM 1 FOR 2)", "OVERLAY(a, b, 1, 2)"),
    ("LEFT(a, 1) || RIGHT(b, 2)", None),
    ("IF(a, b, c)", None),
    ("a IS JSON", "a IS JSON VALUE"),
    ("a IS NOT JSON ARRAY", "NOT a IS JSON ARRAY"),
    ("JSON_EXISTS(j, 'lax $.a' ERROR ON ERROR)", None),
    ("JSON_VALUE(j, '$.a')", None),
    ("JSON_VALUE(j, '$.a' RETURNING BOOLEAN DEFAULT FALSE ON EMPTY ERROR ON ERROR)", None),
    ("JSON_QUERY(j, '$.a' WITH WRAPPER EMPTY ARRAY ON EMPTY NULL ON ERROR)", "JSON_QUERY(j, '$.a' WITH UNCONDITIONAL ARRAY WRAPPER EMPTY ARRAY ON EMPTY NULL ON ERROR)"),
    ("JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> WITH CONDITIONAL ARRAY WRAPPER)", "JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> WITH CONDITIONAL ARRAY WRAPPER)"),
    ("JSON_OBJECT()", None),
    ("JSON_OBJECT('a' VALUE 1, KEY b VALUE c NULL ON NULL)", "JSON_OBJECT(KEY 'a' VALUE 1, KEY b VALUE c NULL ON NULL)"),
    ("JSON_ARRAY(1, JSON_ARRAY() ABSENT ON NULL)", None),
    ("JSON_OBJECTAGG(KEY a VALUE b)", None),
    ("JSON_ARRAYAGG(a NULL ON NULL)", None),
    ("(a, b) OVERLAPS (c, d)", None),
]  # fmt: skip


def test_an_expression_is_read_and_written_as_the_same_tree() -> None:
    def check(case: tuple[str, str | None]) -> None:
        text, again = case
        tree = parse_expression(text)
        written = to_sql(tree)
        assert written == (again or text)
        assert parse_expression(written) == tree

    check_all(by_name(EXPRESSIONS, lambda case: case[0]), check)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a = b IN (1)", "a = (b IN (1))"),
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("NOT a = b", "NOT (a = b)"),
        ("'a' || b + c", "('a' || b) + c"),
        ("a + b LIKE c", "(a + b) LIKE c"),
        ("a AND b OR c AND d", "(a AND b) OR (c AND d)"),
        ("-a * b", "(-a) * b"),
    ],
)
def test_operators_bind_as_in_flink(text: str, same: str) -> None:
    def without_parentheses(tree: exp.Expression) -> object:
        return tree.transform(lambda node: node.this if isinstance(node, exp.Paren) else node)

    assert without_parentheses(parse_expression(text)) == without_parentheses(
        parse_expression(same)
    )


def test_all_functions_are_calls_by_the_name_that_was_written() -> None:
    for text in ("count(*)", "Upper(a)", "coalesce(a, b)", "CURRENT_DATE", "ARRAY[1]", "row(1)"):
        tree = parse_expression(text)
        assert isinstance(tree, exp.Anonymous)
        assert tree.name == text.replace("[", "(").split("(")[0]
    assert function_path(parse_expression("c.d.f(1)")) == ("c", "d", "f")


def test_names_know_their_parts() -> None:
    assert name_parts(parse_expression("a.b.c.d.e")) == ("a", "b", "c", "d", "e")
    (query,) = parse("SELECT t.* FROM c.d.t")
    assert isinstance(query, QueryStatement)
    assert name_parts(query.tree.expressions[0]) == ("t", "*")
    assert name_parts(query.tree.args["from_"].this) == ("c", "d", "t")


def test_hints_are_read_with_their_options() -> None:
    (query,) = parse(
        "SELECT /*+ STATE_TTL('a'='1d') LOOKUP('table'='d', 'async'='true') */ *\n"
        "FROM t /*+ OPTIONS('k'='v') */ x"
    )
    assert isinstance(query, QueryStatement)
    ttl, lookup = hints_of(query.tree)
    assert (ttl.name, ttl.options) == ("STATE_TTL", {"a": "1d"})
    assert (lookup.name, lookup.options) == ("LOOKUP", {"table": "d", "async": "true"})
    (options,) = hints_of(query.tree.args["from_"].this)
    assert (options.name, options.options, options.position) == ("OPTIONS", {"k": "v"}, (2, 12))


def test_nodes_know_where_they_are_written() -> None:
    (query,) = parse("SELECT a,\n  upper(b) AS c\nFROM t\nWHERE x = 1")
    assert isinstance(query, QueryStatement)
    tree = query.tree
    assert position_of(tree.expressions[1]) == (2, 3)
    assert position_of(tree.expressions[1].this.expressions[0]) == (2, 9)
    assert position_of(tree.args["from_"].this) == (3, 6)
    assert position_of(tree.args["where"].this) == (4, 7)
    copied = tree.copy()
    assert position_of(copied.args["where"].this) == (4, 7)


def test_patterns_are_structured() -> None:
    (query,) = parse(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A (B C)+? D{2,3}) DEFINE A AS TRUE)"
    )
    assert isinstance(query, QueryStatement)
    found = query.tree.args["from_"].this
    assert isinstance(found, trees.MatchRecognize)
    first, group, last = found.args["pattern"].expressions
    assert first == trees.PatternVariable(this="A")
    assert (group.args["minimum"], group.args.get("maximum"), group.args["greedy"]) == (
        1,
        None,
        False,
    )
    assert isinstance(group.this, trees.PatternSequence)
    assert (last.args["minimum"], last.args["maximum"], last.args["greedy"]) == (2, 3, True)


def test_many_conditions_make_no_deep_tree() -> None:
    tree = parse_expression(" OR ".join(f"a = {number}" for number in range(1000)))
    assert max(node.depth for node in tree.walk()) < 30
    assert [int(node.expression.this) for node in tree.find_all(exp.EQ, bfs=False)] == list(
        range(1000)
    )
    assert parse_expression(to_sql(tree)) == tree
