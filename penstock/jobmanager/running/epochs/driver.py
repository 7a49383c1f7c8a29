"""The driver of epoch mode: waits until an epoch is due and runs it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.errors import UnsupportedOperationError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.jobmanager.requests import SavepointRequest
from penstock.jobmanager.running.checkpoints import Checkpoints, StepHook
from penstock.jobmanager.running.driver import CheckpointSpan, Interrupts, Listener
from penstock.jobmanager.running.epochs.pipe import EpochPipe, EpochSettings, Pipe
from penstock.jobmanager.running.epochs.runner import EpochRunner
from penstock.jobmanager.running.epochs.schedule import EpochSchedule, discover
from penstock.jobmanager.running.journal import Journal
from penstock.jobmanager.running.plan_view import PlanView
from penstock.runtime.inspection.requests import InspectionRequest, SlotId, SlotInfo
from penstock.savepoint.state_io import SnapshotStateIO
from penstock.time import clock

_log = logging.getLogger(__name__)


class EpochDriver(PlanView):
    """Runs a job in epochs."""

    def __init__(
        self,
        job: Job,
        store: ManifestStore,
        state_io: SnapshotStateIO,
        pipe: Pipe,
        listener: Listener,
        interrupts: Interrupts,
        step_hooks: Sequence[StepHook] = (),
    ) -> None:
        #: Replaced as a whole when the job is rescaled.
        self._job = job
        self._store = store
        self._state_io = state_io
        self._pipe = pipe
        self._listener = listener
        self._step_hooks = step_hooks
        self._journal = Journal(store)
        #: Decides when epochs begin, and how long they read.
        self._pacing = EpochSchedule(job, interrupts)
        self._interrupts = interrupts
        #: Of the current plan; a new one for a new parallelism.
        self._runner = self._create_runner()
        #: Of the plan that was restored last.
        self._attempt = 0
        #: Whether no epoch has been completed since then.
        self._just_restored = True
        _warn_of_alignment(job)

    def _create_runner(self) -> EpochRunner:
        pipe = EpochPipe(
            self._job, self._store, self._state_io, self._pipe, self._journal, self._listener
        )
        return EpochRunner(self._job, self._store, pipe, self._listener, self._step_hooks)

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the plan."""
        return self._runner.checkpoints

    @property
    def tolerates_failures(self) -> bool:
        """Whether it counts failed checkpoints itself: no, an epoch that fails is run again."""
        return False

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Reject the request: there are no slots between epochs, and during an epoch tasks do not answer."""
        result: Future[Any] = Future()
        result.set_exception(
            UnsupportedOperationError(
                "tasks cannot be inspected in epoch mode",
                detail="tasks are started for each epoch, and end with it",
                hint="set penstock.execution.mode to pipelined",
            )
        )
        return result

    def slots(self) -> list[SlotInfo]:
        """Return an empty list: slots are short-lived."""
        return []

    def restore(self, manifest: Manifest | None, *, attempt: int, at_once: bool) -> None:
        """Restore a checkpoint (None: start without state)."""
        self._runner.restore(manifest)
        if not self.finished:
            for source in self.sources:
                source.prepare(lambda: self._interrupts.cancelled)
        self._attempt = attempt
        self._just_restored = True
        if at_once:
            self._pacing.start()

    def advance(self, savepoint: SavepointRequest | None) -> bool:
        """Run an epoch when it is due; False if interrupted before."""
        if savepoint is None and not self._pacing.wait_for_work(
            self._runner, first=self._just_restored
        ):
            return False
        started = time.monotonic()
        if savepoint is not None:
            discover(self._runner.checkpoints.sources)
        self._runner.run_epoch(
            self._settings(savepoint),
            flush=savepoint is not None,
            drain=savepoint is not None and savepoint.drains,
        )
        self._pacing.ended(started, self._runner.checkpoints.sources, first=self._just_restored)
        self._just_restored = False
        self._listener.on_completed(CheckpointSpan(started, time.monotonic()))
        return True

    def _settings(self, savepoint: SavepointRequest | None) -> EpochSettings:
        interval_s = self._job.interval_s
        deadline: float | None = clock.now() + self._pacing.reading_s
        if savepoint is not None:
            deadline = clock.now()  # the savepoint is due now: read at most one batch of each split
        elif self._pacing.reads_all:
            deadline = None
        return EpochSettings(self._attempt, deadline, interval_s, self._just_restored)

    def settle(self) -> None:
        """Do nothing: no records are processed between two epochs."""

    def replan(self, job: Job) -> None:
        """Switch to another plan of the same program; its first epoch is due when the next one would have been."""
        self._runner.close()
        self._handed_over = self.manifest
        self._job = self._pacing.job = job
        self._runner = self._create_runner()

    def sweep(self) -> None:
        """Delete files of failed attempts; only between epochs."""
        self._runner.sweep()

    def close(self) -> None:
        """Release enumerators and committers."""
        self._runner.close()


def _warn_of_alignment(job: Job) -> None:
    """Warn that watermark alignment has no effect: all sources read for the same time."""
    groups = {
        watermark_alignment.group
        for vertex in job.plan.vertices
        for operator in vertex.operators
        if (strategy := getattr(operator.spec, "watermark_strategy", None)) is not None
        and (watermark_alignment := strategy.watermark_alignment) is not None
    }
    if groups:
        _log.warning(
            "watermark alignment (%s) has no effect in epoch mode: all sources read for the same time. Use pipelined mode to align sources",
            ", ".join(sorted(groups)),
        )
