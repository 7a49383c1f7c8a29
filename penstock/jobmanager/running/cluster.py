"""The cluster of a job: Spark, or the threads of this process. Epoch mode uses its `Pipe`, pipelined mode starts stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.graph.stage import ClusterCapacity, SlotDemand, StageDeployment
from penstock.jobmanager.running.epochs.pipe import Pipe

OnEnd = Callable[[BaseException | None], None]


class RunningStage(Protocol):
    """A started stage."""

    def cancel(self) -> None:
        """Cancel the stage. Returns at once."""

    def join(self, seconds: float) -> bool:
        """Wait until the stage has ended; return whether it has."""


class Cluster(Pipe, Protocol):
    """Runs the tasks of jobs."""

    def capacity(self, demand: SlotDemand, interrupted: Callable[[], bool]) -> ClusterCapacity:
        """Allocate the requested slots to a job, replacing its current ones; waits for them until it is interrupted.

        Raises InsufficientSlotsError. The job holds them until `release`.
        """

    def release(self, job_id: str) -> None:
        """Release the slots of a job."""

    def host(self) -> str:
        """Return the address of this process at which slots reach it."""

    def listens_at(self) -> str:
        """Return the address on which this process listens; it differs from `host` behind NAT."""

    def start_stage(
        self, job_id: str, name: str, deployment: StageDeployment, on_end: OnEnd
    ) -> RunningStage:
        """Start a stage. When it has ended, another thread calls `on_end` with its error, if it failed."""
