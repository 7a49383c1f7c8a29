"""Question marks in SQL: which are parameters, and which statements can be sent in a faster form."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.connectors.base.sink import CheckpointContext, WriterContext
from penstock.connectors.jdbc.options import JdbcConnectionOptions, JdbcExactlyOnceOptions
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.statements import (
    count_parameters,
    for_psycopg,
    plain_insert,
    tokens,
    translate,
)
from penstock.connectors.jdbc.transactions import (
    checkpoint_id_of,
    prefix_of,
    sink_prefix,
    transaction_name,
)
from penstock.errors import ArgumentError, ArgumentTypeError

OPTIONS = JdbcConnectionOptions("jdbc:postgresql://db/shop")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select ?", "select %s"),
        ("select '?', ?", "select '?', %s"),
        ("select 'it''s ?', ?", "select 'it''s ?', %s"),
        (r"select E'a\'?', ?", r"select E'a\'?', %s"),
        (r"select '\', ?", r"select '\', %s"),
        ('select "a?""b", ?', 'select "a?""b", %s'),
        ("select ? -- why?\n, ?", "select %s -- why?\n, %s"),
        ("select /* ? /* ? */ ? */ ?", "select /* ? /* ? */ ? */ %s"),
        ("select $$ ? $$, $x$ ? $$ $x$, ?", "select $$ ? $$, $x$ ? $$ $x$, %s"),
        ("select ?::int, a::text", "select %s::int, a::text"),
        ("select doc ?? 'key', doc ??| ?", "select doc ? 'key', doc ?| %s"),
        ("select a % 2, '%', ?", "select a %% 2, '%%', %s"),
        ("select ?||?", "select %s||%s"),
        ("select '?", "select '%s"),  # the database says what is wrong
    ],
)
def test_question_marks_become_placeholders_where_they_are_parameters(sql, expected):
    assert for_psycopg(sql) == expected


def test_nothing_of_a_statement_is_lost():
    sql = "INSERT /* a */ INTO \"t\" VALUES ($1$, 'ü', E'\\'', ?, ??, `x`) -- ?\n;"
    assert "".join(token.text for token in tokens(sql)) == sql


def test_in_mysql_a_backslash_keeps_text_open():
    sql = r"select 'a\'?', ?"
    assert translate(sql, lambda _: "%s", backslashes=True) == r"select 'a\'?', %s"
    assert count_parameters("select ?, '?'") == 1


@pytest.mark.parametrize(
    ("sql", "table", "columns", "tail", "conflict"),
    [
        ("insert into t (a, b) values (?, ?)", "t", ("a", "b"), "", None),
        (" INSERT\nINTO s.t(a)VALUES(?);", "s.t", ("a",), "", None),
        ('insert into "T t" ("A", b) values (?,?) -- x', '"T t"', ('"A"', "b"), "", None),
        (
            'insert into t ("A", b) values (?, ?) on conflict ("A", B) do nothing',
            "t",
            ('"A"', "b"),
            'on conflict ("A", B) do nothing',
            (0, 1),
        ),
        (
            "insert into t (a, b) values (?, ?) on conflict on constraint k do nothing",
            "t",
            ("a", "b"),
            "on conflict on constraint k do nothing",
            None,
        ),
    ],
)
def test_an_insert_of_nothing_but_parameters_is_known(sql, table, columns, tail, conflict):
    found = plain_insert(sql)
    assert found is not None
    assert (found.table, found.columns, found.tail, found.conflict) == (
        table,
        columns,
        tail,
        conflict,
    )


@pytest.mark.parametrize(
    "sql",
    [
        "insert into t values (?, ?)",
        "insert into t (a, b) values (?, 1)",
        "insert into t (a, b) values (?)",
        "insert into t (a) values (?), (?)",
        "insert into t (a) values (?::int)",
        "insert into t (a) values (?) returning a",
        "insert into t (a) values (?) on conflict (a) do update set a = ?",
        "insert into t (a) values (?); delete from t",
        "insert into t (a) overriding system value values (?)",
        "with x as (select 1) insert into t (a) values (?)",
        "update t set a = ?",
        "",
    ],
)
def test_any_other_statement_is_left_as_it_is(sql):
    assert plain_insert(sql) is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, None, OPTIONS), ArgumentTypeError, "not a str"),
        ((" ", None, OPTIONS), ArgumentError, "empty"),
        (
            ("insert into t values (?)", None, "jdbc:postgresql://db/shop"),
            ArgumentTypeError,
            "build",
        ),
        (
            ("insert into t values (?)", Types.ROW([Types.INT()] * 2), OPTIONS),
            ArgumentError,
            "2 fields",
        ),
        (("insert into t values (?)", int, OPTIONS), ArgumentTypeError, "not a type"),
        (("insert into t values (?)", None, OPTIONS, 5), ArgumentTypeError, "execution"),
    ],
)
def test_a_sink_checks_its_arguments_when_it_is_made(arguments, error, message):
    with pytest.raises(error, match=message):
        JdbcSink.sink(*arguments)


def test_a_setter_and_a_ledger_are_checked_too():
    with pytest.raises(ArgumentTypeError, match="is not callable"):
        JdbcSink.sink("delete from t", None, OPTIONS, parameter_setter=3)
    with pytest.raises(ArgumentError, match="invalid name of the ledger table"):
        JdbcSink.exactly_once_sink(
            "delete from t", None, OPTIONS, None, JdbcExactlyOnceOptions(ledger_table="a b")
        )


def test_the_name_of_a_transaction_tells_whose_it_is():
    context = WriterContext("job-1", "operator", 3, 4, "")
    name = transaction_name(context, CheckpointContext(17, "attempt"), "orders")
    assert name.startswith("penstock:job-1:orders:17:3:")
    assert (prefix_of(name), checkpoint_id_of(name)) == (sink_prefix("job-1", "orders"), 17)
    assert prefix_of(f"{name}+") == prefix_of(name)
    other = transaction_name(context, CheckpointContext(17, "another"), "orders")
    assert other != name


def test_names_of_transactions_are_short_and_plain_whatever_the_job_is_called():
    context = WriterContext("job 'é' " + "x" * 300, "operator", 3, 4, "")
    name = transaction_name(context, CheckpointContext(17, "attempt"), "s:" * 100)
    assert len(name.encode()) < 200
    assert "'" not in name
    assert name.count(":") == 5
