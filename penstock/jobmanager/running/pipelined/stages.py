"""The running stages of a job: starts and ends them, receives reports of their slots and sends them commands."""

from __future__ import annotations

import logging
import queue
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.errors import JobRequestError
from penstock.graph.deploy_stages import deploy_stage
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.placement import StageLayout
from penstock.graph.task_id import TaskId
from penstock.jobmanager.failover.java_errors import explain_java
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.cluster import Cluster, RunningStage
from penstock.jobmanager.running.pipelined.inspections import Inspection, Inspections
from penstock.jobmanager.running.pipelined.stage_watch import (
    Consequence,
    SendCommand,
    SlotLostError,
    StagePhase,
    StageWatch,
)
from penstock.runtime.inspection.requests import SlotId, SlotInfo
from penstock.runtime.network.authentication import make_keys
from penstock.runtime.network.driver_endpoint import ConnectionLost, DriverEndpoint
from penstock.runtime.network.inspection import InspectionAnswer
from penstock.runtime.task.pipelined.slot_messages import (
    Command,
    SlotFailed,
    SlotListening,
    SlotRunning,
    SlotTraced,
    SourceFinished,
    StopSlot,
)
from penstock.runtime.time.decisions import SlotTrace

_log = logging.getLogger(__name__)

# How long slots have to end by themselves; it takes a few milliseconds unless user code blocks.
_GRACE_S: Final = 1.0
# How long to wait for a cancelled stage: the next one needs its slots.
_TIMEOUT_S: Final = 30.0
_TURN_S: Final = 0.05
# How long slots that end because another one failed have to report their final traces, or to end. The wait ends with the
# last report or connection, so it takes this long only if user code blocks a slot.
_FINAL_TRACES_S: Final = 10.0
# How long to wait for what the cluster knows about a lost slot.
_CLUSTER_ERROR_S: Final = 0.3
# How long reports of an ended stage may still be in transit.
_UNDER_WAY_S: Final = 2.0


@dataclass(slots=True, eq=False)
class StageAttempt:
    """One attempt of one stage."""

    token: str
    watch: StageWatch
    running: RunningStage | None = None
    ended: bool = False
    error: BaseException | None = None  # its error
    drain_until: float | None = (
        None  # once it has ended, until when reports of its slots may arrive
    )
    held: list[tuple[int, Command]] = field(default_factory=list)  # by slot, until all slots run

    @property
    def layout(self) -> StageLayout:
        """The layout of its stage."""
        return self.watch.layout

    def slot_of(self, target: TaskId | SlotId) -> int | None:
        """Return the number of a slot, or of the one that hosts a task, if it is one of this attempt."""
        if isinstance(target, TaskId):
            return self.layout.placement.get(target)
        here = target.stage == self.layout.stage and 0 <= target.slot < self.layout.slots
        return target.slot if here else None


@dataclass(frozen=True, slots=True)
class StageEvent:
    """An event of an attempt: a report about checkpoints or metrics, or the consequences of a life-cycle report."""

    attempt: StageAttempt
    report: Any = None
    consequences: tuple[Consequence, ...] = field(default=())


