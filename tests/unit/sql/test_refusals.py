"""Statements that are rejected before anything runs: reason, position and hint."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.sql.errors import SqlError
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import InsertStatement, QueryStatement, StatementSetBlock
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf
from tests.builders.cases import by_name, check_all

TABLES = """
CREATE TABLE orders (
  id BIGINT NOT NULL, customer STRING, price DECIMAL(10, 2), currency STRING, at TIMESTAMP(3), created TIMESTAMP(3),
  pt AS PROCTIME(), WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE rates (currency STRING, rate DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at,
  PRIMARY KEY (currency) NOT ENFORCED) WITH ('connector' = 'datagen');
CREATE TABLE keyless (currency STRING, rate DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'datagen');
CREATE TABLE timeless (currency STRING, rate DOUBLE, PRIMARY KEY (currency) NOT ENFORCED) WITH ('connector' = 'datagen');
CREATE TABLE files (customer STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/tmp/none', 'format' = 'json');
CREATE TABLE strict (customer STRING NOT NULL, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE printer (a INT, b STRING) WITH ('connector' = 'print');
CREATE TABLE wordy (x INT) WITH ('conector' = 'datagen');
CREATE TABLE bare (x INT);
CREATE TABLE mistyped (x INT) WITH ('connector' = 'datagn');
CREATE TABLE misspelt (x INT) WITH ('connector' = 'datagen', 'rows-per-secnd' = '5');
CREATE TABLE five (x INT) WITH ('connector' = 'datagen', 'rows-per-second' = 'five');
CREATE TABLE endless (x INT) WITH ('connector' = 'datagen', 'fields.x.kind' = 'sequence');
CREATE TABLE pathless (x INT) WITH ('connector' = 'filesystem', 'format' = 'csv');
CREATE TABLE cvs (x INT) WITH ('connector' = 'filesystem', 'path' = '/tmp/x', 'format' = 'cvs');
CREATE TABLE topicless (x INT) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = 'x:1', 'format' = 'json');
CREATE TABLE upserts (x INT) WITH ('connector' = 'upsert-kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'x:1',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE meta (x INT METADATA) WITH ('connector' = 'datagen');
CREATE FUNCTION shout AS 'tests.unit.sql.test_refusals.shout' LANGUAGE PYTHON;
CREATE VIEW seen AS SELECT id, customer FROM orders;
"""

# statement, what the message says, what is underlined, what the detail or the hint says
REFUSED = [
    # what a stream has no answer to
    ("SELECT * FROM orders ORDER BY price", "ORDER BY needs a time attribute", "price", "Sort on a non-time-attribute field is not supported"),
    ("SELECT * FROM orders ORDER BY id DESC, at", "ORDER BY needs a time attribute", "id DESC", "add LIMIT"),
    ("SELECT * FROM orders ORDER BY at DESC", "in ascending order", "at DESC", "batch mode"),
    ("SELECT id FROM orders ORDER BY pt, id", "ORDER BY with processing time and other columns", "pt", ""),
    ("SELECT SUM(price) OVER (ORDER BY pt DESC) FROM orders", "processing-time OVER windows need an append-only input", "SUM(price) OVER (ORDER BY pt DESC)", "remove DESC"),
    ("SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(created), INTERVAL '1' HOUR))", "only be defined over a time attribute", "DESCRIPTOR(created)", "declare WATERMARK FOR created"),
    ("SELECT COUNT(*) FROM orders GROUP BY TUMBLE(price, INTERVAL '1' HOUR)", "only be defined over a time attribute", None, "PROCTIME()"),
    ("SELECT * FROM orders MATCH_RECOGNIZE (ORDER BY created MEASURES A.id AS x PATTERN (A) DEFINE A AS A.id > 1)", "must be ordered by a time attribute", None, "WATERMARK"),
    ("SELECT TUMBLE(at, INTERVAL '1' HOUR) FROM orders", "TUMBLE is a window, not a value", "TUMBLE(at, INTERVAL '1' HOUR)", "in GROUP BY"),
    ("SELECT LISTAGG(customer) WITHIN GROUP (ORDER BY id) FROM orders", "'LISTAGG' must not contain a WITHIN GROUP clause", None, "in arrival order"),
    ("SELECT RANK() OVER (PARTITION BY customer) FROM orders", "RANK needs an ORDER BY", "RANK() OVER (PARTITION BY customer)", "OVER (ORDER BY ...)"),
    ("SELECT LAG(price, -1) OVER (ORDER BY at) FROM orders", "the offset of LAG must be a constant number, at least 0", "-1", ""),
    ("SELECT LAG(price, id) OVER (ORDER BY at) FROM orders", "the offset of LAG must be a constant number", "id", ""),
    ("SELECT NTILE(0) OVER (ORDER BY at) FROM orders", "the number of groups of NTILE must be a constant number, at least 1", "0", ""),
    ("WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a", "duplicate name 'a' in WITH", "a", ""),
    # literals and types
    ("SELECT X'1'", "invalid bytes literal X'1'", "X'1'", "two hexadecimal digits"),
    ("SELECT U&'\\zzzz'", "has an unknown escape", "U&'\\zzzz'", "four hexadecimal digits"),
    ("CREATE TABLE t (a ROW<x INT, x STRING>)", "duplicate field 'x' in ROW", None, ""),
    # temporal joins
    ("SELECT o.id FROM orders o JOIN keyless FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency", "needs a primary key", "keyless FOR SYSTEM_TIME AS OF o.at AS r", "PRIMARY KEY (...) NOT ENFORCED"),
    ("SELECT o.id FROM orders o JOIN timeless FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency", "needs a rowtime attribute", "timeless FOR SYSTEM_TIME AS OF o.at AS r", "no row time attribute can be found"),
    ("SELECT o.id FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.created AS r ON o.currency = r.currency", "must be a time attribute of the left table", "FOR SYSTEM_TIME AS OF o.created", "left table's time attribute field"),
    ("SELECT o.id FROM orders o JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r ON o.currency = r.currency", "must be a time attribute of the left table", "FOR SYSTEM_TIME AS OF PROCTIME()", "a column AS PROCTIME()"),
    ("SELECT o.id FROM orders o JOIN rates FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP AS r ON o.currency = r.currency", "must be a time attribute of the left table", None, "WATERMARK"),
    ("SELECT id FROM orders FOR SYSTEM_TIME AS OF at", "only supported on the right table of a join", "FOR SYSTEM_TIME AS OF at", "JOIN b FOR SYSTEM_TIME"),
    ("SELECT id FROM orders FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01 00:00:00'", "must be a time attribute", None, "no connector supports time travel"),
    ("SELECT o.id FROM orders o RIGHT JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency", "temporal joins must be INNER or LEFT joins", "rates FOR SYSTEM_TIME AS OF o.at AS r", ""),
    ("SELECT o.id FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.id > r.rate", "need an equality on the primary key", "rates FOR SYSTEM_TIME AS OF o.at AS r", "ON left.column = right.key"),
    # sinks
    ("INSERT INTO files SELECT customer, COUNT(*) FROM orders GROUP BY customer", "doesn't support consuming update changes", "files", "produced by GlobalGroupAggregate"),
    ("INSERT INTO files SELECT o.customer, o.id FROM orders o LEFT JOIN rates r ON o.currency = r.currency", "doesn't support consuming update changes", "files", "interval join instead of regular join"),
    ("INSERT INTO files SELECT customer FROM orders", "returns 1 columns, but table", "SELECT customer FROM orders", "sink schema: [customer: STRING, n: BIGINT]"),
    ("INSERT INTO files SELECT id, customer FROM orders", "do not match: column 'customer' at position 0 is STRING, the query returns BIGINT", None, "CAST(... AS STRING)"),
    ("INSERT INTO files VALUES ('a', 1, 2)", "returns 3 columns, but table", "VALUES ('a', 1, 2)", ""),
    ("INSERT INTO files (customer, m) SELECT customer, id FROM orders", "column 'm' not found in table", "m", "available columns: customer, n"),
    ("INSERT INTO files (custmer) SELECT customer FROM orders", "column 'custmer' not found in table", "custmer", "did you mean 'customer'?"),
    ("INSERT INTO orders (id, pt) SELECT 1, 2", "column 'pt' of table", "pt", "remove it"),
    ("INSERT INTO files (n, n) SELECT id, id FROM orders", "duplicate column 'n'", "n", ""),
    ("INSERT INTO printer PARTITION (a = 1) SELECT 'x'", "'a' is not a partition column", "a", "PARTITIONED BY"),
    ("INSERT INTO strict (n) SELECT id FROM orders", "column 'customer' has no default value", None, ""),
    ("INSERT INTO file SELECT customer, id FROM orders", "table 'file' not found", "file", "did you mean 'files'?"),
    ("INSERT INTO seen SELECT id, customer FROM orders", "cannot insert into view", "seen", ""),
    ("INSERT INTO rates SELECT 'x', 1e0, at FROM orders", "cannot be written", "rates", "connector 'datagen' has no sink"),
    ("EXECUTE STATEMENT SET BEGIN\nINSERT INTO files SELECT customer, id FROM orders;\nINSERT INTO files (m) SELECT id FROM orders;\nEND", "column 'm' not found", "m", "available columns"),
    # sources
    ("SELECT o.id FROM orders o JOIN printer p ON o.id = p.a", "cannot be read", "printer p", "connector 'print' has no source"),
    ("SELECT * FROM wordy", "has no connector", "wordy", "did you mean 'connector' instead of 'conector'?"),
    ("SELECT * FROM bare", "has no connector", "bare", "WITH ('connector' = '...')"),
    ("SELECT * FROM meta", "its connector 'datagen' has no metadata 'x'", "meta", "remove the column"),
    # hints
    ("SELECT id FROM orders /*+ OPTION('number-of-rows' = '1') */", "unknown hint OPTION", "OPTION", "did you mean OPTIONS?"),
    ("SELECT /*+ STAT_TTL('o' = '1d') */ COUNT(*) FROM orders o GROUP BY id", "unknown hint STAT_TTL", "STAT_TTL", "did you mean STATE_TTL?"),
    ("SELECT /*+ STATE_TTL('p' = '1d') */ COUNT(*) FROM orders o GROUP BY id", "hint STATE_TTL refers to 'p', which is not a table of this SELECT", "STATE_TTL", "available tables: o"),
    ("SELECT /*+ BROADCAST(rate) */ 1 FROM orders o, rates", "hint BROADCAST refers to 'rate'", "BROADCAST", "did you mean 'rates'?"),
    # names
    ("SELECT * FROM TABLE(TUMBEL(TABLE orders, DESCRIPTOR(at), INTERVAL '1' HOUR))", "table function 'TUMBEL' not found", None, "did you mean 'TUMBLE'?"),
    ("SELECT LOWERR(customer) FROM orders", "unknown function LOWERR", "LOWERR(customer)", "did you mean LOWER?"),
    ("SELECT shoot(customer) FROM orders", "unknown function shoot", "shoot(customer)", "did you mean shout?"),
    ("SELECT o.custmer FROM orders o", "column 'custmer' not found in table 'o'", "o.custmer", "did you mean 'customer'?"),
    # definitions
    ("CREATE TABLE t (x INT, PRIMARY KEY (y) NOT ENFORCED) WITH ('connector' = 'print')", "the primary key of `default_catalog`.`default_database`.`t` refers to unknown column 'y'", "y", ""),
    ("CREATE TABLE t (price INT) PARTITIONED BY (prise) WITH ('connector' = 'print')", "refers to unknown column 'prise'", "prise", "did you mean 'price'?"),
    ("CREATE TABLE t (x INT, WATERMARK FOR x AS x) WITH ('connector' = 'print')", "invalid watermark column 'x' of type INT", "x", "TIMESTAMP(3) or TIMESTAMP_LTZ(3)"),
    ("CREATE TABLE t (x STRING, y AS UPER(x)) WITH ('connector' = 'print')", "computed column 'y'", "y", "did you mean UPPER?"),
    ("CREATE TABLE orders (x INT)", "already exists", "orders", "IF NOT EXISTS"),
    ("CREATE TABLE nowhere.t (x INT)", "database 'nowhere' does not exist", "nowhere", "SHOW DATABASES"),
    ("CREATE TABLE t LIKE orderz", "does not exist", "orderz", "did you mean 'orders'?"),
    ("CREATE VIEW t (a, b) AS SELECT id FROM orders", "names 2 columns, but its query returns 1", "t", ""),
    ("CREATE VIEW t AS SELECT nope FROM orders", "column 'nope' not found", "nope", "available columns: id, customer"),
    ("CREATE MATERIALIZED TABLE t AS SELECT 1", "materialized tables are not supported", "MATERIALIZED", "INSERT INTO"),
    ("ALTER TABLE orders RENAME custmer TO who", "column 'custmer' does not exist", "custmer", "did you mean 'customer'?"),
    ("DROP TABLE nope", "does not exist", "nope", ""),
    ("DROP TABLE seen", "is a view", "seen", "DROP VIEW"),
    ("DESCRIBE orderss", "does not exist", "orderss", "did you mean 'orders'?"),
    ("USE nowhere", "database 'nowhere' does not exist", "nowhere", "SHOW DATABASES"),
    ("STOP JOB 'nope'", "this session has no job 'nope'", "'nope'", "SHOW JOBS"),
]  # fmt: skip

# statement, what the message says, what the detail or the hint says
WRONG_OPTIONS = [
    ("SELECT * FROM mistyped", "unknown connector 'datagn'", "did you mean 'datagen'?"),
    ("SELECT * FROM misspelt", "unknown option 'rows-per-secnd'", "did you mean 'rows-per-second'?"),
    ("SELECT * FROM five", "invalid value 'five' for option 'rows-per-second'", "'five' is not an integer"),
    ("SELECT * FROM endless", "a sequence needs a start and an end", "'fields.x.start'"),
    ("SELECT * FROM pathless", "is missing option 'path'", "'path' = '...'"),
    ("SELECT * FROM cvs", "invalid value 'cvs' for option 'format'", "csv, debezium-json, json"),
    ("SELECT * FROM topicless", "is missing option 'topic'", ""),
    ("SELECT * FROM upserts", "has no primary key", "PRIMARY KEY (column) NOT ENFORCED"),
    ("SELECT * FROM orders /*+ OPTIONS('numbr-of-rows' = '1') */", "unknown option 'numbr-of-rows'", "did you mean 'number-of-rows'?"),
    ("SET 'table.exec.stat.ttl' = '1 h'", "unknown option 'table.exec.stat.ttl'", "table.exec.state.ttl"),
    ("SET 'table.exec.state.ttl' = 'abc'", "cannot be 'abc'", "'10 s', '200 ms' or '1 h'"),
    ("SET 'execution.runtime-mode' = 'batchy'", "cannot be 'batchy'", "STREAMING, BATCH"),
]  # fmt: skip


@udf(result_type=DataTypes.STRING())
def shout(text: str) -> str:
    return f"{text}!"


@pytest.fixture(scope="module")
def environment():
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in parse(TABLES):
        environment.execute_sql(statement.text)
    return environment


def refuse(environment: TableEnvironment, text: str) -> None:
    """Plan what would start a job; execute all else."""
    (statement,) = parse(text)
    if isinstance(statement, QueryStatement | InsertStatement | StatementSetBlock):
        environment.explain_sql(text)
    else:
        environment.execute_sql(text)


def test_a_wrong_statement_is_refused_with_its_place(environment):
    def check(case):
        text, message, marked, advice = case
        with pytest.raises(SqlError) as caught:
            refuse(environment, text)
        error = caught.value
        assert message in error.message
        assert advice in f"{error.detail} {error.hint}"
        assert error.position is not None
        line, column = error.position
        if marked is not None:
            assert text.split("\n")[line - 1][column - 1 :][: error.length] == marked
        assert "\n  " + " " * (column - 1) + "^" in str(error) or column > 50

    check_all(by_name(REFUSED, lambda case: case[0]), check)


@pytest.mark.parametrize(
    ("text", "message", "advice"), WRONG_OPTIONS, ids=[case[0] for case in WRONG_OPTIONS]
)
def test_a_wrong_option_is_refused_with_the_right_one(environment, text, message, advice):
    with pytest.raises(ConfigurationError) as caught:
        refuse(environment, text)
    assert message in caught.value.message
    assert advice in f"{caught.value.detail} {caught.value.hint}"
