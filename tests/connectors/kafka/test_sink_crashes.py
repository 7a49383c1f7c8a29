"""Everything is killed at each step of a checkpoint, and resumed with another parallelism: readers see every record once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.builders.modes import EPOCHS, PIPELINED
from tests.connectors.kafka.killed_sinks import length
from tests.connectors.kafka.sink_jobs import Watcher, expected

# Between the first pre-commit and the manifest, between that and the commit, between the commit and the next checkpoint.
MOMENTS = [
    "before write_manifest",
    "after write_manifest",
    "before commit_sink",
    "after commit_sink",
]


@pytest.mark.ci
@pytest.mark.parametrize("mode", [pytest.param(EPOCHS, marks=pytest.mark.full), PIPELINED])
def test_readers_see_every_record_once_and_in_order_whenever_the_job_is_killed(
    kafka, tmp_path, mode
):
    topic = kafka.create_topic(f"killed-{mode}", 2)
    watcher = Watcher(kafka.bootstrap, topic)
    begun = "after run_pipe" if mode == EPOCHS else "after trigger"
    settings = {
        "bootstrap": kafka.bootstrap,
        "topic": topic,
        "directory": str(tmp_path),
        "mode": mode,
        "deaths": [(moment, 3) for moment in [*MOMENTS, begun]] + [("before write_manifest", 1)],
    }
    command = [sys.executable, "-m", "tests.connectors.kafka.killed_sinks", json.dumps(settings)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    assert watcher.finish() == expected(length(settings))
