"""Random queries that are nested in each other, for Hypothesis to draw and to shrink.

Every query has the whole numbers a, b and c as its columns, so that any of them can stand where another one needs a table. They are written
in SQL that SQLite understands too. Rows that the order of a Top-N leaves equal are equal in all columns, so results do not depend on the order
in which rows come.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

COLUMNS = ("a", "b", "c")
LEAVES = (
    "SELECT id AS a, person AS b, price AS c FROM orders",
    "SELECT id AS a, age AS b, age AS c FROM people",
    "SELECT person AS a, price AS b, id AS c FROM orders",
)
_PROJECTIONS = ("a, c AS b, b AS c", "b AS a, a AS b, c", "a, b + c AS b, c", "a, COALESCE(b, 0) AS b, c", "c AS a, b, b AS c", "a, 1 AS b, c")  # fmt: skip
_CALLS = ("MAX(c)", "MIN(c)", "SUM(c)", "CAST(COUNT(c) AS INT)", "CAST(COUNT(DISTINCT c) AS INT)", "MAX(c) FILTER (WHERE a > 2)", "SUM(DISTINCT c)", "CAST(COUNT(DISTINCT c) FILTER (WHERE a < 5) AS INT)")  # fmt: skip
_JOINED = ("l.a AS a, r.b AS b, r.c AS c", "l.a AS a, r.a AS b, l.c AS c", "r.a AS a, l.b AS b, l.a AS c")  # fmt: skip

_column = st.sampled_from(COLUMNS)
_number = st.integers(0, 6).map(str)
_compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def _condition(draw: st.DrawFn, depth: int = 1) -> str:
    if depth and draw(st.booleans()):
        one, other = draw(_condition(depth - 1)), draw(_condition(depth - 1))
        return f"({one} {draw(st.sampled_from(['AND', 'OR']))} {other})"
    column = draw(_column)
    if draw(st.integers(0, 5)) == 0:
        return f"{column} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
    return f"{column} {draw(_compare)} {draw(st.one_of(_number, _column))}"


def _filtered(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("SELECT a, b, c FROM ({}) WHERE {}".format, below, _condition())


def _projected(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("SELECT {1} FROM ({0})".format, below, st.sampled_from(_PROJECTIONS))


def _grouped(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    having = st.sampled_from(["", " HAVING COUNT(*) > 1", " HAVING MAX(c) > 3"])
    return st.builds(
        "SELECT {1} AS a, CAST(COUNT(*) AS INT) AS b, {2} AS c FROM ({0}) GROUP BY {1}{3}".format,
        below,
        st.sampled_from(["a", "b"]),
        st.sampled_from(_CALLS),
        having,
    )


def _grouped_by_two(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT a, b, {1} AS c FROM ({0}) GROUP BY a, b".format, below, st.sampled_from(_CALLS)
    )


def _distinct(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("SELECT DISTINCT {1} FROM ({0})".format, below, st.sampled_from(_PROJECTIONS))


def _joined(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT {4} FROM ({0}) l {2} JOIN ({1}) r ON l.{3[0]} = r.{3[1]}{5}".format,
        below,
        below,
        st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"]),
        st.tuples(_column, _column),
        st.sampled_from(_JOINED),
        st.sampled_from(["", "", " AND l.c > r.b", " AND l.a = r.c", " AND l.b > 1", " AND r.b > 1"]),
    )  # fmt: skip


def _chosen(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT a, b, c FROM ({0}) l WHERE {2}EXISTS (SELECT 1 FROM ({1}) r WHERE r.{3} = l.b{4})".format,
        below,
        below,
        st.sampled_from(["", "NOT "]),
        _column,
        st.sampled_from(["", " AND r.c > l.c", " AND l.a > 1", " AND r.b > 1"]),
    )


def _in(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT a, b, c FROM ({0}) WHERE b {2} (SELECT {3} FROM ({1}))".format,
        below,
        below,
        st.sampled_from(["IN", "NOT IN"]),
        _column,
    )


def _combined(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT a, b, c FROM ({0}) {2} SELECT a, b, c FROM ({1})".format,
        below,
        below,
        st.sampled_from(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"]),
    )


def _first(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT {1} FROM (SELECT a, b, c, {2}() OVER ({3}ORDER BY a{4}, c{5}, b) AS rn FROM ({0})) WHERE rn {6}".format,
        below,
        st.sampled_from(["a, b, c", "a, b, c", "a, CAST(rn AS INT) AS b, c"]),
        st.sampled_from(["ROW_NUMBER", "ROW_NUMBER", "RANK"]),
        st.sampled_from(["PARTITION BY b ", "PARTITION BY b ", "PARTITION BY b, c ", ""]),
        st.sampled_from(["", " DESC"]),
        st.sampled_from(["", " DESC"]),
        st.sampled_from(["<= 1", "<= 2", "= 2", "< 4", "BETWEEN 2 AND 3"]),
    )


def _limited(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT a, b, c FROM (SELECT a, b, c FROM ({0}) ORDER BY {1} LIMIT {2} OFFSET {3})".format,
        below,
        st.sampled_from(["a, b, c", "c DESC, b, a DESC"]),
        st.integers(1, 4),
        st.integers(0, 2),
    )


def _over(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT a, CAST({1} OVER (PARTITION BY b ORDER BY {2}) AS INT) AS b, c FROM ({0})".format,
        below,
        st.sampled_from(["SUM(c)", "COUNT(*)", "MAX(c)", "MIN(a)"]),
        st.sampled_from(["a", "c", "a, c"]),
    )


_SHAPES = (_filtered, _projected, _grouped, _grouped_by_two, _distinct, _joined, _chosen, _in, _combined, _first, _limited, _over)  # fmt: skip


def nested_queries(depth: int = 3, leaves: Sequence[str] = LEAVES) -> st.SearchStrategy[str]:
    """Queries of so many levels at most over some others; by default over the tables `orders` (id, person, price) and `people` (id, name, age)."""
    below: st.SearchStrategy[str] = st.sampled_from(leaves)
    for _ in range(depth):
        shaped = [shape(below) for shape in _SHAPES]
        # Most levels are shapes: a query that is a table alone tells little.
        below = st.one_of(*shaped, st.sampled_from(leaves))
    return below
