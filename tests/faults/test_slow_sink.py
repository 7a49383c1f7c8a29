"""A slow end of a pipelined job at full input: the source is held back, and the workers' memory stays as it is.

`PENSTOCK_SLOW_SINK_S` says for how many seconds it is watched.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest
from fault_harness import LedgerRun, NewRun

import slow_sink  # isort: skip - fault_harness puts the jobs' folder on the path

WATCHED_S = float(os.environ.get("PENSTOCK_SLOW_SINK_S", "15"))
WARM_UP_S = 5.0
GROWTH_MB = 25.0  # the source could bring this in a quarter of a second
# What may be under way to a slot: two channels, one of them from its own subtask, and what one batch of the source makes; and what it
# takes until it is told.
UNDER_WAY = 25 * slow_sink.BATCH


class SlowSinkRun(LedgerRun):
    """A run that ends only when it is killed."""

    script = Path(slow_sink.__file__)
    job_id = slow_sink.JOB_ID
    lasts_s = WATCHED_S

    def told(self, what: str) -> list[int]:
        """How many records each subtask has taken, or how far each split was read."""
        texts = [path.read_text() for path in sorted(self.directory.glob(f"{what}-*"))]
        return [int(text) for text in texts if text]

    def memory_mb(self) -> dict[int, float]:
        """What each Python worker that has grown beyond its start holds, by process."""
        held = {}
        for worker in self.workers():
            try:
                held[worker.pid] = worker.memory_info().rss / 2**20
            except psutil.NoSuchProcess:
                continue
        return held


@pytest.mark.timeout(300 + WATCHED_S)
def test_a_slow_sink_at_full_input_leaves_the_memory_of_the_workers_flat(new_run: NewRun) -> None:
    run = new_run(SlowSinkRun)
    run.start()
    assert run.wait_until(lambda: len(run.told("taken")) == slow_sink.SLOTS), run.story()
    time.sleep(WARM_UP_S)
    before, taken_before = run.memory_mb(), run.told("taken")
    highest = dict(before)
    until = time.monotonic() + WATCHED_S
    while time.monotonic() < until:
        assert run.is_running, run.story()
        for pid, held in run.memory_mb().items():
            highest[pid] = max(highest.get(pid, 0.0), held)
        time.sleep(0.5)
    assert highest.keys() == before.keys(), f"a worker was replaced\n{run.story()}"
    growth = {pid: highest[pid] - before[pid] for pid in before}
    assert max(growth.values()) < GROWTH_MB, (before, highest)
    taken = run.told("taken")
    assert all(now > then for now, then in zip(taken, taken_before, strict=True))
    assert sum(run.told("read")) - sum(taken) < slow_sink.SLOTS * UNDER_WAY
    assert run.wait_for_epochs(1, within_s=60), "barriers pass, however slow it is"
