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
# Of other columns: with DISTINCT, a row has two values that are told apart.
_MORE_CALLS = ("CAST(COUNT(*) AS INT)", "CAST(COUNT(*) AS INT)", "CAST(COUNT(DISTINCT a) AS INT)", "SUM(a) FILTER (WHERE c > 2)", "SUM(DISTINCT b)", "CAST(COUNT(*) FILTER (WHERE c > 4) AS INT)")  # fmt: skip
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
        "SELECT {1} AS a, {4} AS b, {2} AS c FROM ({0}) GROUP BY {1}{3}".format,
        below,
        st.sampled_from(["a", "b"]),
        st.sampled_from(_CALLS),
        having,
        st.sampled_from(_MORE_CALLS),
    )


def _grouped_by_two(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT a, b, {1} AS c FROM ({0}) GROUP BY a, b".format, below, st.sampled_from(_CALLS)
    )


def _distinct(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("SELECT DISTINCT {1} FROM ({0})".format, below, st.sampled_from(_PROJECTIONS))


_equal = st.builds("l.{} = r.{}".format, _column, _column)
_NEARLY_EQUAL = ("l.a + 1 = r.b", "l.b = r.a - r.c", "l.b IS NOT DISTINCT FROM r.c", "l.a < r.b", "l.a = r.a AND l.b = r.b")  # fmt: skip


def _joined(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT {3} FROM ({0}) l {2} JOIN ({1}) r ON {4}{5}".format,
        below,
        below,
        st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"]),
        st.sampled_from(_JOINED),
        st.one_of(_equal, _equal, _equal, st.sampled_from(_NEARLY_EQUAL)),
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
        st.sampled_from(["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"]),
        st.sampled_from(["PARTITION BY b ", "PARTITION BY b ", "PARTITION BY b, c ", ""]),
        st.sampled_from(["", " DESC"]),
        st.sampled_from(["", " DESC"]),
        st.sampled_from(["<= 1", "<= 2", "= 2", "< 4", "BETWEEN 2 AND 3"]),
    )


def _first_by_column(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The partition says how many rows it has, at most as many as a number."""
    return st.builds(
        "SELECT {1} FROM (SELECT a, b, c, {2}() OVER (PARTITION BY b ORDER BY {3}) AS rn FROM ({0})) WHERE rn <= b{4}".format,
        below,
        st.sampled_from(["a, b, c", "a, CAST(rn AS INT) AS b, c"]),
        st.sampled_from(["ROW_NUMBER", "RANK"]),
        st.sampled_from(["a, c", "c DESC, a"]),
        st.sampled_from(["", " AND rn <= 2", " AND rn >= 2", " AND rn BETWEEN 2 AND 3"]),
    )


def _compared(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Rows compared with one value of others."""
    return st.builds(
        "SELECT a, b, c FROM ({0}) WHERE c {2} (SELECT {3} FROM ({1}))".format,
        below,
        below,
        st.sampled_from([">", "<="]),
        st.sampled_from(["MAX(b)", "MIN(a)", "SUM(c)"]),
    )


def _any_rows(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Which rows LIMIT gives without an order is chance, but not how many."""
    return st.builds(
        "SELECT 1 AS a, 2 AS b, CAST(COUNT(*) AS INT) AS c FROM (SELECT a, b, c FROM ({0}) LIMIT {1}{2}) HAVING COUNT(*) > 0".format,
        below,
        st.integers(1, 4),
        st.sampled_from(["", " OFFSET 1"]),
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
        st.sampled_from(["SUM(c)", "COUNT(*)", "MAX(c)", "MIN(a)", "RANK()", "DENSE_RANK()"]),
        st.sampled_from(["a", "c", "a, c"]),
    )


def _over_rows(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Frames of so many rows; those that are equal in the order are equal in all columns."""
    return st.builds(
        "SELECT a, CAST({1} AS INT) AS b, c FROM ({0})".format,
        below,
        st.builds(
            "{} OVER (PARTITION BY b ORDER BY {}{})".format,
            st.sampled_from(
                [
                    "SUM(c)",
                    "COUNT(c)",
                    "MAX(c)",
                    "FIRST_VALUE(COALESCE(a, 0))",
                    "LAST_VALUE(COALESCE(c, 0))",
                ]
            ),
            st.sampled_from(["a, c", "c DESC, a"]),
            st.sampled_from(
                [
                    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                    " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
                    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                ]
            ),
        )
        | st.sampled_from(
            [
                "LAG(c) OVER (PARTITION BY b ORDER BY a, c)",
                "LEAD(a) OVER (PARTITION BY b ORDER BY c, a)",
                "ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC, c)",
            ]
        ),
    )


_SHAPES = (_filtered, _projected, _grouped, _grouped_by_two, _distinct, _joined, _joined, _chosen, _in, _compared, _combined, _first, _first, _first_by_column, _limited, _any_rows, _over, _over_rows)  # fmt: skip


def nested_queries(depth: int = 3, leaves: Sequence[str] = LEAVES) -> st.SearchStrategy[str]:
    """Queries of so many levels at most over some others; by default over the tables `orders` (id, person, price) and `people` (id, name, age)."""
    below: st.SearchStrategy[str] = st.sampled_from(leaves)
    for _ in range(depth):
        shaped = [shape(below) for shape in _SHAPES]
        # Most levels are shapes: a query that is a table alone tells little.
        below = st.one_of(*shaped, st.sampled_from(leaves))
    return below
