"""The demo with Kafka and PostgreSQL, as `make demo-kafka` runs it: it counts by itself, and leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tools.servers.kafka import KafkaBroker
from tools.servers.postgres import PostgresServer
from tools.servers.process import MissingServerError

SCRIPT = Path(__file__).parents[2] / "examples" / "kafka_demo.py"
TAG = "PENSTOCK_DEMO_RUN"


@pytest.fixture(autouse=True)
def _servers_are_installed():
    try:
        for kind in (KafkaBroker, PostgresServer):
            kind().close()
    except MissingServerError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


def left_running(tag):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG) == tag:
                found.append(" ".join(process.cmdline())[:120])
        except psutil.Error:
            continue
    return found


def test_the_demo_counts_every_order_once_and_stops_what_it_has_started(tmp_path):
    tag = str(tmp_path)
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "--seconds", "5", "--rate", "400"],
        env={**os.environ, TAG: tag},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
    assert ", 0 twice" in ran.stdout
    assert "malformed" in ran.stdout
    letter = next(line for line in ran.stdout.splitlines() if "such as" in line)
    for word in ('"topic": "orders"', '"partition": ', '"offset": ', '"message": '):
        assert word in letter
    assert left_running(tag) == []
