"""Statements other than queries: what they hold."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.sql import types as t
from penstock.sql.parse import statements as s
from penstock.sql.parse.dialect import to_sql
from penstock.sql.parse.parser import parse, position_of
from penstock.sql.parse.types import data_type_of


def one(text: str) -> Any:
    (statement,) = parse(text)
    assert statement.text == text.rstrip("; \n")
    return statement


def plain(statement: Any) -> dict[str, Any]:
    """Return the fields that are said: not the text, not the defaults."""
    kind = type(statement)
    fields = {name: field.default for name, field in kind.__dataclass_fields__.items()}
    found = {}
    for name, default in fields.items():
        value = getattr(statement, name)
        if name not in ("text", "source") and value != default and value != {} and value != ():
            found[name] = value
    return found


def test_a_table_is_defined_with_all_kinds_of_columns() -> None:
    table = one(
        """CREATE TEMPORARY TABLE IF NOT EXISTS c.d.t (
            id BIGINT NOT NULL COMMENT 'the key',
            `my col` ROW<x INT, y ARRAY<STRING>>,
            at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
            headers MAP<STRING, BYTES> METADATA,
            twice AS id * 2 COMMENT 'x2',
            p AS PROCTIME(),
            WATERMARK FOR at AS at - INTERVAL '5' SECOND,
            CONSTRAINT pk PRIMARY KEY (id, `my col`) NOT ENFORCED
        ) COMMENT 'what it is' PARTITIONED BY (id) WITH ('connector' = 'kafka', 'a.b' = 'it''s')"""
    )
    assert (table.table, table.temporary, table.if_not_exists) == (("c", "d", "t"), True, True)
    assert table.comment == "what it is"
    assert table.options == {"connector": "kafka", "a.b": "it's"}
    assert table.partition_keys == ("id",)
    assert table.primary_key == ("id", "my col")
    key, row, at, headers, twice, processing = table.columns
    assert (key.name, key.kind, key.type, key.comment) == (
        "id",
        "physical",
        t.BigIntType(nullable=False),
        "the key",
    )
    assert row.name == "my col"
    assert row.type.field_names() == ["x", "y"]
    assert (at.kind, at.metadata_key, at.virtual) == ("metadata", "timestamp", True)
    assert (headers.kind, headers.metadata_key, headers.virtual) == ("metadata", None, False)
    assert (twice.kind, twice.expression_text, twice.comment) == ("computed", "id * 2", "x2")
    assert processing.expression_text == "PROCTIME()"
    assert table.watermark.column == "at"
    assert table.watermark.expression_text == "at - INTERVAL '5' SECOND"
    assert to_sql(table.watermark.expression) == "at - INTERVAL '5' SECOND"


def test_a_key_may_stand_behind_its_column() -> None:
    table = one("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b STRING)")
    assert table.primary_key == ("a",)


def test_a_table_is_like_another_or_made_of_a_query() -> None:
    like = one("CREATE TABLE t WITH ('a' = 'b') LIKE u (INCLUDING ALL OVERWRITING OPTIONS)")
    assert like.like == s.LikeClause(
        table=("u",), options=(("INCLUDING", "ALL"), ("OVERWRITING", "OPTIONS"))
    )
    made = one("CREATE OR REPLACE TABLE t WITH ('a' = 'b') AS SELECT 1 AS x")
    assert made.or_replace
    assert made.query.text == "SELECT 1 AS x"
    named = one("CREATE TABLE t (a, b) WITH ('a' = 'b') AS SELECT 1, 2")
    assert [column.name for column in named.columns] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("DROP TABLE t", s.DropStatement, {"kind": "TABLE", "name": ("t",)}),
        ("DROP TEMPORARY VIEW IF EXISTS a.v", s.DropStatement, {"kind": "VIEW", "name": ("a", "v"), "temporary": True, "if_exists": True}),
        ("DROP DATABASE d CASCADE", s.DropStatement, {"kind": "DATABASE", "name": ("d",), "cascade": True}),
        ("DROP CATALOG c", s.DropStatement, {"kind": "CATALOG", "name": ("c",)}),
        ("DROP TEMPORARY SYSTEM FUNCTION f", s.DropStatement, {"kind": "FUNCTION", "name": ("f",), "temporary": True, "system": True}),
        ("CREATE DATABASE IF NOT EXISTS c.d COMMENT 'x' WITH ('a'='b')", s.CreateDatabaseStatement, {"database": ("c", "d"), "comment": "x", "options": {"a": "b"}, "if_not_exists": True}),
        ("CREATE CATALOG c WITH ('type'='generic_in_memory')", s.CreateCatalogStatement, {"catalog": "c", "options": {"type": "generic_in_memory"}}),
        ("ALTER DATABASE d SET ('a'='b')", s.AlterDatabaseStatement, {"database": ("d",), "options": {"a": "b"}}),
        ("CREATE TEMPORARY SYSTEM FUNCTION f AS 'm.f' LANGUAGE PYTHON", s.CreateFunctionStatement, {"function": ("f",), "implementation": "m.f", "temporary": True, "system": True}),
        ("CREATE FUNCTION IF NOT EXISTS d.f AS 'm.f' LANGUAGE PYTHON", s.CreateFunctionStatement, {"function": ("d", "f"), "implementation": "m.f", "if_not_exists": True}),
        ("ALTER FUNCTION f AS 'm.g' LANGUAGE PYTHON", s.AlterFunctionStatement, {"function": ("f",), "implementation": "m.g"}),
        ("ALTER TABLE t RENAME TO d.u", s.AlterTableStatement, {"table": ("t",), "actions": (("RENAME TO", ("d", "u")),)}),
        ("ALTER TABLE t RENAME a TO b", s.AlterTableStatement, {"table": ("t",), "actions": (("RENAME COLUMN", "a", "b"),)}),
        ("ALTER TABLE IF EXISTS t SET ('a'='b')", s.AlterTableStatement, {"table": ("t",), "if_exists": True, "actions": (("SET", {"a": "b"}),)}),
        ("ALTER TABLE t RESET ('a', 'b')", s.AlterTableStatement, {"table": ("t",), "actions": (("RESET", ("a", "b")),)}),
        ("ALTER TABLE t DROP (a, b)", s.AlterTableStatement, {"table": ("t",), "actions": (("DROP COLUMN", "a"), ("DROP COLUMN", "b"))}),
        ("ALTER TABLE t DROP PRIMARY KEY", s.AlterTableStatement, {"table": ("t",), "actions": (("DROP PRIMARY KEY",),)}),
        ("ALTER TABLE t DROP WATERMARK", s.AlterTableStatement, {"table": ("t",), "actions": (("DROP WATERMARK",),)}),
        ("ALTER TABLE t ADD PRIMARY KEY (a) NOT ENFORCED", s.AlterTableStatement, {"table": ("t",), "actions": (("ADD PRIMARY KEY", ("a",)),)}),
        ("ALTER VIEW v RENAME TO w", s.AlterViewStatement, {"view": ("v",), "new_name": ("w",)}),
        ("SHOW TABLES", s.ShowStatement, {"what": "TABLES"}),
        ("SHOW TABLES FROM c.d NOT LIKE 'a%'", s.ShowStatement, {"what": "TABLES", "target": ("c", "d"), "like": "a%", "not_like": True}),
        ("SHOW COLUMNS IN t LIKE 'x'", s.ShowStatement, {"what": "COLUMNS", "target": ("t",), "like": "x"}),
        ("SHOW CURRENT CATALOG", s.ShowStatement, {"what": "CURRENT CATALOG"}),
        ("SHOW USER FUNCTIONS", s.ShowStatement, {"what": "USER FUNCTIONS"}),
        ("SHOW CREATE TABLE c.d.t", s.ShowStatement, {"what": "CREATE TABLE", "target": ("c", "d", "t")}),
        ("SHOW JOBS", s.ShowStatement, {"what": "JOBS"}),
        ("DESCRIBE t", s.DescribeStatement, {"name": ("t",)}),
        ("DESC EXTENDED a.t", s.DescribeStatement, {"name": ("a", "t"), "extended": True}),
        ("DESCRIBE DATABASE EXTENDED d", s.DescribeStatement, {"name": ("d",), "kind": "DATABASE", "extended": True}),
        ("DESCRIBE JOB 'abc'", s.DescribeStatement, {"name": ("abc",), "kind": "JOB"}),
        ("USE CATALOG c", s.UseStatement, {"kind": "CATALOG", "name": ("c",)}),
        ("USE c.d", s.UseStatement, {"kind": "DATABASE", "name": ("c", "d")}),
        ("USE MODULES a, b", s.UseStatement, {"kind": "MODULES", "name": ("a", "b")}),
        ("SET", s.SetStatement, {}),
        ("SET 'a.b-c' = 'd'", s.SetStatement, {"key": "a.b-c", "value": "d"}),
        ("SET a.b-c = 10 s", s.SetStatement, {"key": "a.b-c", "value": "10 s"}),
        ("RESET", s.ResetStatement, {}),
        ("RESET 'a'", s.ResetStatement, {"key": "a"}),
        ("STOP JOB 'x' WITH SAVEPOINT WITH DRAIN", s.JobControlStatement, {"job_id": "x", "savepoint": True, "drain": True}),
        ("TRUNCATE TABLE t", s.TruncateStatement, {"table": ("t",)}),
        ("DELETE FROM t WHERE a = 1", s.DeleteStatement, {"table": ("t",)}),
        ("UPDATE t SET a = 1 WHERE b", s.DeleteStatement, {"table": ("t",), "kind": "UPDATE"}),
    ],
)  # fmt: skip
def test_a_statement_is_read(text: str, kind: type, fields: dict[str, Any]) -> None:
    statement = one(text)
    assert type(statement) is kind
    assert plain(statement) == fields


def test_columns_are_added_and_changed_with_their_place() -> None:
    altered = one(
        "ALTER TABLE t ADD (a INT NOT NULL FIRST, b AS a + 1 AFTER c, WATERMARK FOR x AS x)"
    )
    first, second, third = altered.actions
    assert (first[0], first[1].name, first[1].position) == ("ADD COLUMN", "a", "FIRST")
    assert (second[1].kind, second[1].position, second[1].after) == ("computed", "AFTER", "c")
    assert third[0] == "ADD WATERMARK"
    changed = one("ALTER TABLE t MODIFY a BIGINT COMMENT 'x'")
    assert changed.actions[0][0] == "MODIFY COLUMN"
    assert changed.actions[0][1].type == t.BigIntType()


def test_views_keep_the_text_of_their_query() -> None:
    view = one("CREATE TEMPORARY VIEW v (x, y) COMMENT 'c' AS SELECT a,  b FROM t;")
    assert (view.view, view.columns, view.comment) == (("v",), ("x", "y"), "c")
    assert view.query.text == "SELECT a,  b FROM t"


def test_an_insert_names_its_table_columns_partition_and_options() -> None:
    insert = one(
        "INSERT OVERWRITE c.d.t /*+ OPTIONS('a'='b') */ PARTITION (day = '2024', hour) (x, y) SELECT 1, 2"
    )
    assert (insert.table, insert.overwrite, insert.columns) == (("c", "d", "t"), True, ("x", "y"))
    assert insert.options == {"a": "b"}
    assert set(insert.partition) == {"day", "hour"}
    assert insert.partition["hour"] is None
    assert insert.query.text == "SELECT 1, 2"
    assert one("INSERT INTO t (SELECT 1)").columns is None
    assert one("INSERT INTO t VALUES (1), (2)").query.text == "VALUES (1), (2)"
    assert one("INSERT INTO t WITH a AS (SELECT 1) SELECT * FROM a").table == ("t",)


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
        "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;",
    ],
)
def test_a_statement_set_holds_its_inserts(text: str) -> None:
    block = one(text)
    assert [insert.table for insert in block.inserts] == [("a",), ("b",)]
    assert block.inserts[0].text == "INSERT INTO a SELECT 1"


def test_explain_holds_the_statement_and_what_to_show() -> None:
    assert one("EXPLAIN SELECT 1").details == ()
    assert one("EXPLAIN PLAN FOR SELECT 1").statement.text == "SELECT 1"
    explained = one("EXPLAIN CHANGELOG_MODE, PLAN_ADVICE INSERT INTO t SELECT 1")
    assert explained.details == ("CHANGELOG_MODE", "PLAN_ADVICE")
    assert isinstance(explained.statement, s.InsertStatement)
    block = one("EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END")
    assert isinstance(block.statement, s.StatementSetBlock)


def test_statements_are_split_at_semicolons_outside_of_quotes_and_comments() -> None:
    found = parse("SELECT ';' AS `a;b` -- ;\n; /* ; */ ;; SHOW TABLES;\n")
    assert [statement.text for statement in found] == ["SELECT ';' AS `a;b`", "SHOW TABLES"]
    assert parse("  -- nothing\n") == []


TYPES: list[tuple[str, t.DataType]] = [
    ("BOOLEAN", t.BooleanType()),
    ("TINYINT", t.TinyIntType()),
    ("SMALLINT NOT NULL", t.SmallIntType(nullable=False)),
    ("INTEGER NULL", t.IntType()),
    ("BIGINT", t.BigIntType()),
    ("FLOAT", t.FloatType()),
    ("DOUBLE PRECISION", t.DoubleType()),
    ("DECIMAL", t.DecimalType(10, 0)),
    ("DEC(5)", t.DecimalType(5, 0)),
    ("NUMERIC(20, 4)", t.DecimalType(20, 4)),
    ("CHAR", t.CharType(1)),
    ("CHAR(3)", t.CharType(3)),
    ("CHARACTER VARYING(9)", t.VarCharType(9)),
    ("STRING", t.VarCharType(2**31 - 1)),
    ("BINARY(2)", t.BinaryType(2)),
    ("BYTES", t.VarBinaryType(2**31 - 1)),
    ("DATE", t.DateType()),
    ("TIME(3) WITHOUT TIME ZONE", t.TimeType(3)),
    ("TIMESTAMP", t.TimestampType(6)),
    ("TIMESTAMP(3) WITHOUT TIME ZONE", t.TimestampType(3)),
    ("TIMESTAMP(9) WITH LOCAL TIME ZONE", t.LocalZonedTimestampType(9)),
    ("TIMESTAMP_LTZ(3) NOT NULL", t.LocalZonedTimestampType(3, nullable=False)),
    ("ARRAY<INT NOT NULL>", t.ArrayType(t.IntType(nullable=False))),
    ("INT ARRAY NOT NULL", t.ArrayType(t.IntType(), nullable=False)),
    ("INT MULTISET", t.MultisetType(t.IntType())),
    ("MAP<STRING, ARRAY<ARRAY<INT>>>", t.MapType(t.VarCharType(2**31 - 1), t.ArrayType(t.ArrayType(t.IntType())))),
    ("ROW<>", t.RowType([])),
    ("ROW(a INT, `b c` DATE)", t.RowType([t.RowField("a", t.IntType()), t.RowField("b c", t.DateType())])),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TYPES, ids=[text for text, _ in TYPES])
def test_a_type_is_read(text: str, expected: t.DataType) -> None:
    assert data_type_of(text) == expected
    assert data_type_of(expected) is expected


def test_types_of_intervals_have_their_parts() -> None:
    months = data_type_of("INTERVAL YEAR(4) TO MONTH")
    assert isinstance(months, t.YearMonthIntervalType)
    seconds = data_type_of("INTERVAL DAY TO SECOND(3)")
    assert isinstance(seconds, t.DayTimeIntervalType)
    assert seconds.resolution is t.DayTimeIntervalType.DayTimeResolution.DAY_TO_SECOND


def test_a_statement_knows_the_text_in_which_positions_are_counted() -> None:
    text = (
        "\n-- first\nSET 'a' = 'b';\nEXECUTE STATEMENT SET BEGIN\n  INSERT INTO c.t SELECT x;\nEND"
    )
    _, block = parse(text)
    assert isinstance(block, s.StatementSetBlock)
    (insert,) = block.inserts
    assert block.source == insert.source == insert.query.source == text
    assert position_of(insert.target) == (5, 15)
    assert position_of(insert.query.tree) == (5, 19)
    assert insert.table == ("c", "t")
