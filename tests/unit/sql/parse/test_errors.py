"""Errors of the parser: the place, what was expected, and what may have been meant."""

from __future__ import annotations

import pickle

import pytest

from penstock.sql.errors import (
    SqlError,
    SqlParseError,
    ValidationError,
    nearest,
    underlined,
)
from penstock.sql.parse.parser import parse, parse_expression
from penstock.sql.parse.types import data_type_of
from tests.builders.cases import by_name, check_all

# text, place, what the message says, what the hint says
WRONG: list[tuple[str, tuple[int, int], str, str | None]] = [
    ("SELEC 1", (1, 1), "unknown statement 'SELEC'", "SELECT"),
    ("CRATE TABLE t (a INT)", (1, 1), "unknown statement 'CRATE'", "CREATE"),
    ("SELECT a FRM t", (1, 14), "unexpected word 't'", "did you mean FROM instead of FRM?"),
    ("SELECT a\nFROM t\nWERE x = 1", (3, 6), "unexpected word 'x'", "WHERE"),
    ("SELECT FROM t", (1, 8), "an expression", None),
    ("SELECT a, FROM t", (1, 11), "expected an expression", None),
    ("SELECT a FROM", (1, 14), "the statement ends too early, expected a table", None),
    ("SELECT a FROM t GROUP a", (1, 23), "expected BY", None),
    ("SELECT a FROM t GROUP BY a ODER BY b", (1, 28), "unexpected word 'ODER'", "ORDER"),
    ("SELECT (1 + 2", (1, 14), "the statement ends too early", None),
    ("SELECT * FROM (SELECT id FROM orders", (1, 37), "expected ')'", None),
    ("SELECT 1)", (1, 9), "unexpected ')'", None),
    ("SELECT a b c FROM t", (1, 12), "unexpected word 'c'", None),
    ("SELECT * FROM t JOIN u", (1, 23), "ON or USING", "CROSS JOIN"),
    ("SELECT * FROM t LEFT SEMI JOIN u ON TRUE", (1, 22), "LEFT SEMI JOIN is not supported", "EXISTS"),
    ("SELECT CAST(a INT)", (1, 15), "AS", None),
    ("SELECT CAST(a AS INTT)", (1, 18), "expected a type", "INT"),
    ("SELECT a FROM t WHERE a BETWEEN 1 OR 2", (1, 35), "expected AND", None),
    ("SELECT CASE WHEN a THEN b", (1, 26), "END", None),
    ("SELECT CASE a END", (1, 15), "expected", None),
    ("SELECT 'abc", (1, 8), "string is not closed", "'"),
    ("SELECT `abc", (1, 8), "name is not closed", "`"),
    ("SELECT \"a\" FROM t", (1, 8), "unexpected character \"", "backquotes"),
    ("SELECT a FROM select", (1, 15), "unexpected word 'select'", "`select`"),
    ("SELECT a FROM a.b.c.d", (1, 21), "at most three parts", "backquotes"),
    ("SELECT INTERVAL 5 MINUT", (1, 19), "a unit", "MINUTE"),
    ("SELECT INTERVAL '5' MINUT", (1, 21), "a unit", "MINUTE"),
    ("SELECT INTERVAL 'x' MINUTE", (1, 17), "'x' is not an interval of MINUTE", None),
    ("SELECT INTERVAL '1:70' HOUR TO MINUTE", (1, 17), "not an interval", None),
    ("SELECT EXTRACT(YEER FROM a)", (1, 16), "a unit of time", "YEAR"),
    ("SELECT a FROM t FOR SYSTEM_TIME OF x", (1, 33), "expected AS", None),
    ("SELECT a FROM t /*+ OPTIONS('a'='c') OPTIONS('b'= ) */", (1, 51), "a string", None),
    ("SELECT /*+ OPTIONS('a'='b' */ a FROM t", (1, 27), "','", None),
    ("SELECT ARRAY(SELECT 1)", (1, 8), "ARRAY(query) is not supported", "ARRAY_AGG"),
    ("SELECT a FROM t LIMIT x", (1, 23), "a whole number", None),
    ("SELECT a FROM t TABLESAMPLE BERNOULLI(1)", (1, 17), "TABLESAMPLE is not supported", None),
    ("SELECT a FROM t MATCH_RECOGNIZE (ORDER BY a DEFINE A AS b)", (1, 45), "PATTERN", None),
    ("SELECT a FROM t MATCH_RECOGNIZE (PATTERN (A{3,2}) DEFINE A AS b)", (1, 44), "from 3 to 2", None),
    ("CREATE TABLE t (a BIGNT)", (1, 19), "a type", "BIGINT"),
    ("CREATE TABLE t (a INT b STRING)", (1, 23), "unexpected word 'b'", None),
    ("CREATE TABLE t (a INT, a STRING)", (1, 24), "duplicate column 'a'", None),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a))", (1, 38), "cannot be enforced", "NOT ENFORCED"),
    ("CREATE TABLE t (a DECIMAL(50, 2))", (1, 19), "precision must be from 1 to 38", None),
    ("CREATE TABLE t (a TIMESTAMP WITH TIME ZONE)", (1, 34), "LOCAL", "TIMESTAMP_LTZ"),
    ("CREATE TABLE t (a INT) WITH (connector = 'x')", (1, 30), "a key in quotes", "'connector'"),
    ("CREATE TABLE t (a INT) WITH ('a'='b', 'a'='c')", (1, 39), "duplicate option 'a'", None),
    ("CREATE TABLE t (WATERMARK FOR a AS a, WATERMARK FOR b AS b)", (1, 39), "one watermark", None),
    ("CREATE TABEL t (a INT)", (1, 8), "unexpected word 'TABEL'", "TABLE"),
    ("CREATE FUNCTION f AS 'a.b'", (1, 22), "Java functions are not supported", "LANGUAGE PYTHON"),
    ("INSERT t SELECT 1", (1, 8), "expected INTO or OVERWRITE", None),
    ("INSERT INTO t VALUES (1", (1, 24), "the statement ends too early", None),
    ("EXECUTE STATEMENT SET BEGIN END", (1, 29), "at least one INSERT", None),
    ("SHOW TABELS", (1, 6), "unexpected word 'TABELS'", "TABLES"),
    ("SET 'a' 'b'", (1, 9), "expected =", None),
    ("CALL f()", (1, 1), "CALL is not supported", "procedures are not supported"),
    ("ADD JAR 'x'", (1, 1), "ADD is not supported", "pip"),
    ("SELECT a AS FROM t", (1, 13), "a name for the column", "`FROM`"),
    ("SELECT (a - b) MONTH TO DAY FROM t", (1, 25), "cannot go from MONTH to DAY", None),
    ("SELECT /*+ EARLY_FIRE('delay'='1s') */ a FROM t", (1, 12), "unknown hint EARLY_FIRE", "STATE_TTL"),
    ("SELECT /*+ BROADCAST */ a FROM t", (1, 12), "BROADCAST needs tables", "BROADCAST(a, b)"),
    ("SELECT /*+ BROADCAST('a'='b') */ a FROM t", (1, 12), "BROADCAST needs tables", None),
    ("SELECT /*+ STATE_TTL(t) */ a FROM t", (1, 12), "STATE_TTL needs options", None),
    ("SELECT a FROM t /*+ OPTIONS() */", (1, 21), "OPTIONS needs options", "OPTIONS('key'"),
    ("SELECT /*+ LOOKUP('tabel'='t') */ a FROM t", (1, 12), "LOOKUP is missing option 'table'", None),
    ("SELECT 0x1F", (1, 8), "hexadecimal numbers are not supported", "X'1F'"),
    ("SELECT 1 SELECT 2", (1, 10), "unexpected word 'SELECT'", None),
]  # fmt: skip