class Stages:
    """All stages of a job. One thread uses it; `wake` may be called from any."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._endpoint: DriverEndpoint | None = None
        self._attempts: dict[str, StageAttempt] = {}  # by token
        self._ended: queue.SimpleQueue[tuple[str, BaseException | None]] = queue.SimpleQueue()
        # Events of other attempts that arrived while final traces were awaited.
        self._deferred: list[StageEvent] = []
        self.inspections = Inspections(self.wake)

    @property
    def attempts(self) -> list[StageAttempt]:
        """The attempts that have not ended, in order of their stages."""
        return sorted(self._attempts.values(), key=lambda each: each.layout.stage)

    @property
    def all_running(self) -> bool:
        """Whether there are stages and all their slots run."""
        return bool(self._attempts) and all(
            each.watch.phase is StagePhase.RUNNING for each in self._attempts.values()
        )

    @property
    def sources_finished(self) -> bool:
        """Whether all sources have finished."""
        return all(each.watch.sources_finished for each in self._attempts.values())

    def wake(self) -> None:
        """Wake up the current or the next `hear`."""
        if self._endpoint is not None:
            self._endpoint.wake()

    # Starting and ending

    def start(
        self,
        job: Job,
        layouts: Iterable[StageLayout],
        *,
        attempt_number: int,
        next_checkpoint: int,
        restore: Mapping[TaskId, SubtaskRestore],
        assignments: Mapping[TaskId, Any],
        state_io: Any,
        staging: str,
    ) -> None:
        """Start stages; their slots report later."""
        if self._endpoint is None:
            self._endpoint = DriverEndpoint(
                self._cluster.host(), job.network.heartbeat, self._cluster.listens_at()
            )
        for layout in layouts:
            token = uuid.uuid4().hex[:12]
            keys = make_keys()
            attempt = StageAttempt(token, StageWatch(layout, assignments))
            deployment = deploy_stage(
                layout,
                job.deployments,
                job.settings,
                attempt=token,
                attempt_number=attempt_number,
                next_checkpoint=next_checkpoint,
                restore=restore,
                assignments=assignments,
                state_io=state_io,
                staging=staging,
                driver=self._endpoint.open_stage(token, keys),
                keys=keys,
                network=job.network,
                barriers=job.barriers,
            )
            self._attempts[token] = attempt
            attempt.running = self._cluster.start_stage(
                job.job_id, job.name, deployment, self._noting_end_of(token)
            )

    def _noting_end_of(self, token: str) -> Callable[[BaseException | None], None]:
        def note(error: BaseException | None) -> None:
            self._ended.put((token, error))
            self.wake()

        return note

    def end(self, attempts: Collection[StageAttempt]) -> None:
        """End attempts: their slots are asked to end, and cancelled if they do not. Returns when they have ended."""
        for attempt in attempts:
            self.let_go(attempt)
        if not self._gone(attempts, _GRACE_S):
            for attempt in attempts:
                if not attempt.ended and attempt.running is not None:
                    attempt.running.cancel()
            if not self._gone(attempts, _TIMEOUT_S):
                _log.warning("a stage did not end within %.0f s after it was cancelled", _TIMEOUT_S)
        for attempt in attempts:
            self._attempts.pop(attempt.token, None)
            self.inspections.on_ended(attempt.token)
            if self._endpoint is not None:
                self._endpoint.close_stage(attempt.token)

    def let_go(self, attempt: StageAttempt) -> None:
        """Ask the slots of an attempt to end."""
        attempt.watch.leave()
        for slot in attempt.watch.listening:
            self.tell(attempt, slot, StopSlot(failed=attempt.watch.phase is StagePhase.FAILED))
        everyone = len(attempt.watch.listening) == attempt.layout.slots
        if not everyone and attempt.running is not None:  # the other slots cannot be reached
            attempt.running.cancel()

    def cause_of(self, attempt: StageAttempt) -> BaseException | None:
        """Return the failure of an attempt. For a lost slot the cluster may know the cause shortly after."""
        cause = attempt.watch.cause
        if isinstance(cause, SlotLostError) and self._gone([attempt], _CLUSTER_ERROR_S):
            java = getattr(attempt.error, "java_exception", None)
            if java is not None:
                cause.detail = explain_java(str(java))
        return cause

    def final_traces(
        self, attempts: Collection[StageAttempt], cancelled: Callable[[], bool]
    ) -> list[SlotTrace]:
        """Return the final traces of failed attempts; waits until each of their slots has reported its own or has ended.

        Events of other attempts that arrive meanwhile are returned by the next `poll_events`.
        """
        if self._endpoint is None:
            return []
        begun = time.monotonic()
        until = begun + _FINAL_TRACES_S
        others: list[StageEvent] = []
        while any(each.watch.owes_traces for each in attempts) and not cancelled():
            left = until - time.monotonic()
            if left <= 0:
                break
            if all(each.ended for each in attempts):  # their reports may still be in transit
                until = min(until, time.monotonic() + _UNDER_WAY_S)
            found = self.poll_events(min(left, _TURN_S))
            others += [each for each in found if each.attempt not in attempts]
        self._deferred += others
        waited = time.monotonic() - begun
        for attempt in attempts:
            _warn_of_missing_traces(attempt.watch, waited)
        return [trace for each in attempts for trace in each.watch.traces.values()]

    def _gone(self, attempts: Collection[StageAttempt], seconds: float) -> bool:
        """Wait until attempts have ended. The endpoint keeps the reports that arrive meanwhile."""
        until = time.monotonic() + seconds
        while True:
            self._note_ends()
            if all(attempt.ended or attempt.running is None for attempt in attempts):
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            waiting = next(each for each in attempts if not each.ended and each.running is not None)
            assert waiting.running is not None
            waiting.running.join(min(left, _TURN_S))

    def close(self) -> None:
        """End everything."""
        self.inspections.close()
        self.end(self.attempts)
        if self._endpoint is not None:
            endpoint, self._endpoint = self._endpoint, None
            endpoint.close()

    # Reports and commands

    def poll_events(self, seconds: float) -> list[StageEvent]:
        """Return new events; wait for them up to `seconds` or until `wake`."""
        if self._endpoint is None:
            time.sleep(min(seconds, _TURN_S))
            return []
        deferred, self._deferred = self._deferred, []
        # The commands that follow from them were sent when they arrived.
        earlier = [each for each in deferred if each.attempt.token in self._attempts]
        events: list[StageEvent] = []
        for inspection in self.inspections.take():
            self._ask(inspection)
        for arrival in self._endpoint.poll(0.0 if earlier else self._drain_deadline(seconds)):
            attempt = self._attempts.get(arrival.stage)
            if isinstance(arrival.message, InspectionAnswer):
                self.inspections.on_answer(arrival.message)
            elif attempt is not None:
                events.append(self._sort_out(attempt, arrival.slot, arrival.message))
        events += self._take_ends()
        for each in events:
            for consequence in each.consequences:
                if isinstance(consequence, SendCommand):
                    self.tell(each.attempt, consequence.slot, consequence.command)
            if each.attempt.held and each.attempt.watch.phase is StagePhase.RUNNING:
                held, each.attempt.held = each.attempt.held, []
                for slot, command in held:
                    self.tell(each.attempt, slot, command)
        return [*earlier, *events]

    def _sort_out(self, attempt: StageAttempt, slot: int, message: object) -> StageEvent:
        watch = attempt.watch
        follows: Sequence[Consequence]
        match message:
            case SlotListening():
                follows = watch.on_listening(message)
            case SlotRunning():
                follows = watch.on_running(message)
            case SourceFinished():
                follows = watch.on_source_finished(message)
            case SlotFailed():
                follows = watch.on_slot_failed(message)
            case SlotTraced():
                follows = watch.on_traced(message)
            case ConnectionLost():
                follows = watch.on_lost(slot)
            case _:
                return StageEvent(attempt, message)
        return StageEvent(attempt, None, tuple(follows))

    def _ask(self, inspection: Inspection) -> None:
        """Send an inspection request to its slot."""
        target = inspection.target
        for attempt in self.attempts:
            slot = attempt.slot_of(target)
            if slot is None or slot not in attempt.watch.listening or self._endpoint is None:
                continue
            if self._endpoint.ask(attempt.token, slot, inspection.question):
                self.inspections.sent(inspection, attempt.token)
            else:  # its first message on that connection wakes up `hear`
                self.inspections.postpone(inspection)
            return
        what = f"task {target}" if isinstance(target, TaskId) else str(target)
        self.inspections.refuse(inspection, JobRequestError(f"{what} is not running"))

    def slots(self) -> list[SlotInfo]:
        """Return the running slots. Thread-safe."""
        return [
            SlotInfo(
                SlotId(attempt.layout.stage, slot),
                where.host,
                where.process,
                tuple(t for t, s in attempt.layout.placement.items() if s == slot),
            )
            for attempt in self.attempts
            for slot, where in sorted(attempt.watch.places.copy().items())
        ]

    def _note_ends(self) -> None:
        while True:
            try:
                token, error = self._ended.get_nowait()
            except queue.Empty:
                return
            attempt = self._attempts.get(token)
            if attempt is not None:
                attempt.ended, attempt.error = True, error
                attempt.drain_until = time.monotonic() + _UNDER_WAY_S

    def _take_ends(self) -> list[StageEvent]:
        """Return the ends of stages whose slots will not report any more: a failing slot reports before its stage ends."""
        self._note_ends()
        events = []
        for attempt in self.attempts:
            until, watch = attempt.drain_until, attempt.watch
            if until is None:
                continue
            if watch.is_over or watch.all_gone or until <= time.monotonic():
                attempt.drain_until = None
                events.append(StageEvent(attempt, None, tuple(watch.on_ended(attempt.error))))
        return events

    def _drain_deadline(self, seconds: float) -> float:
        """Return the wait time for reports, at most this long."""
        self._note_ends()
        ends = [each.drain_until for each in self._attempts.values() if each.drain_until]
        return max(0.0, min([seconds, *(end - time.monotonic() for end in ends)]))

    def tell(self, attempt: StageAttempt, slot: int, command: Command) -> None:
        """Send a command to one slot."""
        if self._endpoint is not None:
            self._endpoint.send(attempt.token, slot, command)

    def send_to_all(self, command: Command) -> None:
        """Send a command to all slots of all running stages."""
        for attempt in self.attempts:
            if attempt.watch.phase is StagePhase.RUNNING:
                for slot in range(attempt.layout.slots):
                    self.tell(attempt, slot, command)

    def send_to_sources(self, command: Command) -> None:
        """Send a command to all slots with sources."""
        for attempt in self.attempts:
            for slot in attempt.watch.source_slots:
                self.tell(attempt, slot, command)

    def send_to_task(self, task: TaskId, command: Command) -> None:
        """Send a command to the slot of a subtask, once it runs."""
        for attempt in self.attempts:
            slot = attempt.layout.placement.get(task)
            if slot is None:
                continue
            if attempt.watch.phase is StagePhase.STARTING:
                attempt.held.append((slot, command))
            elif attempt.watch.phase is StagePhase.RUNNING:
                self.tell(attempt, slot, command)


def _warn_of_missing_traces(watch: StageWatch, waited: float) -> None:
    missing = watch.without_trace
    if missing:
        _log.warning(
            "the journal has no final trace of %d of the %d slots of stage %d: %d ended without one, %d did not report it "
            "within %.1f s. `penstock replay` of the failed interval is an approximation",
            len(missing),
            watch.layout.slots,
            watch.layout.stage,
            len(missing & watch.gone),
            len(missing - watch.gone),
            waited,
        )
