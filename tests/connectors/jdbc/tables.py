"""What tests of databases share: tables, options, jobs that write."""

from __future__ import annotations

from typing import Any

import psycopg

from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from tests.builders.environments import configured
from tests.builders.modes import runs_in

TIMEOUT_S = 120  # for what happens within seconds, unless the machine is very busy
PAIR = Types.ROW([Types.LONG(), Types.STRING()])
INSERT = "INSERT INTO t (id, name) VALUES (?, ?)"
UPSERT = f"{INSERT} ON CONFLICT (id) DO UPDATE SET name = excluded.name"


def options(url: str) -> JdbcConnectionOptions:
    return (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(url)
        .with_connection_check_timeout_seconds(120)
        .build()
    )


def execution(size: int = 5000, interval: int = 0, retries: int = 3) -> JdbcExecutionOptions:
    return (
        JdbcExecutionOptions.builder()
        .with_batch_size(size)
        .with_batch_interval_ms(interval)
        .with_max_retries(retries)
        .build()
    )


def run(url: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows, if it has any."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql, parameters or None)
        return cursor.fetchall() if cursor.description else []


def in_doubt(url: str) -> list[str]:
    return [
        gid
        for (gid,) in run(
            url, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
        )
    ]


def environment(mode: str, parallelism: int = 2, **more: str):
    return configured(
        {"execution.checkpointing.interval": "20 ms", **runs_in(mode), **more}, parallelism
    )


def numbers(env, count: int):
    return env.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
