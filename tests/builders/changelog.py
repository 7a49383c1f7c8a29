"""Changelogs that a sink has committed, and what they make of a table."""

from __future__ import annotations

import threading
from contextlib import suppress
from urllib.parse import urlsplit

from penstock.common import WatermarkStrategy
from penstock.connectors import Committer, Sink, SinkWriter
from penstock.connectors.postgres_cdc import PostgresCdcSource
from tests.builders.environments import configured, restarts
from tests.builders.modes import runs_in
from tests.builders.waiting import wait_until

TIMEOUT_S = 120.0  # for what happens within seconds, unless the machine is very busy

# Slots are threads of this process: what was committed is here, by the name of the sink.
_committed: dict[str, dict[tuple, list]] = {}
_lock = threading.Lock()
_jobs: list = []


def committed(name):
    """Return the changes that durable checkpoints have, in order: (kind, row as a dictionary)."""
    with _lock:
        return [change for part in _committed.get(name, {}).values() for change in part]


def count(name):
    """Return how many changes durable checkpoints have."""
    with _lock:
        return sum(map(len, _committed.get(name, {}).values()))


class ChangelogSink(Sink):
    """Publishes rows, once, when the checkpoint that has them is durable."""

    def __init__(self, name):
        self.name = name

    def create_writer(self, context, restored=None):
        return _Writer(self.name)

    def create_committer(self):
        return _Committer()


class _Writer(SinkWriter):
    def __init__(self, name):
        self.name = name
        self.rows = []

    def begin(self, checkpoint):
        self.checkpoint_id = (checkpoint.checkpoint_id, checkpoint.attempt)

    def write(self, values, timestamps, watermark):
        self.rows += [(str(row.get_row_kind()), row.as_dict()) for row in values]

    def prepare_commit(self):
        rows, self.rows = self.rows, []
        return [(self.name, self.checkpoint_id, rows)]


class _Committer(Committer):
    def commit(self, request):
        with _lock:
            for name, checkpoint_id, rows in request.committables:
                _committed.setdefault(name, {}).setdefault(checkpoint_id, rows)


def apply(changes, key=("id",)):
    """Return the table that a changelog makes; a change that does not fit what was before is an error."""
    table = {}
    for number, (kind, row) in enumerate(changes):
        at = tuple(row[name] for name in key)
        if kind in {"+I", "+U"}:
            assert at not in table, f"change {number}: {kind} {row}, but there is {table[at]}"
            table[at] = row
        else:
            assert table.get(at) == row, (
                f"change {number}: {kind} {row}, but there is {table.get(at)}"
            )
            del table[at]
    return table


def cdc_source(url, slot, **settings):
    """Return the builder of a source of a database of the test server."""
    parts = urlsplit(url)
    builder = (
        PostgresCdcSource.builder()
        .hostname(parts.hostname)
        .port(parts.port)
        .database(parts.path[1:])
        .username(parts.username)
        .password(parts.password)
        .slot_name(f"{slot}_{parts.path[1:]}")  # slots are the server's, not the database's
        .lsn_commit_checkpoints_num_delay(0)
        .heartbeat_interval(0.2)
    )
    for name, value in settings.items():
        getattr(builder, name)(*value if isinstance(value, tuple) else (value,))
    return builder


def cdc_environment(mode, directory, parallelism=2, **options):
    """Return an environment whose checkpoints come fast and stay."""
    settings = {
        "execution.checkpointing.interval": "30 ms",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.num-retained": "50",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        **runs_in(mode),
        **restarts(100_000, "10 ms"),
        **options,
    }
    return configured(settings, parallelism)


def start(env, source, name, through=None):
    """Start a job that writes a source's changes to a sink; return its client."""
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "changes").uid(
        "changes"
    )
    if through is not None:
        stream = stream.map(through)
    stream.sink_to(ChangelogSink(name)).set_parallelism(1).uid("sink")
    client = env.execute_async(name)
    _jobs.append(client)
    return client


def cancel_all():
    """Cancel the jobs that a test has left running: one that failed."""
    while _jobs:
        with suppress(Exception):
            _jobs.pop().cancel().result(timeout=TIMEOUT_S)


def until(condition, seconds=TIMEOUT_S):
    """Wait for a condition, and say so if it does not come true."""
    return wait_until(condition, seconds=seconds)
