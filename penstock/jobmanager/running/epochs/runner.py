"""Runs epochs one after another: each is a run of the pipe that ends in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.connectors.source import SourceAssignment
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.checkpoints import Checkpoints, StepHook
from penstock.jobmanager.running.driver import Listener
from penstock.jobmanager.running.epochs.pipe import EpochSettings, OnAck
from penstock.runtime.network.messages import TaskAck


class RunsEpochs(Protocol):
    """What runs the tasks of an epoch: an EpochPipe."""

    def run(
        self,
        epoch: int,
        base: Manifest | None,
        assignments: Mapping[TaskId, SourceAssignment],
        settings: EpochSettings,
        on_ack: OnAck,
    ) -> None:
        """Run an epoch; raises what it failed with."""


class EpochRunner:
    """Runs the epochs of one plan of a job."""

    def __init__(
        self,
        job: Job,
        store: ManifestStore,
        pipe: RunsEpochs,
        listener: Listener | None = None,
        step_hooks: Sequence[StepHook] = (),
    ) -> None:
        self._pipe = pipe
        self._listener = listener
        self.checkpoints = Checkpoints(job, store, self._run_pipe, listener, step_hooks)
        self._settings = EpochSettings()  # of the epoch under way
        self._drain = False  # whether the epoch under way is the one that drains the job

    def restore(self, manifest: Manifest | None) -> None:
        """Go back to a checkpoint: commit its output again, delete what failed attempts left, rewind sources."""
        self.checkpoints.restore(manifest)

    def sweep(self) -> None:
        """Delete what failed attempts left; only between epochs."""
        self.checkpoints.sweep()

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) an epoch is due even if no record comes: for timers, idleness, sinks."""
        manifest = self.checkpoints.manifest
        wakeups = [
            None if manifest is None else manifest.next_wakeup,
            self.checkpoints.commit_wakeup(),
        ]
        return min((wakeup for wakeup in wakeups if wakeup is not None), default=None)

    def run_epoch(
        self, settings: EpochSettings | None = None, *, flush: bool = False, drain: bool = False
    ) -> None:
        """Run the next epoch to its end; raises EpochFailedError.

        With `flush` the sinks publish all they have. With `drain` the sources read nothing more and time goes to its end.
        """
        self._settings = settings or EpochSettings()
        self._drain = drain
        self.checkpoints.trigger(flush=flush)

    def _run_pipe(self, epoch: int) -> None:
        assignments: dict[TaskId, SourceAssignment] = {}
        for source in self.checkpoints.sources:
            assignments |= source.assignments(drain=self._drain)
        if self._listener is not None:
            self._listener.on_deploy()

        def on_ack(ack: TaskAck) -> None:
            self.checkpoints.on_ack(epoch, ack)

        self._pipe.run(epoch, self.checkpoints.manifest, assignments, self._settings, on_ack)

    def close(self) -> None:
        """Release enumerators and committers."""
        self.checkpoints.close()
