"""Runs epochs one after another: each is a run of the pipe that ends in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.connectors.base.source import SourceAssignment
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.checkpoints import Checkpoints, StepHook
from penstock.jobmanager.running.driver import Listener
from penstock.jobmanager.running.epochs.pipe import EpochSettings, OnAck
from penstock.runtime.network.messages import TaskAck


class EpochExecution(Protocol):
    """Runs the tasks of an epoch: an EpochPipe."""

    def run(
        self,
        checkpoint_id: int,
        base: Manifest | None,
        assignments: Mapping[TaskId, SourceAssignment],
        settings: EpochSettings,
        on_ack: OnAck,
    ) -> None:
        """Run an epoch; raises its failure."""


class EpochRunner:
    """Runs the epochs of one plan of a job."""

    def __init__(
        self,
        job: Job,
        store: ManifestStore,
        pipe: EpochExecution,
        listener: Listener | None = None,
        step_hooks: Sequence[StepHook] = (),
    ) -> None:
        self._pipe = pipe
        self._listener = listener
        self.checkpoints = Checkpoints(job, store, self._run_pipe, listener, step_hooks)
        self._settings = EpochSettings()  # of the current epoch
        self._drain = False  # whether the current epoch drains the job

    def restore(self, manifest: Manifest | None) -> None:
        """Restore a checkpoint: commit its output again, delete files of failed attempts, reset sources."""
        self.checkpoints.restore(manifest)

    def sweep(self) -> None:
        """Delete files of failed attempts; only between epochs."""
        self.checkpoints.sweep()

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) an epoch is due even without records: for timers, idleness, sinks."""
        manifest = self.checkpoints.manifest
        wakeups = [
            None if manifest is None else manifest.next_wakeup,
            self.checkpoints.commit_wakeup(),
        ]
        return min((wakeup for wakeup in wakeups if wakeup is not None), default=None)

    def run_epoch(
        self, settings: EpochSettings | None = None, *, flush: bool = False, drain: bool = False
    ) -> None:
        """Run the next epoch to its end; raises ExecutionFailedError.

        With `flush` the sinks commit all their output. With `drain` the sources stop reading and the final watermark is sent.
        """
        self._settings = settings or EpochSettings()
        self._drain = drain
        self.checkpoints.trigger(flush=flush)

    def _run_pipe(self, checkpoint_id: int) -> None:
        assignments: dict[TaskId, SourceAssignment] = {}
        for source in self.checkpoints.sources:
            assignments |= source.assignments(drain=self._drain)
        if self._listener is not None:
            self._listener.on_deploy()

        def on_ack(ack: TaskAck) -> None:
            self.checkpoints.on_ack(checkpoint_id, ack)

        self._pipe.run(
            checkpoint_id, self.checkpoints.manifest, assignments, self._settings, on_ack
        )

    def close(self) -> None:
        """Release enumerators and committers."""
        self.checkpoints.close()
