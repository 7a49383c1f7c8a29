"""Where jobs run: Spark, or the threads of this process. Epochs need its `Pipe`; pipelined jobs start stages that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.graph.stage import Room, SlotDemand, StageDeployment
from penstock.jobmanager.running.epochs.pipe import Pipe

OnEnd = Callable[[BaseException | None], None]


class RunningStage(Protocol):
    """A stage that was started."""

    def cancel(self) -> None:
        """End it, whatever it does. Returns at once."""

    def join(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""


class Cluster(Pipe, Protocol):
    """Where the tasks of jobs run."""

    def room(self, demand: SlotDemand, interrupted: Callable[[], bool]) -> Room:
        """Give a job the slots that it asks for, in place of what it has; waits for them until somebody wants something else.

        Raises NoRoomError. The job holds them until `release`.
        """

    def release(self, job_id: str) -> None:
        """Take back what a job was given."""

    def host(self) -> str:
        """Return the address of this process at which slots reach it."""

    def listens_at(self) -> str:
        """Return the address at which this process listens: behind a translation of addresses it is another one."""

    def start_stage(
        self, job_id: str, name: str, deployment: StageDeployment, on_end: OnEnd
    ) -> RunningStage:
        """Start a stage. When it has ended, another thread calls `on_end` with what it failed with, if it did."""
