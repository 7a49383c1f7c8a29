"""What is known of one attempt of a stage: who is there, who runs, who has read all, what went wrong. A pure core.

    starting: slots tell where they listen -> all are told of each other -> they run -> running -> failed, or leaving

What a slot reports about checkpoints and metrics is none of its business.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.graph.placement import StageLayout
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import TaskFailedError
from penstock.runtime.task.stage_messages import (
    Command,
    Connect,
    Leave,
    SlotFailed,
    SlotListening,
    SlotRunning,
    SourceFinished,
)
from penstock.runtime.time.pace import SlotTrace


class SlotLostError(PenstockError, RuntimeError):
    """A slot of a stage is gone without a word."""


class StageEndedError(PenstockError, RuntimeError):
    """A stage ended while it was to run."""


class StagePhase(enum.Enum):
    """What becomes of an attempt."""

    STARTING = "starting"
    RUNNING = "running"  # all its slots run
    FAILED = "failed"
    LEAVING = "leaving"  # it was told to end


@dataclass(frozen=True, slots=True)
class Tell:
    """A slot is to be told something."""

    slot: int
    command: Command


@dataclass(frozen=True, slots=True)
class NowRunning:
    """Subtasks are open and connected."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class StageFailed:
    """The attempt has failed, and is to be ended."""

    cause: BaseException


Consequence = Tell | NowRunning | StageFailed


class StageWatch:
    """Follows one attempt of a stage; `sources` are the source subtasks among its tasks."""

    def __init__(self, layout: StageLayout, sources: Iterable[TaskId]) -> None:
        self.layout = layout
        self.phase = StagePhase.STARTING
        self.cause: BaseException | None = None  # set exactly if it has FAILED
        self._sources = frozenset(task for task in sources if task in layout.placement)
        self._addresses: dict[int, str] = {}
        self.places: dict[int, SlotRunning] = {}  # of slots that run, where that is
        self._finished: set[TaskId] = set()
        self.gone: set[int] = set()  # slots that have failed or are lost
        self.traces: list[SlotTrace] = []  # what slots have noted that failed after another

    @property
    def listening(self) -> frozenset[int]:
        """The slots that have told that they are there."""
        return frozenset(self._addresses)

    @property
    def source_slots(self) -> list[int]:
        """The slots that host source subtasks."""
        return sorted({self.layout.placement[task] for task in self._sources})

    @property
    def sources_finished(self) -> bool:
        """Whether all its sources have read all that they ever will."""
        return self._finished >= self._sources

    @property
    def is_over(self) -> bool:
        """Whether it has failed or was told to end: what else happens to it is no news."""
        return self.phase in {StagePhase.FAILED, StagePhase.LEAVING}

    @property
    def all_gone(self) -> bool:
        """Whether no slot has anything more to tell."""
        return len(self.gone) == self.layout.slots

    def on_listening(self, report: SlotListening) -> list[Consequence]:
        """A slot is there. Its second process, if Spark started one, is not wanted: who knows what the first one does."""
        if self.is_over:
            return [Tell(report.slot, Leave())]
        if self.phase is not StagePhase.STARTING or report.slot in self._addresses:
            return self.fail(
                StageEndedError(
                    f"slot {report.slot} of stage {self.layout.stage} was started twice",
                    detail="Spark has tried its task again",
                )
            )
        self._addresses[report.slot] = report.address
        if len(self._addresses) < self.layout.slots:
            return []
        addresses = tuple(self._addresses[slot] for slot in range(self.layout.slots))
        return [Tell(slot, Connect(addresses)) for slot in range(self.layout.slots)]

    def on_running(self, report: SlotRunning) -> list[Consequence]:
        """A slot runs."""
        if self.phase is not StagePhase.STARTING:
            return []
        self.places[report.slot] = report
        if len(self.places) == self.layout.slots:
            self.phase = StagePhase.RUNNING
        hosted = [t for t, slot in self.layout.placement.items() if slot == report.slot]
        return [NowRunning(tuple(hosted))]

    def on_source_finished(self, report: SourceFinished) -> list[Consequence]:
        """A source subtask has read all."""
        self._finished.add(report.task)
        return []

    def on_slot_failed(self, report: SlotFailed) -> list[Consequence]:
        """A slot tells why it has ended."""
        self.gone.add(report.slot)
        if self.phase is StagePhase.FAILED and report.failure.trace is not None:
            self.traces.append(report.failure.trace)
        return self.fail(TaskFailedError(report.failure))

    def on_lost(self, slot: int) -> list[Consequence]:
        """The connection to a slot is lost."""
        self.gone.add(slot)
        return self.fail(
            SlotLostError(
                f"the process of slot {slot} is gone",
                detail="it has ended without a word, or its machine cannot be reached any more",
                hint="if it was killed for the memory it took, give Spark's Python workers more "
                "(spark.executor.pyspark.memory, spark.executor.memoryOverhead) or keep state in rocksdb",
            )
        )

    def on_ended(self, error: BaseException | None) -> list[Consequence]:
        """The stage has ended, by itself if it was not told to."""
        if error is None:
            error = StageEndedError(f"stage {self.layout.stage} ended while the job was running")
        return self.fail(error)

    def fail(self, cause: BaseException) -> list[Consequence]:
        """Take note of a failure; what fails after another failure, or on the way out, is no news."""
        if self.is_over:
            return []
        self.phase = StagePhase.FAILED
        self.cause = cause
        return [StageFailed(cause)]

    def leave(self) -> None:
        """It is told to end."""
        if self.phase is not StagePhase.FAILED:
            self.phase = StagePhase.LEAVING
