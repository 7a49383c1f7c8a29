"""Queries that are refused: the reason, the place, and the nearest name."""

from __future__ import annotations

import pytest

from penstock.sql.errors import SqlError
from tests.unit.sql.logical.plans import plan


@pytest.mark.parametrize(
    ("query", "message", "marked", "hint"),
    [
        ("SELECT pric FROM bid", "column 'pric' not found in any table", "pric", "did you mean 'price'?"),
        ("SELECT b.pric FROM bid AS b", "column 'pric' not found in table 'b'", "b.pric", "did you mean 'price'?"),
        ("SELECT x.price FROM bid AS b", "column 'x.price' not found in any table", "x.price", "did you mean 'b.price'?"),
        ("SELECT Price FROM bid", "column 'Price' not found in any table", "Price", "did you mean 'price'?"),
        ("SELECT 1 FROM bids", "table 'bids' not found", "bids", "did you mean 'bid'?"),
        ("SELECT k FROM s, t", "column 'k' is ambiguous", "k", "qualify it, as in table.k"),
        ("SELECT r.w FROM bid", "field 'w' not found in ROW<`x` INT, `y` ROW<`z` STRING>>", "r.w", None),
        ("SELECT price.x FROM bid", "cannot access field 'x': its left side is BIGINT, not a ROW", "price.x", None),
        ("SELECT q.* FROM bid", "table 'q' not found", "q.*", None),
        ("SELECT price.* FROM bid", "'price.*' needs a ROW, got BIGINT", "price.*", None),
        ("SELECT 1 FROM s AS a, t AS a", "the name 'a' is used twice in FROM", "t AS a", "give one of them an alias"),
        ("SELECT 1 FROM s AS a(x)", "the alias names 1 columns, but the relation has 2", None, "the columns are: k, v"),
        ("SELECT k FROM s WHERE v", "the condition of WHERE must be BOOLEAN, got INT", "v", None),
        ("SELECT k FROM s WHERE SUM(v) > 1", "aggregate function SUM is not allowed here", "SUM(v)", "put conditions on aggregates into HAVING"),
        ("SELECT k, v FROM s GROUP BY k", "expression 'v' is not being grouped", "v", "add v to GROUP BY, or aggregate it, as in MAX(v)"),
        ("SELECT * FROM s GROUP BY k", "expression 'v' is not being grouped", "*", None),
        ("SELECT k FROM s GROUP BY k ORDER BY v", "expression 'v' is not being grouped", "v", None),
        ("SELECT SUM(MAX(k)) FROM s", "aggregate function MAX is not allowed here", "MAX(k)", None),
        ("SELECT k FROM s WHERE ROW_NUMBER() OVER (ORDER BY k) = 1", "OVER is only allowed in SELECT, QUALIFY and ORDER BY", None, "compute it in a subquery and filter in the outer query"),
        ("SELECT UPPER(channel) OVER (ORDER BY ts) FROM bid", "UPPER is not an aggregate function", "UPPER(channel)", None),
        ("SELECT CHAR_LENGHT(channel) FROM bid", "unknown function CHAR_LENGHT", "CHAR_LENGHT(channel)", "did you mean CHAR_LENGTH?"),
        ("SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) FROM bid", "TUMBLE_START can only be used with the same window in GROUP BY", None, None),
        ("SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) FROM bid GROUP BY TUMBLE(ts, INTERVAL '2' HOUR)", "TUMBLE_START can only be used with the same window in GROUP BY", None, None),
        ("SELECT TUMBLE_ROWTIME(pt, INTERVAL '1' HOUR) FROM bid GROUP BY TUMBLE(pt, INTERVAL '1' HOUR)", "a proctime window cannot provide a rowtime attribute (TUMBLE_ROWTIME)", None, None),
        ("SELECT COUNT(*) FROM auction GROUP BY TUMBLE(expires, INTERVAL '1' HOUR)", "a window can only be defined over a time attribute, but 'expires' is of type TIMESTAMP(3)", None, None),
        ("SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(expires), INTERVAL '1' HOUR))", "a window can only be defined over a time attribute, but 'expires' is of type TIMESTAMP(3)", "DESCRIPTOR(expires)", None),
        ("SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(channels), INTERVAL '1' HOUR))", "column 'channels' not found", "channels", "did you mean 'channel'?"),
        ("SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts)))", "TUMBLE is missing operand SIZE", None, None),
        ("SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MONTH))", "SIZE of a window must be a constant interval of days, hours, minutes or seconds", None, None),
        ("SELECT * FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND))", "the size of CUMULATE must be a multiple of its step: 10000 ms, 3000 ms", None, None),
        ("SELECT * FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), SLID => INTERVAL '3' SECOND))", "HOP has no operand 'SLID'", None, "did you mean 'SLIDE'?"),
        ("SELECT SUM(v) OVER w FROM s", "window 'w' not found", None, "add WINDOW w AS (...)"),
        ("SELECT SUM(v) OVER (ORDER BY k ROWS k PRECEDING) FROM s", "the bound of a ROWS frame must be a constant number of rows", "k", None),
        ("SELECT k FROM s UNION ALL SELECT k, w FROM t", "both sides of UNION must have 1 columns, got 2", None, None),
        ("SELECT k FROM s UNION ALL SELECT arr FROM bid", "column 1 of UNION has no common type: INT, ARRAY<INT>", None, "use CAST"),
        ("VALUES (1), (2, 3)", "rows of VALUES must have 1 columns, got 2", None, None),
        ("SELECT k FROM s ORDER BY 2", "ORDER BY position 2 is out of range", "2", "the query has 1 columns"),
        ("SELECT DISTINCT k FROM s ORDER BY v", "ORDER BY of SELECT DISTINCT must name columns of SELECT", None, None),
        ("SELECT /*+ STATE_TTL('s' = 'long') */ COUNT(*) FROM s GROUP BY k", "invalid duration 'long' in STATE_TTL of 's'", None, None),
        ("SELECT /*+ STATE_TTL('z' = '1d') */ COUNT(*) FROM s GROUP BY k", "hint STATE_TTL refers to 'z', which is not a table of this SELECT", "STATE_TTL", "available tables: s"),
        ("SELECT /*+ BROADCAST(z) */ s.k FROM s JOIN t ON s.k = t.k", "hint BROADCAST refers to 'z', which is not a table of this SELECT", "BROADCAST", "available tables: s, t"),
        ("SELECT * FROM TABLE(TUMBLE(bid, DESCRIPTOR(ts), INTERVAL '1' HOUR))", "the first operand of TUMBLE must be a table", "bid", "write TABLE t, or a query in parentheses"),
        ("SELECT SOURCE_WATERMARK() FROM s", "SOURCE_WATERMARK() cannot be used as a value", "SOURCE_WATERMARK()", None),
        ("SELECT *", "'*' needs a FROM", "*", None),
        ("SELECT * FROM circle", "view `default_catalog`.`default_database`.`circle` refers to itself", None, None),
        ("SELECT * FROM s JOIN t USING (v)", "column 'v' of USING is not in both tables", None, None),
        ("SELECT * FROM bid b JOIN auction FOR SYSTEM_TIME AS OF b.price AS a ON TRUE", "FOR SYSTEM_TIME AS OF must be a time attribute of the left table", None, None),
        ("SELECT * FROM bid, UNNEST(price) AS u(x)", "UNNEST needs an array, map or multiset, got BIGINT", None, None),
        ("SELECT * FROM s, LATERAL TABLE(split(k)) AS u(x)", "table function 'split' not found", "split(k)", None),
        ("SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY price MEASURES A.price AS p PATTERN (A) DEFINE A AS price > 1)", "MATCH_RECOGNIZE must be ordered by a time attribute, ascending", None, None),
        ("SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS p PATTERN (A B+) DEFINE A AS price > 1)", "greedy quantifiers are not allowed as the last element of a PATTERN", "B+", None),
        ("SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS p PATTERN (A) DEFINE B AS price > 1)", "'B' is not a variable of the PATTERN", None, "variables: A"),
        ("SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY ts MEASURES SUM(A.price + B.price) AS p PATTERN (A B) DEFINE A AS price > 1)", "SUM must be applied to columns of exactly one variable", None, None),
    ],
)  # fmt: skip
def test_invalid_query_is_rejected_with_its_position(
    query: str, message: str, marked: str | None, hint: str | None
) -> None:
    with pytest.raises(SqlError) as caught:
        plan(query)
    error = caught.value
    assert message in error.message
    if hint is not None:
        assert error.hint == hint
    assert error.position is not None
    if marked is not None:
        line, column = error.position
        assert line == 1
        assert query[column - 1 :][: error.length] == marked
