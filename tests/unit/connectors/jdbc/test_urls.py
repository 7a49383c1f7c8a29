"""Where a database is, by the URLs of JDBC, libpq and SQLAlchemy."""

from __future__ import annotations

import pickle

import pytest

from penstock.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from penstock.connectors.jdbc.urls import parse_url
from penstock.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "jdbc:postgresql://db:5433/shop",
            {"host": "db", "port": "5433", "dbname": "shop"},
        ),
        ("jdbc:postgresql:shop", {"host": "localhost", "port": "5432", "dbname": "shop"}),
        ("jdbc:postgresql://db/", {"host": "db", "port": "5432", "dbname": "postgres"}),
        (
            "jdbc:postgresql://[::1]:5432/shop?user=me&password=a%26b",
            {"host": "::1", "port": "5432", "dbname": "shop", "user": "me", "password": "a&b"},
        ),
        (
            "jdbc:postgresql://a:1,b/shop?targetServerType=primary&ssl=true&ApplicationName=x&reWriteBatchedInserts=true",
            {
                "host": "a,b",
                "port": "1,5432",
                "dbname": "shop",
                "target_session_attrs": "primary",
                "sslmode": "verify-full",
                "application_name": "x",
            },
        ),
        (
            "jdbc:postgresql://db/shop?currentSchema=sales,public",
            {
                "host": "db",
                "port": "5432",
                "dbname": "shop",
                "options": "-csearch_path=sales,public",
            },
        ),
        (
            "postgresql+psycopg://me:p%40ss@db/shop?sslmode=require",
            {
                "host": "db",
                "port": "5432",
                "dbname": "shop",
                "user": "me",
                "password": "p@ss",
                "sslmode": "require",
            },
        ),
        (
            "postgres:///shop?host=/run/postgresql",
            {"host": "/run/postgresql", "port": "5432", "dbname": "shop"},
        ),
    ],
)
def test_postgres_settings_come_from_the_url(url, expected):
    target = parse_url(url)
    assert target.kind == "postgresql"
    assert target.settings == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:sqlite:/data/a.db", "sqlite:////data/a.db"),
        ("sqlite:////data/a.db", "sqlite:////data/a.db"),
        ("jdbc:mysql://db:3306/shop?useSSL=false", "mysql+pymysql://me:se%2Fcret@db:3306/shop"),
        ("mssql+pyodbc://x:y@db/shop?driver=a", "mssql+pyodbc://me:se%2Fcret@db/shop?driver=a"),
    ],
)
def test_other_databases_are_sqlalchemys(url, expected):
    account = ("me", "se/cret") if "sqlite" not in url else (None, None)
    target = parse_url(url, *account)
    assert (target.kind, target.url) == ("sqlalchemy", expected)
    assert "cret" not in target.name


def test_user_and_password_count_for_more_than_those_of_the_url():
    settings = parse_url("jdbc:postgresql://db/shop?user=a&password=b", "me", "mine").settings
    assert (settings["user"], settings["password"]) == ("me", "mine")


@pytest.mark.parametrize(
    "url",
    [
        "shop",
        "jdbc:oracle:thin:@db:1521:x",
        "jdbc:postgresql://me:secret@db:5432/shop",
        "jdbc:h2?password=secret",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url):
    with pytest.raises(ArgumentError) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_options_have_pyflinks_names_and_show_no_password():
    options = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url("jdbc:postgresql://db/shop")
        .with_driver_name("org.postgresql.Driver")
        .with_user_name("me")
        .with_password("secret")
        .with_connection_check_timeout_seconds(7)
        .build()
    )
    assert options.get_db_url() == "jdbc:postgresql://db/shop"
    assert options.get_driver_name() == "org.postgresql.Driver"
    assert (options.get_user_name(), options.get_password()) == ("me", "secret")
    assert "secret" not in repr(options) + repr(options.target)
    assert pickle.loads(pickle.dumps(options)).target == options.target


def test_the_execution_options_default_to_flinks():
    options = JdbcExecutionOptions.builder().with_batch_size(7).build()
    assert (options.get_batch_interval_ms(), options.get_batch_size()) == (0, 7)
    assert options.get_max_retries() == 3
    assert JdbcExecutionOptions.defaults() == JdbcExecutionOptions.builder().build()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build(), ArgumentError),
        (
            lambda: JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(3),
            ArgumentTypeError,
        ),
        (
            lambda: JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_user_name(""),
            ArgumentError,
        ),
        (
            lambda: JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_password(1),
            ArgumentTypeError,
        ),
        (lambda: JdbcExecutionOptions.builder().with_batch_size(-1), ArgumentError),
        (lambda: JdbcExecutionOptions.builder().with_max_retries(True), ArgumentTypeError),
        (lambda: JdbcExecutionOptions.builder().with_batch_interval_ms("1"), ArgumentTypeError),
        (lambda: JdbcExactlyOnceOptions(lock_timeout_ms=0), ArgumentError),
        (lambda: JdbcExactlyOnceOptions(transaction_prefix=""), ArgumentError),
    ],
)
def test_arguments_are_checked_when_they_are_given(call, error):
    with pytest.raises(error):
        call()
