"""Whole jobs on checkpoint storage that fails: any call of it, in any way."""

from __future__ import annotations

import logging

import pytest

from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink
from penstock.files import retries
from penstock.testing import MiniCluster
from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.builders.environments import configured, restarts

NUMBERS = 3000


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0))


class Outcome:
    """What a job came to: the lines of its output, and how often it was restarted."""

    def __init__(self, directory, master):
        self.lines = sorted(
            int(line)
            for path in (directory / "output").rglob("*")
            if path.is_file() and not path.name.startswith(".")
            for line in path.read_text().splitlines()
        )
        self.restarts = master.restarts
        job = directory / "checkpoints" / master.job.job_id
        self.checkpoints = sorted(path.name for path in job.glob("chk-*"))
        self.hidden = [path for path in directory.rglob(".*") if path.is_file()]


def run_job(directory, **options):
    """Sum numbers by key, in a few epochs, into files."""
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        **restarts(20),
        "penstock.state.inline-threshold": "1 b",
        **options,
    }
    env = configured(settings, 1)
    sums = (
        env.from_collection(list(range(NUMBERS)))
        .key_by(lambda number: number % 3)
        .reduce(lambda one, other: one + other)
        .map(str)
    )
    sink = FileSink.for_row_format(str(directory / "output"), Encoder.simple_string_encoder())
    sums.sink_to(sink.build())
    with MiniCluster() as cluster:
        env.execute("sums")
    return Outcome(directory, cluster.masters[0])


def expected_lines():
    totals, lines = [0, 0, 0], []
    for number in range(NUMBERS):
        totals[number % 3] += number
        lines.append(totals[number % 3])
    return sorted(lines)


@pytest.mark.parametrize("after", [False, True], ids=["nothing written", "written all the same"])
@pytest.mark.parametrize("full", [False, True], ids=["i/o error", "disk full"])
def test_a_write_that_fails_for_good_costs_a_restart_and_nothing_else(tmp_path, full, after):
    number, restarts, width = 0, 0, 1 if full else 3
    while True:
        number += width
        rule = StorageFaults(first=number, last=number + width - 1, full=full, after=after)
        with storage_faults(rule) as faults:
            outcome = run_job(tmp_path / f"{number}")
        assert outcome.lines == expected_lines()
        assert outcome.hidden == []
        restarts += outcome.restarts
        if len(faults.struck) < width:
            break
    assert restarts > 0


@pytest.mark.parametrize("action", ["write", "read", "list", "look for", "delete"])
def test_storage_that_fails_every_third_call_loses_nothing(tmp_path, action):
    with storage_faults(StorageFaults(every=3, action=action)) as faults:
        outcome = run_job(tmp_path)
    assert outcome.lines == expected_lines()
    assert outcome.restarts == 0
    assert faults.struck or action in {"read", "look for"}


def test_storage_that_cannot_delete_is_not_a_reason_to_repeat_an_epoch(tmp_path, caplog):
    with (
        caplog.at_level(logging.WARNING),
        storage_faults(StorageFaults(action="delete", full=True, path="chk-")) as faults,
    ):
        outcome = run_job(tmp_path)
    assert faults.struck
    assert outcome.restarts == 0
    assert outcome.lines == expected_lines()
    assert len(outcome.checkpoints) > 1
    assert "will retry after the next checkpoint" in caplog.text


def test_what_could_not_be_deleted_is_deleted_as_soon_as_it_can_be(tmp_path):
    with storage_faults(StorageFaults(action="delete", full=True, last=1, path="chk-")) as faults:
        outcome = run_job(tmp_path)
    assert faults.struck
    assert outcome.restarts == 0
    assert len(outcome.checkpoints) == 1
