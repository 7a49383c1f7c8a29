"""Statements that define, change, show and drop what catalogs hold."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import (
    ArgumentError,
    ConfigurationError,
    PenstockError,
    UnsupportedOperationError,
)
from penstock.sql.errors import ValidationError
from penstock.table import EnvironmentSettings, ResultKind, TableEnvironment
from penstock.table.udf import udf

TABLE = """
CREATE TABLE orders (
  id BIGINT NOT NULL,
  name STRING COMMENT 'who',
  day STRING,
  ts TIMESTAMP(3),
  total AS id * 2,
  at_offset BIGINT METADATA FROM 'offset' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'all of them'
PARTITIONED BY (day)
WITH ('connector' = 'datagen', 'number-of-rows' = '3')
"""


@pytest.fixture
def env() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(TABLE)
    return made


def rows(env: TableEnvironment, statement: str) -> list[tuple[object, ...]]:
    with env.execute_sql(statement).collect() as found:
        return [tuple(row) for row in found]


def run(env: TableEnvironment, *statements: str) -> None:
    for statement in statements:
        env.execute_sql(statement)


def names(env: TableEnvironment, table: str = "orders") -> list[object]:
    return [row[0] for row in rows(env, f"DESCRIBE {table}")]


def test_describe_shows_all_properties_of_columns(env: TableEnvironment) -> None:
    assert rows(env, "DESCRIBE orders") == [
        ("id", "BIGINT", False, "PRI(id)", None, None, None),
        ("name", "STRING", True, None, None, None, "who"),
        ("day", "STRING", True, None, None, None, None),
        ("ts", "TIMESTAMP(3) *ROWTIME*", True, None, None, "ts - INTERVAL '5' SECOND", None),
        ("total", "BIGINT", False, None, "AS id * 2", None, None),
        ("at_offset", "BIGINT", True, None, "METADATA FROM 'offset' VIRTUAL", None, None),
    ]


def test_the_statement_that_is_shown_makes_the_same_table(env: TableEnvironment) -> None:
    ((text,),) = rows(env, "SHOW CREATE TABLE orders")
    described = rows(env, "DESCRIBE orders")
    run(env, "DROP TABLE orders", str(text))
    assert rows(env, "DESCRIBE orders") == described
    assert rows(env, "SHOW CREATE TABLE orders") == [(text,)]


def test_a_definition_has_a_result_that_says_ok(
    env: TableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    result = env.execute_sql("CREATE DATABASE d")
    result.print()
    assert result.get_result_kind() is ResultKind.SUCCESS
    assert result.get_job_client() is None
    assert capsys.readouterr().out == "OK\n"


@pytest.mark.parametrize(
    ("clause", "columns", "has_watermark", "has_key", "options"),
    [
        ("", 6, True, True, {"connector", "number-of-rows"}),
        ("(EXCLUDING ALL)", 4, False, False, set()),
        ("(INCLUDING ALL)", 6, True, True, {"connector", "number-of-rows"}),
        ("(EXCLUDING WATERMARKS)", 6, False, True, {"connector", "number-of-rows"}),
        ("(EXCLUDING GENERATED)", 5, True, True, {"connector", "number-of-rows"}),
        ("(EXCLUDING METADATA)", 5, True, True, {"connector", "number-of-rows"}),
        ("(EXCLUDING CONSTRAINTS)", 6, True, False, {"connector", "number-of-rows"}),
        ("(EXCLUDING OPTIONS)", 6, True, True, set()),
    ],
)
def test_like_copies_the_requested_parts(
    env: TableEnvironment,
    clause: str,
    columns: int,
    has_watermark: bool,
    has_key: bool,
    options: set[str],
) -> None:
    run(env, f"CREATE TABLE copy LIKE orders {clause}")
    found = env.context.catalogs.get(["copy"])
    assert len(found.columns or ()) == columns
    assert (found.watermark is not None) is has_watermark  # type: ignore[union-attr]
    assert (found.primary_key is not None) is has_key  # type: ignore[union-attr]
    assert set(found.options) == options  # type: ignore[union-attr]


def test_like_overwrites_options_unless_they_are_only_included(env: TableEnvironment) -> None:
    run(env, "CREATE TABLE a (x AS id + 1) WITH ('number-of-rows' = '9') LIKE orders")
    assert env.context.catalogs.get(["a"]).options["number-of-rows"] == "9"  # type: ignore[union-attr]
    with pytest.raises(ValidationError, match="option 'number-of-rows' already exists"):
        run(
            env,
            "CREATE TABLE b WITH ('number-of-rows' = '9') LIKE orders (INCLUDING OPTIONS)",
        )


@pytest.mark.parametrize(
    ("action", "columns"),
    [
        ("ADD extra INT", ["id", "name", "day", "ts", "total", "at_offset", "extra"]),
        ("ADD extra INT FIRST", ["extra", "id", "name", "day", "ts", "total", "at_offset"]),
        ("ADD extra INT AFTER id", ["id", "extra", "name", "day", "ts", "total", "at_offset"]),
        (
            "ADD (a INT, b AS id + 1)",
            ["id", "name", "day", "ts", "total", "at_offset", "a", "b"],
        ),
        ("MODIFY name INT FIRST", ["name", "id", "day", "ts", "total", "at_offset"]),
        ("DROP name", ["id", "day", "ts", "total", "at_offset"]),
        ("DROP (name, total)", ["id", "day", "ts", "at_offset"]),
        ("RENAME name TO who", ["id", "who", "day", "ts", "total", "at_offset"]),
    ],
)
def test_alter_table_changes_columns(
    env: TableEnvironment, action: str, columns: list[object]
) -> None:
    run(env, f"ALTER TABLE orders {action}")
    assert names(env) == columns


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("DROP id", "is part of the primary key"),
        ("DROP day", "is partitioned by column 'day'"),
        ("DROP ts", "is used by the watermark"),
        ("RENAME id TO number", "is used by computed column 'total'"),
        ("ADD name INT", "column 'name' already exists"),
        ("MODIFY nam INT", "column 'nam' does not exist"),
        ("ADD extra INT AFTER nowhere", "column 'nowhere' does not exist"),
        ("ADD PRIMARY KEY (name) NOT ENFORCED", "already has a primary key"),
        ("ADD WATERMARK FOR ts AS ts", "already has a watermark"),
        ("ADD x AS nothing + 1", "computed column 'x'"),
    ],
)
def test_invalid_alter_table_is_rejected_and_changes_nothing(
    env: TableEnvironment, action: str, reason: str
) -> None:
    before = rows(env, "DESCRIBE orders")
    with pytest.raises(ValidationError, match=reason):
        run(env, f"ALTER TABLE orders {action}")
    assert rows(env, "DESCRIBE orders") == before


def test_alter_table_changes_keys_watermarks_options_and_the_name(env: TableEnvironment) -> None:
    run(
        env,
        "ALTER TABLE orders DROP PRIMARY KEY",
        "ALTER TABLE orders DROP WATERMARK",
        "ALTER TABLE orders ADD PRIMARY KEY (name) NOT ENFORCED",
        "ALTER TABLE orders ADD WATERMARK FOR ts AS ts",
        "ALTER TABLE orders MODIFY WATERMARK FOR ts AS ts - INTERVAL '1' HOUR",
        "ALTER TABLE orders SET ('rows-per-second' = '1')",
        "ALTER TABLE orders RESET ('number-of-rows')",
        "ALTER TABLE orders RENAME TO bills",
    )
    found = env.context.catalogs.get(["bills"])
    assert found.primary_key == ("name",)  # type: ignore[union-attr]
    assert found.watermark[2] == "ts - INTERVAL '1' HOUR"  # type: ignore[union-attr, index]
    assert found.options == {"connector": "datagen", "rows-per-second": "1"}  # type: ignore[union-attr]
    assert env.list_tables() == ["bills"]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE TABLE orders (a INT) WITH ('connector' = 'print')", "table .* already exists"),
        (
            "CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'print')",
            "the primary key of .* refers to unknown column 'b'",
        ),
        (
            "CREATE TABLE t (a INT) PARTITIONED BY (b) WITH ('connector' = 'print')",
            "the partition of .* refers to unknown column 'b'",
        ),
        (
            "CREATE TABLE t (a INT, WATERMARK FOR b AS b) WITH ('connector' = 'print')",
            "the watermark of .* refers to unknown column 'b'",
        ),
        (
            "CREATE TABLE nowhere.t (a INT) WITH ('connector' = 'print')",
            "database 'nowhere' does not exist",
        ),
        (
            "CREATE TABLE no.where.t (a INT) WITH ('connector' = 'print')",
            "catalog 'no' does not exist",
        ),
        ("CREATE VIEW v AS SELECT nam FROM orders", "column 'nam' not found"),
        ("CREATE VIEW v (a, b) AS SELECT id FROM orders", "names 2 columns"),
        (
            "CREATE CATALOG default_catalog WITH ('type' = 'generic_in_memory')",
            "catalog 'default_catalog' already exists",
        ),
        ("CREATE DATABASE default_database", "database 'default_database' already exists"),
        ("DROP TABLE order", "table .*order.* does not exist"),
        ("DROP VIEW orders", "is a table"),
        ("DROP TEMPORARY TABLE orders", "temporary table .* does not exist"),
        ("DROP DATABASE default_database", "is in use"),
        ("DROP CATALOG default_catalog", "is in use"),
        ("DROP FUNCTION f", "function 'f' does not exist"),
        ("USE nowhere", "database 'nowhere' does not exist"),
        ("USE CATALOG nowhere", "catalog 'nowhere' does not exist"),
        ("DESCRIBE order", "table or view .* does not exist"),
        ("SHOW CREATE VIEW orders", "is a table"),
        ("SHOW PARTITIONS nowhere", "table or view .* does not exist"),
        ("ALTER TABLE nowhere DROP a", "table or view .* does not exist"),
        ("ALTER VIEW orders RENAME TO v", "is a table"),
        ("STOP JOB 'abc'", "this session has no job 'abc'"),
    ],
)
def test_unknown_or_duplicate_objects_are_rejected(
    env: TableEnvironment, statement: str, reason: str
) -> None:
    if "table .*order" in reason:
        statement = "DROP TABLE `order`"
    statement = statement.replace("DESCRIBE order", "DESCRIBE `order`")
    with pytest.raises(ValidationError, match=reason):
        env.execute_sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE IF NOT EXISTS orders (a INT) WITH ('connector' = 'print')",
        "CREATE DATABASE IF NOT EXISTS default_database",
        "CREATE CATALOG IF NOT EXISTS default_catalog WITH ('type' = 'generic_in_memory')",
        "DROP TABLE IF EXISTS nowhere",
        "DROP VIEW IF EXISTS nowhere",
        "DROP DATABASE IF EXISTS nowhere",
        "DROP CATALOG IF EXISTS nowhere",
        "DROP FUNCTION IF EXISTS nowhere",
        "DROP TEMPORARY SYSTEM FUNCTION IF EXISTS nowhere",
        "ALTER TABLE IF EXISTS nowhere DROP a",
    ],
)
def test_if_exists_and_if_not_exists_change_nothing(env: TableEnvironment, statement: str) -> None:
    before = rows(env, "DESCRIBE orders")
    assert env.execute_sql(statement).get_result_kind() is ResultKind.SUCCESS
    assert rows(env, "DESCRIBE orders") == before


def test_databases_and_catalogs_are_made_used_shown_and_dropped(env: TableEnvironment) -> None:
    run(
        env,
        "CREATE CATALOG c COMMENT 'mine' WITH ('type' = 'generic_in_memory', 'default-database' = 'd0')",
        "USE CATALOG c",
        "CREATE DATABASE d1 COMMENT 'x' WITH ('a' = 'b')",
        "ALTER DATABASE d1 SET ('a' = 'c')",
        "USE d1",
        "CREATE TABLE t (a INT) WITH ('connector' = 'print')",
    )
    assert rows(env, "SHOW CATALOGS") == [("default_catalog",), ("c",)]
    assert rows(env, "SHOW DATABASES") == [("d0",), ("d1",)]
    assert rows(env, "SHOW CURRENT CATALOG") + rows(env, "SHOW CURRENT DATABASE") == [
        ("c",),
        ("d1",),
    ]
    assert rows(env, "SHOW TABLES FROM default_catalog.default_database") == [("orders",)]
    assert ("options", "(a=c)") in rows(env, "DESCRIBE DATABASE EXTENDED d1")
    assert ("option:default-database", "d0") in rows(env, "DESCRIBE CATALOG EXTENDED c")
    assert "COMMENT 'mine'" in str(rows(env, "SHOW CREATE CATALOG c"))
    run(env, "USE default_catalog.default_database")
    with pytest.raises(ValidationError, match="is not empty"):
        env.execute_sql("DROP DATABASE c.d1 RESTRICT")
    run(env, "DROP DATABASE c.d1 CASCADE", "DROP CATALOG c")
    assert env.list_catalogs() == ["default_catalog"]


def test_temporary_objects_stand_in_front_of_those_of_catalogs(env: TableEnvironment) -> None:
    run(
        env,
        "CREATE TABLE t (a INT) WITH ('connector' = 'print')",
        "CREATE TEMPORARY TABLE t (b INT) WITH ('connector' = 'print')",
    )
    assert names(env, "t") == ["b"]
    with pytest.raises(ValidationError, match="shadows the permanent one"):
        env.execute_sql("DROP TABLE t")
    run(env, "DROP TEMPORARY TABLE t")
    assert names(env, "t") == ["a"]


def test_a_view_knows_the_names_of_where_it_was_made(env: TableEnvironment) -> None:
    run(
        env,
        "CREATE VIEW v AS SELECT id, name FROM orders",
        "CREATE DATABASE other",
        "USE other",
    )
    assert names(env, "default_database.v") == ["id", "name"]


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("", ["a_b", "abc", "orders"]),
        (" LIKE 'a%'", ["a_b", "abc"]),
        (" NOT LIKE 'a%'", ["orders"]),
        (" LIKE 'a_b'", ["a_b"]),
        (r" LIKE 'a\_b'", ["a_b"]),
        (r" LIKE 'a\_c'", []),
        (" LIKE 'ORDERS'", []),
    ],
)
def test_show_keeps_the_names_that_go_with_a_pattern(
    env: TableEnvironment, clause: str, found: list[str]
) -> None:
    run(
        env,
        "CREATE TABLE abc (a INT) WITH ('connector' = 'print')",
        "CREATE TABLE a_b (a INT) WITH ('connector' = 'print')",
    )
    assert [row[0] for row in rows(env, f"SHOW TABLES{clause}")] == found


def test_options_are_set_shown_and_reset(env: TableEnvironment) -> None:
    run(env, "SET 'table.local-time-zone' = 'Asia/Tokyo'", "SET 'table.exec.state.ttl' = '1 h'")
    assert ("table.exec.state.ttl", "1 h") in rows(env, "SET")
    assert env.get_config().get_local_timezone() == "Asia/Tokyo"
    run(env, "RESET 'table.exec.state.ttl'")
    assert env.get_config().get("table.exec.state.ttl", "none") == "none"
    run(env, "SET 'execution.runtime-mode' = 'batch'", "RESET")
    assert rows(env, "SET") == [("execution.runtime-mode", "STREAMING")]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SET 'table.exec.state.tll' = '1 h'", "did you mean table.exec.state.ttl"),
        ("SET 'table.exec.state.ttl' = 'soon'", "table.exec.state.ttl"),
        ("SET 'paralelism.default' = '2'", "did you mean parallelism.default"),
        ("SET 'table.local-time-zone' = 'Mars/Olympus'", "unknown time zone"),
        ("SET 'table.sql-dialect' = 'hive'", "unknown SQL dialect 'hive'"),
    ],
)
def test_options_that_cannot_be_are_refused(
    env: TableEnvironment, statement: str, reason: str
) -> None:
    with pytest.raises(PenstockError, match=reason):
        env.execute_sql(statement)


@pytest.mark.parametrize(
    ("zone", "name"),
    [("Europe/Berlin", "Europe/Berlin"), ("GMT+08:00", "Etc/GMT-8"), ("UTC", "UTC")],
)
def test_the_session_time_zone_has_a_name(env: TableEnvironment, zone: str, name: str) -> None:
    env.get_config().set_local_timezone(zone)
    assert env.get_config().get_local_timezone() == zone
    assert env.get_config().zone == name


twice = udf(lambda number: 2 * number, result_type="BIGINT")


def test_functions_are_created_by_the_name_of_a_python_object(env: TableEnvironment) -> None:
    run(
        env,
        f"CREATE TEMPORARY SYSTEM FUNCTION twice AS '{__name__}.twice' LANGUAGE PYTHON",
        f"CREATE FUNCTION of_catalog AS '{__name__}.twice' LANGUAGE PYTHON",
        f"CREATE TEMPORARY FUNCTION of_session AS '{__name__}.twice' LANGUAGE PYTHON",
    )
    assert rows(env, "SHOW USER FUNCTIONS") == [("of_catalog",), ("of_session",), ("twice",)]
    assert "upper" in env.list_functions()
    for call in ("TWICE(id)", "of_session(id)", "default_database.of_catalog(id)"):
        assert str(env.sql_query(f"SELECT {call} FROM orders").plan.schema[0].type) == "BIGINT"
    run(env, "DROP TEMPORARY SYSTEM FUNCTION twice", "DROP FUNCTION of_catalog")
    assert env.list_user_defined_functions() == ["of_session"]


def test_a_function_that_cannot_be_imported_is_refused_at_once(env: TableEnvironment) -> None:
    with pytest.raises(ArgumentError, match=r"cannot import function 'no\.such\.thing'"):
        env.execute_sql("CREATE FUNCTION f AS 'no.such.thing' LANGUAGE PYTHON")


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE FROM orders", UnsupportedOperationError),
        ("UPDATE orders SET name = 'x'", UnsupportedOperationError),
        ("TRUNCATE TABLE orders", UnsupportedOperationError),
        ("CREATE CATALOG c WITH ('type' = 'hive')", UnsupportedOperationError),
        ("SELECT 1; SELECT 2", ValidationError),
        ("USE MODULES hive", ArgumentError),
    ],
)
def test_unsupported_statements_are_rejected(
    env: TableEnvironment, statement: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        env.execute_sql(statement)


def test_settings_say_how_an_environment_begins() -> None:
    settings = (
        EnvironmentSettings.new_instance()
        .in_batch_mode()
        .with_built_in_catalog_name("c")
        .with_built_in_database_name("d")
        .with_configuration(Configuration.from_dict({"table.exec.state.ttl": "1 s"}))
        .in_batch_mode()
        .build()
    )
    env = TableEnvironment.create(settings)
    assert (env.get_current_catalog(), env.get_current_database()) == ("c", "d")
    assert env.get_config().get("table.exec.state.ttl", "") == "1 s"
    assert env.get_config().is_batch
    assert not settings.is_streaming_mode()


def test_options_of_the_command_line_count_whatever_the_program_sets() -> None:
    pinned = Configuration.from_dict({"execution.runtime-mode": "BATCH"})
    with StreamExecutionEnvironment.default_configuration(Configuration(), pinned):
        env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        assert env.get_config().is_batch
    assert not env.get_config().is_batch


def test_the_configuration_of_an_environment_refuses_unknown_options() -> None:
    env = TableEnvironment.create(Configuration())
    with pytest.raises(ConfigurationError, match="unknown"):
        env.get_config().set("table.exec.nothing.at.all", "1")
