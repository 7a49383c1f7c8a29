"""A slow end of a pipelined job at full input: the source is held back, and the workers' memory stays as it is.

It is watched while each subtask takes as many records as it can take in `PENSTOCK_SLOW_SINK_S` seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from fault_harness import LedgerRun, NewRun

import slow_sink  # isort: skip - fault_harness puts the jobs' folder on the path

WATCHED_S = float(os.environ.get("PENSTOCK_SLOW_SINK_S", "15"))
_POLL_S = 0.5
WATCHED = int(WATCHED_S / slow_sink.SLOW_S)  # records of each subtask
WARM_UP = 3_000
GROWTH_MB = 25.0  # the source could bring this in a quarter of a second
# What may be under way to a slot: two channels, one of them from its own subtask, and what one batch of the source makes; and what it
# takes until it is reported.
UNDER_WAY = 25 * slow_sink.BATCH


class SlowSinkRun(LedgerRun):
    """A run that ends only when it is killed."""

    script = Path(slow_sink.__file__)
    job_id = slow_sink.JOB_ID

    def reported(self, what: str) -> list[int]:
        """How many records each subtask has taken, or how far each split was read."""
        texts = [path.read_text() for path in sorted(self.directory.glob(f"{what}-*"))]
        return [int(text) for text in texts if text]

    def wait_for_records(self, count: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until each subtask has taken so many records."""
        while (reached := self._least_taken()) < count:
            meanwhile()
            time.sleep(_POLL_S)
            assert self.wait_until(lambda: self._least_taken() > reached), self.story()

    def _least_taken(self) -> int:
        taken = self.reported("taken")
        return min(taken) if len(taken) == slow_sink.SLOTS else 0

    def memory_mb(self) -> dict[int, float]:
        """What each Python worker that has grown beyond its start holds, by process."""
        held = {}
        for worker in self.workers():
            try:
                held[worker.pid] = worker.memory_info().rss / 2**20
            except psutil.NoSuchProcess:
                continue
        return held


@pytest.mark.timeout(900 + 10 * WATCHED_S)
def test_a_slow_sink_at_full_input_leaves_the_memory_of_the_workers_flat(new_run: NewRun) -> None:
    run = new_run(SlowSinkRun)
    run.start()
    run.wait_for_records(WARM_UP)
    before = run.memory_mb()
    highest = dict(before)

    def watch() -> None:
        for pid, held in run.memory_mb().items():
            highest[pid] = max(highest.get(pid, 0.0), held)

    run.wait_for_records(WARM_UP + WATCHED, watch)
    assert highest.keys() == before.keys(), f"a worker was replaced\n{run.story()}"
    growth = {pid: highest[pid] - before[pid] for pid in before}
    assert max(growth.values()) < GROWTH_MB, (before, highest)
    read = sum(
        run.reported("read")
    )  # before it is asked what was taken, which becomes more meanwhile
    assert read - sum(run.reported("taken")) < slow_sink.SLOTS * UNDER_WAY
    assert run.wait_for_epochs(1), "barriers pass, however slow it is"
