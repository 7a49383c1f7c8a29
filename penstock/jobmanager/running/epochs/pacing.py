"""When the next epoch of a job is due, and how long it reads."""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.common import clock
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.driver import EpochFailedError, Interrupts
from penstock.jobmanager.running.epochs.runner import EpochRunner
from penstock.jobmanager.sources import SourceCoordinator

POLL_S = 0.05


class Pacing:
    """Waits for what starts an epoch: the checkpoint interval, data, a timer; or until it is interrupted."""

    def __init__(self, job: Job, interrupts: Interrupts) -> None:
        self.job = job
        self._interrupts = interrupts
        self._next_trigger = 0.0

    @property
    def reads_all(self) -> bool:
        """Whether an epoch reads all there is: of a bounded job that was not asked to checkpoint."""
        return self.job.settings.batch_mode or (
            self.job.bounded and self.job.checkpoints.interval_ms is None
        )

    def start(self) -> None:
        """Let the next epoch come as soon as there is something to do."""
        self._next_trigger = 0.0

    def ended(self, started: float, sources: Sequence[SourceCoordinator]) -> None:
        """Take note that an epoch, started at a time.monotonic() value, has just been completed.

        The minimum pause is time in which records are processed. A job that is behind takes it within its next epoch, which
        reads for so long; to wait before that would only put it further behind.
        """
        now = time.monotonic()
        is_behind = now >= started + self.job.interval_s and any(
            each.has_data() for each in sources
        )
        pause_s = 0.0 if is_behind else self.job.checkpoints.min_pause_ms / 1000
        self._next_trigger = max(started + self.job.interval_s, now + pause_s)

    def wait_for_work(self, runner: EpochRunner, *, first: bool) -> bool:
        """Wait until an epoch is due; return False if something else came first."""
        while True:
            if self._interrupts.interrupted():
                return False
            if self._trigger_has_come(runner.checkpoints.sources) and self._is_due(
                runner, first=first
            ):
                return True
            self._interrupts.wait(POLL_S)

    def _trigger_has_come(self, sources: Sequence[SourceCoordinator]) -> bool:
        """Wait for the next trigger, at most a moment; a bounded job that has more to read does not wait."""
        left = self._next_trigger - time.monotonic()
        if left <= 0 or (self.job.bounded and any(source.has_data() for source in sources)):
            return True
        if left > POLL_S:
            return False
        self._interrupts.wait(left)
        return self._next_trigger <= time.monotonic()

    @staticmethod
    def _is_due(runner: EpochRunner, *, first: bool) -> bool:
        discover(runner.checkpoints.sources)
        if first or any(source.has_data() for source in runner.checkpoints.sources):
            return True
        wakeup = runner.next_wakeup()
        if wakeup is not None and wakeup <= clock.now_ms():
            return True
        # All splits are read, and what is left is to tell the operators so.
        return all(source.no_more_splits for source in runner.checkpoints.sources)


def discover(sources: Sequence[SourceCoordinator]) -> None:
    """Look for new splits of all sources; raises EpochFailedError."""
    for source in sources:
        try:
            source.discover()
        except Exception as error:
            raise EpochFailedError("finding splits failed", detail=str(error)) from error
