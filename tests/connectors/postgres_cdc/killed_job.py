"""A job of its own process that reads changes into files, to be killed: python -m tests.connectors.postgres_cdc.killed_job URL DIRECTORY MODE."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from penstock.common import WatermarkStrategy
from penstock.connectors import Committer, Sink, SinkWriter
from penstock.testing import MiniCluster
from tests.builders.changelog import cdc_environment, cdc_source


class FileChangelog(Sink):
    """One file for each checkpoint, written when it is durable; again, after a kill, it is the same file."""

    def __init__(self, directory):
        self.directory = directory

    def create_writer(self, context, restored=None):
        return _Writer()

    def create_committer(self):
        return _Committer(self.directory)


class _Writer(SinkWriter):
    def __init__(self):
        self.rows = []

    def begin(self, checkpoint):
        self.name = f"{checkpoint.checkpoint_id:08}-{checkpoint.attempt}"

    def write(self, values, timestamps, watermark):
        self.rows += [(str(row.get_row_kind()), row.as_dict()) for row in values]

    def prepare_commit(self):
        rows, self.rows = self.rows, []
        return [(self.name, rows)]


class _Committer(Committer):
    def __init__(self, directory):
        self.directory = Path(directory)

    def commit(self, request):
        for name, rows in request.committables:
            hidden = self.directory / f".{name}"
            hidden.write_bytes(pickle.dumps(rows))
            os.replace(hidden, self.directory / name)


def changes_in(directory):
    """Return what was published, in order."""
    return [
        change
        for path in sorted(Path(directory).glob("[0-9]*"))
        for change in pickle.loads(path.read_bytes())
    ]


def main(url, directory, mode):
    options = {"penstock.job-id": "c0ffee" + "0" * 26}
    env = cdc_environment(mode, directory, **options)
    source = cdc_source(url, "killed", split_size=20, fetch_size=3).build()
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "changes")
    stream.uid("changes").sink_to(FileChangelog(f"{directory}/out")).set_parallelism(1).uid("sink")
    with MiniCluster():
        env.execute("killed")


if __name__ == "__main__":
    main(*sys.argv[1:])