def test_a_wrong_statement_is_refused() -> None:
    def check(case: tuple[str, tuple[int, int], str, str | None]) -> None:
        text, place, message, hint = case
        with pytest.raises(SqlParseError) as caught:
            parse(text)
        error = caught.value
        assert error.position == place, str(error)
        assert message.replace("expected =", "expected '='") in error.message
        if hint is not None:
            assert hint in str(error.hint)
        shown = str(error)
        assert f"(line {place[0]}, column {place[1]})" in shown
        line, marks = shown.split("\n")[2:4]
        assert line.strip() == text.split("\n")[place[0] - 1].strip()
        assert marks.index("^") == place[1] + 1

    check_all(by_name(WRONG, lambda case: case[0]), check)


def test_names_of_tables_are_not_taken_for_misspelt_keywords() -> None:
    with pytest.raises(SqlParseError) as caught:
        parse("SELECT * FROM (SELECT id FROM orders")
    assert caught.value.hint is None


def test_keywords_are_not_taken_for_misspelt_ones() -> None:
    with pytest.raises(SqlParseError) as caught:
        parse("EXPLAIN")
    assert caught.value.hint is None


def test_expressions_and_types_end_where_their_text_ends() -> None:
    with pytest.raises(SqlParseError, match="unexpected word 'b'"):
        parse_expression("a b")
    with pytest.raises(SqlParseError, match="unexpected"):
        data_type_of("INT INT")


def test_position_can_be_set_on_an_error_later() -> None:
    error = ValidationError("column 'x' not found", hint="did you mean 'y'?")
    assert error.at((2, 3), "SELECT\n  x", length=1) is error
    assert str(error) == (
        "column 'x' not found (line 2, column 3)\ndetail:\n    x\n    ^\nhint: did you mean 'y'?"
    )
    assert error.at((9, 9)).position == (2, 3)


def test_an_error_is_pickled_with_its_place() -> None:
    error = SqlError("m", hint="h", position=(1, 2), length=3, statement="abcdef")
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == str(error)
    assert (copied.position, copied.length, copied.statement) == ((1, 2), 3, "abcdef")


def test_long_lines_are_cut_around_the_place() -> None:
    text = "SELECT " + ", ".join(f"column_{number}" for number in range(100))
    column = text.index("column_77") + 1
    line, marks = underlined(text, (1, column), 9).split("\n")
    assert len(line) <= 104
    assert line[marks.index("^") :][:9] == "column_77"


def test_the_nearest_name_is_found_whatever_the_case() -> None:
    assert nearest("Prise", ["PRICE", "name"]) == "PRICE"
    assert nearest("zzz", ["PRICE", "name"]) is None


def test_too_deeply_nested_statement_is_rejected() -> None:
    with pytest.raises(SqlParseError, match="nested too deeply"):
        parse("SELECT " + "(" * 3000 + "1" + ")" * 3000)
