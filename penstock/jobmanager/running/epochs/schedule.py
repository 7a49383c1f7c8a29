"""When the next epoch of a job is due, and how long it reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from penstock.jobmanager.job import Job
from penstock.jobmanager.running.driver import ExecutionFailedError, Interrupts
from penstock.jobmanager.running.epochs.reading_time import EpochReadingTime
from penstock.jobmanager.running.epochs.runner import EpochRunner
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.time import clock

_log = logging.getLogger(__name__)

POLL_S = 0.05


class EpochSchedule:
    """Waits for the trigger of an epoch: the checkpoint interval, data or a timer; or until it is interrupted."""

    def __init__(self, job: Job, interrupts: Interrupts) -> None:
        self.job = job
        self._interrupts = interrupts
        self._next_trigger = 0.0
        self._reading = EpochReadingTime()
        self._is_slow = False  # whether epochs are so slow that sources read for a shorter time

    @property
    def reading_s(self) -> float:
        """How long the sources of the next epoch read."""
        return self._reading.seconds(self.job.interval_s)

    @property
    def reads_all(self) -> bool:
        """Whether an epoch reads all input: for a bounded job without checkpointing."""
        return self.job.settings.batch_mode or (
            self.job.bounded and self.job.checkpoints.interval_ms is None
        )

    def start(self) -> None:
        """Make the next epoch due as soon as there is work."""
        self._next_trigger = 0.0

    def ended(
        self, started: float, sources: Sequence[SourceCoordinator], *, first: bool = False
    ) -> None:
        """Record that an epoch, started at a time.monotonic() value, has just been completed.

        The duration of the first one after a start is ignored, because it may include the start of executors and workers.

        The minimum pause between checkpoints is time in which records are processed. A job that is behind spends it in its next epoch,
        which reads for that long; waiting before would only put it further behind.
        """
        now = time.monotonic()
        is_behind = now >= started + self.job.interval_s and any(
            each.has_data() for each in sources
        )
        pause_s = 0.0 if is_behind else self.job.checkpoints.min_pause_ms / 1000
        self._next_trigger = max(started + self.job.interval_s, now + pause_s)
        if not first:
            self._adapt(now - started)

    def _adapt(self, epoch_s: float) -> None:
        """Shorten the reading time while epochs take very long, and log when that starts and ends."""
        if self.reads_all:
            return
        self._reading.took(epoch_s, self.job.interval_s)
        is_slow = self.reading_s < self.job.interval_s
        if is_slow and not self._is_slow:
            _log.warning(
                "an epoch of job '%s' took %.0f s because its functions are slower than its sources; sources read for %.2g s in the next one",
                self.job.name,
                epoch_s,
                self.reading_s,
            )
        elif self._is_slow and not is_slow:
            _log.info("sources of job '%s' read for the whole interval again", self.job.name)
        self._is_slow = is_slow

    def wait_for_work(self, runner: EpochRunner, *, first: bool) -> bool:
        """Wait until an epoch is due; return False if interrupted before."""
        while True:
            if self._interrupts.interrupted():
                return False
            if self._trigger_has_come(runner.checkpoints.sources) and self._is_due(
                runner, first=first
            ):
                return True
            self._interrupts.wait(POLL_S)

    def _trigger_has_come(self, sources: Sequence[SourceCoordinator]) -> bool:
        """Wait briefly for the next trigger; a bounded job with more input does not wait."""
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
        # All splits are finished, and only the end of input must be sent to the operators.
        return all(source.no_more_splits for source in runner.checkpoints.sources)


def discover(sources: Sequence[SourceCoordinator]) -> None:
    """Discover new splits of all sources; raises ExecutionFailedError."""
    for source in sources:
        try:
            source.discover()
        except Exception as error:
            raise ExecutionFailedError("split discovery failed", detail=str(error)) from error
