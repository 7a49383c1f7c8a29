"""The state of one attempt of a stage: listening and running slots, finished sources, failures. A pure core.

    starting: slots report their addresses -> all get the addresses of the others -> they run -> running -> failed, or leaving

Reports about checkpoints and metrics are handled elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.graph.placement import StageLayout
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import TaskFailedError
from penstock.runtime.task.pipelined.slot_messages import (
    Command,
    Connect,
    SlotFailed,
    SlotListening,
    SlotRunning,
    SlotTraced,
    SourceFinished,
    StopSlot,
)
from penstock.runtime.time.decisions import SlotTrace


class SlotLostError(PenstockError, RuntimeError):
    """A slot of a stage was lost without a report."""


class StageEndedError(PenstockError, RuntimeError):
    """A stage ended unexpectedly."""


class StagePhase(enum.Enum):
    """The phase of an attempt."""

    STARTING = "starting"
    RUNNING = "running"  # all its slots run
    FAILED = "failed"
    LEAVING = "leaving"  # it was asked to end


@dataclass(frozen=True, slots=True)
class SendCommand:
    """A command must be sent to a slot."""

    slot: int
    command: Command


@dataclass(frozen=True, slots=True)
class StageRunning:
    """Subtasks are open and connected."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class StageFailed:
    """The attempt has failed and must be ended."""

    cause: BaseException


Consequence = SendCommand | StageRunning | StageFailed


class StageWatch:
    """Tracks one attempt of a stage; `sources` are the source subtasks among its tasks."""

    def __init__(self, layout: StageLayout, sources: Iterable[TaskId]) -> None:
        self.layout = layout
        self.phase = StagePhase.STARTING
        self.cause: BaseException | None = None  # set if and only if it has FAILED
        self._sources = frozenset(task for task in sources if task in layout.placement)
        self._addresses: dict[int, str] = {}
        self.places: dict[int, SlotRunning] = {}  # locations of running slots
        self._finished: set[TaskId] = set()
        self.gone: set[int] = set()  # slots that have failed or are lost
        # Final traces by slot, except that of the slot whose failure is the cause, which has its own.
        self.traces: dict[int, SlotTrace] = {}
        self._traced: set[int] = set()  # slots that have reported their final trace

    @property
    def listening(self) -> frozenset[int]:
        """The slots that have reported their address."""
        return frozenset(self._addresses)

    @property
    def source_slots(self) -> list[int]:
        """The slots that host source subtasks."""
        return sorted({self.layout.placement[task] for task in self._sources})

    @property
    def sources_finished(self) -> bool:
        """Whether all its sources have finished."""
        return self._finished >= self._sources

    @property
    def is_over(self) -> bool:
        """Whether it has failed or is ending: further events are ignored."""
        return self.phase in {StagePhase.FAILED, StagePhase.LEAVING}

    @property
    def all_gone(self) -> bool:
        """Whether no slot will report any more."""
        return len(self.gone) == self.layout.slots

    @property
    def without_trace(self) -> frozenset[int]:
        """The slots that have reported their address, but no final trace."""
        return self.listening - self._traced

    @property
    def owes_traces(self) -> bool:
        """Whether there are slots that may still report their final trace."""
        return not self.without_trace <= self.gone

    def on_listening(self, report: SlotListening) -> list[Consequence]:
        """A slot reports its address. A second process of the same slot fails the stage: the first one may still run."""
        if self.is_over:
            return [SendCommand(report.slot, StopSlot())]
        if self.phase is not StagePhase.STARTING or report.slot in self._addresses:
            return self.fail(
                StageEndedError(
                    f"slot {report.slot} of stage {self.layout.stage} was started twice",
                    detail="Spark has retried its task",
                )
            )
        self._addresses[report.slot] = report.address
        if len(self._addresses) < self.layout.slots:
            return []
        addresses = tuple(self._addresses[slot] for slot in range(self.layout.slots))
        return [SendCommand(slot, Connect(addresses)) for slot in range(self.layout.slots)]

    def on_running(self, report: SlotRunning) -> list[Consequence]:
        """A slot runs."""
        if self.phase is not StagePhase.STARTING:
            return []
        self.places[report.slot] = report
        if len(self.places) == self.layout.slots:
            self.phase = StagePhase.RUNNING
        hosted = [t for t, slot in self.layout.placement.items() if slot == report.slot]
        return [StageRunning(tuple(hosted))]

    def on_source_finished(self, report: SourceFinished) -> list[Consequence]:
        """A source subtask has finished."""
        self._finished.add(report.task)
        return []

    def on_slot_failed(self, report: SlotFailed) -> list[Consequence]:
        """A slot reports its failure."""
        self.gone.add(report.slot)
        if report.failure.trace is not None:
            self._traced.add(report.slot)
            if self.phase is StagePhase.FAILED:
                self.traces[report.slot] = report.failure.trace
        return self.fail(TaskFailedError(report.failure))

    def on_traced(self, report: SlotTraced) -> list[Consequence]:
        """A slot that was asked to end reports its final trace."""
        self._traced.add(report.slot)
        self.traces[report.slot] = report.trace
        return []

    def on_lost(self, slot: int) -> list[Consequence]:
        """The connection to a slot is lost."""
        self.gone.add(slot)
        return self.fail(
            SlotLostError(
                f"lost the process of slot {slot}",
                detail="it ended without a report, or its machine cannot be reached any more",
                hint="if it was killed because of its memory, give Spark's Python workers more "
                "(spark.executor.pyspark.memory, spark.executor.memoryOverhead) or keep state in rocksdb",
            )
        )

    def on_ended(self, error: BaseException | None) -> list[Consequence]:
        """The stage has ended, unexpectedly unless it was asked to."""
        if error is None:
            error = StageEndedError(f"stage {self.layout.stage} ended while the job was running")
        return self.fail(error)

    def fail(self, cause: BaseException) -> list[Consequence]:
        """Record a failure; ignored after another failure, or while the attempt ends."""
        if self.is_over:
            return []
        self.phase = StagePhase.FAILED
        self.cause = cause
        return [StageFailed(cause)]

    def leave(self) -> None:
        """Record that the attempt was asked to end."""
        if self.phase is not StagePhase.FAILED:
            self.phase = StagePhase.LEAVING
