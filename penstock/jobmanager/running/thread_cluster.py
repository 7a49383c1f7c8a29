"""The threads of this process as the cluster of a job."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from penstock.graph.deployment import LevelDeployment
from penstock.graph.stage import ClusterCapacity, SlotDemand, StageDeployment
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.jobmanager.running.cluster import OnEnd
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.epochs.local_pipe import run_pipe_locally
from penstock.runtime.task.pipelined.local_stage import run_stage_locally
from penstock.runtime.task.pipelined.pipelined_slot import StopSignal

_ENDING_S = 2.0  # how long the end of the process waits for the slots of its jobs


class ThreadCluster:
    """This process as a cluster: in epoch mode one slot after another, in pipelined mode slots as threads.

    `slots` limits the number of slots for all jobs that share `resources`.
    """

    def __init__(self, slots: int | None = None, resources: ResourceManager | None = None) -> None:
        self._slots = slots
        self._resources = resources or ResourceManager()
        self._stages: list[_LocalStage] = []
        self._cancelled = threading.Event()  # set to end the epoch under way

    def run(
        self,
        job_id: str,
        name: str,
        levels: Sequence[LevelDeployment],
        on_ack: Callable[[TaskAck], None],
    ) -> None:
        """Run one epoch."""
        self._cancelled = cancelled = threading.Event()
        run_pipe_locally(levels, on_ack, cancelled.is_set)

    def watching(
        self,
        job_id: str,
        on_started: Callable[[int, int, int], None],
    ) -> contextlib.AbstractContextManager[None]:
        """Tell nothing: an epoch is over before anybody could look."""
        return contextlib.nullcontext()

    def map(
        self, job_id: str, name: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        """Call a function with each item."""
        return [function(item) for item in items]

    def cancel(self, job_id: str, *, epoch_only: bool = False) -> None:
        """Cancel the running epoch as soon as the user's functions return, and cancel pipelined stages."""
        self._cancelled.set()
        for stage in list(self._stages):
            stage.cancel()

    def cores(self) -> int | None:
        """Unknown: subtasks run one after another, so there is no meaningful number."""
        return None

    def capacity(self, demand: SlotDemand, interrupted: Callable[[], bool]) -> ClusterCapacity:
        """Give a job slots, if there is a limit; else there is room for all."""
        if self._slots is None:
            return ClusterCapacity(None)
        slots = self._slots
        return ClusterCapacity(self._resources.acquire(demand, lambda: slots, interrupted))

    def release(self, job_id: str) -> None:
        """Take back the slots of a job."""
        self._resources.release(job_id)

    def host(self) -> str:
        """Return the address of this process."""
        return "127.0.0.1"

    def listens_at(self) -> str:
        """Return the address that this process listens at."""
        return "127.0.0.1"

    def start_stage(
        self, job_id: str, name: str, deployment: StageDeployment, on_end: OnEnd
    ) -> _LocalStage:
        """Start a stage in threads."""
        stage = _LocalStage(deployment, on_end)
        self._stages.append(stage)
        stage.start()
        return stage


# Threads that are in a library of C++ when the interpreter ends would abort the process.
_stages: weakref.WeakSet[_LocalStage] = weakref.WeakSet()


def _end_stages() -> None:
    stages = list(_stages)
    for stage in stages:
        stage.cancel()
    until = time.monotonic() + _ENDING_S
    for stage in stages:
        stage.join(max(0.0, until - time.monotonic()))


atexit.register(_end_stages)


class _LocalStage:
    """A stage whose slots are threads. A slot that user code keeps cannot be ended."""

    def __init__(self, deployment: StageDeployment, on_end: OnEnd) -> None:
        self._deployment = deployment
        self._on_end = on_end
        self._stop = StopSignal()
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-stage-{deployment.stage}", daemon=True
        )

    def start(self) -> None:
        _stages.add(self)
        self._thread.start()

    def cancel(self) -> None:
        self._stop.set()

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            run_stage_locally(self._deployment, self._stop)
        except BaseException as error:  # noqa: BLE001 - passed to `on_end`
            failure = error
        self._on_end(failure)
