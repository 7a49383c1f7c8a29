"""A process that is killed while tables are read, after that and in the log: the next one resumes from its last checkpoint."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.builders.changelog import apply, until
from tests.builders.modes import MODES
from tests.connectors.postgres_cdc.killed_job import changes_in
from tests.connectors.postgres_cdc.tables import Writer, make_table, rows_of


@contextmanager
def job(url, directory, mode):
    """A process with the job, killed in the end."""
    command = [
        sys.executable,
        "-m",
        "tests.connectors.postgres_cdc.killed_job",
        url,
        str(directory),
        mode,
    ]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
        assert process.poll() is None, (directory / "log").read_text()[-3000:]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_is_killed_again_and_again_loses_and_doubles_nothing(
    database, sql, mode, tmp_path
):
    make_table(sql, 300)
    out = tmp_path / "out"
    out.mkdir()
    moments = [
        lambda: len(changes_in(out)) > 0,
        lambda: len(changes_in(out)) > 200,
        lambda: any(kind == "-U" for kind, _ in changes_in(out)),
    ]
    writer = Writer(database, mode, pause=0.01)
    for moment in moments:
        with job(database, tmp_path, mode):
            until(moment)
    with job(database, tmp_path, mode):
        writer.stop()
        until(lambda: apply(changes_in(out)) == rows_of(sql))
