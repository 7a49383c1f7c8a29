"""The part of a driver that both modes share: access to the checkpoints of its plan."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.manifest import Manifest
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.checkpoints import Checkpoints
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.runtime.network.messages import TaskAck


class PlanView:
    """The part of a Driver that reads from the checkpoints of its plan."""

    _job: Job
    _handed_over: Manifest | None = None  # by the previous plan

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the plan."""
        raise NotImplementedError

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The coordinator of the plan's checkpoints; its `base` is the last completed one."""
        return self.checkpoints.coordinator

    @property
    def manifest(self) -> Manifest | None:
        """The last completed checkpoint, also during a switch to another plan."""
        return self.checkpoints.manifest or self._handed_over

    @property
    def sources(self) -> Sequence[SourceCoordinator]:
        """The sources of the plan."""
        return self.checkpoints.sources

    @property
    def acks(self) -> Sequence[TaskAck]:
        """The ACKs of the last completed checkpoint."""
        return self.checkpoints.acks

    @property
    def finished(self) -> bool:
        """Whether the last completed checkpoint is the last of the job."""
        return self.checkpoints.finished

    @property
    def interval_s(self) -> float:
        """The regular time from one checkpoint to the next."""
        return self._job.interval_s
