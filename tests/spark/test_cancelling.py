"""Cancelling a job on Spark: whatever the moment, what runs ends and nothing more begins."""

from __future__ import annotations

import time
from typing import Any

import pytest

from penstock.common import JobStatus
from penstock.errors import JobCancelledError

LONG_S = 30


def slow(number: int) -> int:
    time.sleep(LONG_S)
    return number


@pytest.mark.parametrize("moment", ["at-once", "while-it-runs"])
def test_a_job_is_cancelled_before_its_only_epoch_ends(env: Any, moment: str) -> None:
    env.from_collection([1, 2]).map(slow).print()
    started = time.monotonic()
    client = env.execute_async("slow")
    if moment == "while-it-runs":
        while client.get_job_status().result() is not JobStatus.RUNNING:
            """Its thread has not begun yet."""
        time.sleep(0.3)
    client.cancel().result(LONG_S)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(0)
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert time.monotonic() - started < LONG_S / 2
