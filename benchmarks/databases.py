"""`python -m benchmarks.databases`: rows per second into PostgreSQL and out of it, against plain psycopg in the same run.

The server is started for it, with its data in memory if /dev/shm is where temporary files are. `loop` is what a program without Penstock does:
`executemany` of the same statement over the same rows, in batches of the same size, a commit after each. The sink's writer is fed the same batches, without
a job around it: what a job adds, other benchmarks measure.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from penstock.common import Types
from penstock.connectors.base.sink import CheckpointContext, CommitRequest, WriterContext
from penstock.connectors.base.source import ReadLimits
from penstock.connectors.jdbc.statements import for_psycopg
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
    JdbcSource,
)
from tools.servers.postgres import PostgresServer

INSERT = "INSERT INTO t (id, name, amount) VALUES (?, ?, ?)"
UPSERT = f"{INSERT} ON CONFLICT (id) DO UPDATE SET name = excluded.name, amount = excluded.amount"
TYPES = Types.ROW([Types.LONG(), Types.STRING(), Types.DOUBLE()])
Records = list[tuple[int, str, float]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    records = [(n, f"name of {n}", n * 0.5) for n in range(arguments.rows)]
    table = Table("", "loop of psycopg", "JdbcSink", "exactly once", title="rows per second")
    with PostgresServer() as server:
        url = server.new_database()
        options = JdbcConnectionOptions(url)
        ways = [
            lambda sql, rows: loop(url, sql, rows, arguments.batch),
            lambda sql, rows: at_least_once(options, sql, rows, arguments.batch),
            lambda sql, rows: exactly_once(options, sql, rows, arguments.batch),
        ]
        for name, sql, prepared in (
            ("insert", INSERT, ""),
            ("upsert, new rows", UPSERT, ""),
            ("upsert, rows that are there", UPSERT, "filled"),
        ):
            speeds: list[list[float]] = [[] for _ in ways]
            for _ in range(arguments.rounds):
                for number, way in enumerate(ways):
                    reset(url, records if prepared else [])
                    speeds[number].append(arguments.rows / timed(way, sql, records))
            table.add_row(name, *(f"{median(each):,.0f}" for each in speeds))
        reset(url, records)
        reading = [
            arguments.rows / timed(each)
            for each in (lambda: fetch_all(url), lambda: read_all(options))
        ]
    Console().print(table)
    Console().print(
        f"read: psycopg, fetchall {reading[0]:,.0f} rows/s, JdbcSource {reading[1]:,.0f} rows/s"
    )


def timed(action: Callable[..., Any], *arguments: Any) -> float:
    """Return how many seconds something takes."""
    begun = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - begun


def reset(url: str, records: Records) -> None:
    """Make the table again, with these rows in it."""
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text, amount float8)")
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            for record in records:
                copy.write_row(record)


def batches(records: Records, size: int) -> Iterator[Records]:
    """Cut records into batches."""
    for start in range(0, len(records), size):
        yield records[start : start + size]


def loop(url: str, sql: str, records: Records, size: int) -> None:
    """Write as a program without Penstock does."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for batch in batches(records, size):
            cursor.executemany(for_psycopg(sql), batch)
            connection.commit()


def at_least_once(options: JdbcConnectionOptions, sql: str, records: Records, size: int) -> None:
    """Write with the sink, one epoch."""
    execution = JdbcExecutionOptions.builder().with_batch_size(size).build()
    sink = JdbcSink.sink(sql, TYPES, options, execution)
    _write(sink, records, size, every=None)


def exactly_once(options: JdbcConnectionOptions, sql: str, records: Records, size: int) -> None:
    """Write with the sink, a checkpoint after every four batches."""
    execution = JdbcExecutionOptions.builder().with_batch_size(size).build()
    sink = JdbcSink.exactly_once_sink(sql, TYPES, options, execution)
    _write(sink, records, size, every=4)


def _write(sink: JdbcSink, records: Records, size: int, every: int | None) -> None:
    committer = sink.create_committer()
    run = f"{time.time_ns()}"
    with tempfile.TemporaryDirectory() as staging:
        writer = sink.create_writer(WriterContext(run, "sink", 0, 1, staging))
        checkpoint_id = 1
        writer.begin(CheckpointContext(checkpoint_id, run))
        for number, batch in enumerate(batches(records, size), start=1):
            writer.write(list(batch), None, 0)
            if every is not None and committer is not None and number % every == 0:
                committer.commit(CommitRequest(checkpoint_id, writer.prepare_commit()))
                writer.on_committed(checkpoint_id)
                checkpoint_id += 1
                writer.begin(CheckpointContext(checkpoint_id, f"{run}-{checkpoint_id}"))
        rest = writer.prepare_commit()
        if committer is not None:
            committer.commit(CommitRequest(checkpoint_id, rest))
            committer.close()
        writer.close()


def fetch_all(url: str) -> None:
    """Read as a program without Penstock does, all into memory."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT * FROM t").fetchall()


def read_all(options: JdbcConnectionOptions) -> None:
    """Read with the source, split after split."""
    source = (
        JdbcSource.builder()
        .set_connection_options(options)
        .set_table("t")
        .set_partition_column("id", partitions=8)
        .build()
    )
    enumerator = source.create_enumerator(2)
    reader = source.create_reader()
    while not enumerator.no_more_splits():
        enumerator.observe([])
        for split in enumerator.discover():
            for _ in reader.read(split, None, ReadLimits()):
                pass
    reader.close()


if __name__ == "__main__":
    main()
