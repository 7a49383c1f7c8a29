"""Cancelling a job on Spark: whatever the moment, what runs ends and nothing more begins."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.common import JobStatus
from penstock.errors import JobCancelledError
from tests.builders.waiting import wait_until
from tests.spark.pipelined_jobs import TIMEOUT_S, is_alive


class Stuck:
    """Notes the process that it is called in, and never returns: a job that waited for it would not end."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)

    def __call__(self, number: int) -> int:
        Path(self.directory, str(os.getpid())).touch()
        while True:
            time.sleep(1)


@pytest.mark.parametrize("moment", ["at-once", pytest.param("while-it-runs", marks=pytest.mark.ci)])
def test_a_job_is_cancelled_before_its_only_epoch_ends(
    env: Any, moment: str, tmp_path: Path
) -> None:
    def at_work() -> list[int]:
        return [int(file.name) for file in tmp_path.iterdir() if is_alive(int(file.name))]

    env.from_collection([1, 2]).map(Stuck(tmp_path)).print()
    client = env.execute_async("stuck")
    if moment == "while-it-runs":
        wait_until(lambda: len(at_work()) > 0)
    client.cancel().result(TIMEOUT_S)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(0)
    assert client.get_job_status().result() is JobStatus.CANCELED
    wait_until(lambda: at_work() == [])
