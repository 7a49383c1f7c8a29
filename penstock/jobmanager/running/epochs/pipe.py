"""Runs one epoch: deploys the levels, writes the journal, enforces the timeout, passes on acknowledgements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.connectors.base.source import SourceAssignment
from penstock.graph.deployment import LevelDeployment
from penstock.graph.levels import deploy_levels
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_failures import CheckpointExpiredError
from penstock.jobmanager.job import Job
from penstock.jobmanager.restoring.restore_points import restore_points
from penstock.jobmanager.running.driver import Listener
from penstock.jobmanager.running.journal import Journal
from penstock.runtime.network.messages import TaskAck
from penstock.savepoint.state_io import SnapshotStateIO

OnAck = Callable[[TaskAck], None]


class Pipe(Protocol):
    """Runs epochs."""

    def run(self, job_id: str, name: str, levels: Sequence[LevelDeployment], on_ack: OnAck) -> None:
        """Run one epoch to its end; pass on each acknowledgement as it arrives. Raises the failure of a task."""

    def watching(
        self, job_id: str, on_started: Callable[[int, int, int], None]
    ) -> AbstractContextManager[None]:
        """Report the started tasks of a long-running epoch: level, slot and start time.

        Another thread calls the function, never after the `with` block.
        """

    def map(
        self, job_id: str, name: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        """Call a function with each item, in any worker."""

    def cancel(self, job_id: str, *, epoch_only: bool = False) -> None:
        """Cancel the work of a job: its epoch, and everything else unless `epoch_only`."""

    def cores(self) -> int | None:
        """Return how many tasks can run at once, or None if unknown."""


@dataclass(frozen=True, slots=True)
class EpochSettings:
    """The settings of the next epoch.

    `deadline` is a clock.now() value until which sources read, None to read all. `just_restored`: the plan has just been restored.
    """

    attempt: int = 0
    deadline: float | None = None
    longest_read_s: float | None = None
    just_restored: bool = True


class EpochPipe:
    """The pipe of one plan of a job."""

    def __init__(
        self,
        job: Job,
        store: ManifestStore,
        state_io: SnapshotStateIO,
        pipe: Pipe,
        journal: Journal,
        listener: Listener,
    ) -> None:
        self._listener = listener
        self._job = job
        self._store = store
        self._state_io = state_io
        self._pipe = pipe
        self._journal = journal

    def run(
        self,
        checkpoint_id: int,
        base: Manifest | None,
        assignments: Mapping[TaskId, SourceAssignment],
        settings: EpochSettings,
        on_ack: OnAck,
    ) -> None:
        """Run an epoch from the checkpoint `base`; raises its failure."""
        job = self._job
        levels = deploy_levels(
            job.deployments,
            job.settings,
            checkpoint_id=checkpoint_id,
            attempt_number=settings.attempt,
            restore=restore_points(job.plan, base, just_restored=settings.just_restored),
            assignments=assignments,
            deadline=settings.deadline,
            longest_read_s=settings.longest_read_s,
            state_io=self._state_io,
            staging=self._store.staging,
        )
        lock, acknowledged = threading.Lock(), False
        with (
            CheckpointExpiredError.after(job.checkpoints.timeout_ms, self._give_up),
            self._journal.entry(job, base, levels) as entry,
        ):

            def note(ack: TaskAck) -> None:
                nonlocal acknowledged
                with lock:
                    acknowledged = True
                entry.note(ack)
                on_ack(ack)

            def started(level: int, slot: int, launched_ms: int) -> None:
                tasks = [
                    vertex.task(slot - vertex.slot_offset)
                    for vertex in levels[level].vertices
                    if 0 <= slot - vertex.slot_offset < vertex.parallelism
                ]
                with lock:  # from the first acknowledgement on, the other thread reports
                    if not acknowledged:
                        self._listener.on_running(tasks, launched_ms)

            with self._pipe.watching(job.job_id, started):
                self._pipe.run(job.job_id, job.name, levels, note)

    def _give_up(self) -> None:
        self._pipe.cancel(self._job.job_id, epoch_only=True)
