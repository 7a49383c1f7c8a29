"""The driver of pipelined mode: starts stages, triggers checkpoints, and restarts failed stages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from penstock.checkpoint.coordinator import CoordinatorPhase
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.messages import NotifyCheckpointComplete
from penstock.checkpoint.schedule import CheckpointSchedule, SchedulePolicy
from penstock.connectors.base.source import SourceAssignment
from penstock.graph.placement import StageLayout, lay_out
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_failures import CheckpointExpiredError
from penstock.jobmanager.job import Job
from penstock.jobmanager.modes import check_capacity
from penstock.jobmanager.requests import SavepointRequest
from penstock.jobmanager.resources.demand import reserved_slots, slot_demand
from penstock.jobmanager.restoring.restore_points import restore_points
from penstock.jobmanager.running.checkpoints import Checkpoints, Outcome, StepHook
from penstock.jobmanager.running.cluster import Cluster
from penstock.jobmanager.running.driver import (
    CheckpointSpan,
    ExecutionFailedError,
    Interrupts,
    Listener,
)
from penstock.jobmanager.running.journal import Journal
from penstock.jobmanager.running.pipelined.discovery import Discovery, DiscoveryOutcome
from penstock.jobmanager.running.pipelined.interval_journal import IntervalJournal
from penstock.jobmanager.running.pipelined.stage_watch import StageFailed, StagePhase, StageRunning
from penstock.jobmanager.running.pipelined.stages import StageAttempt, StageEvent, Stages
from penstock.jobmanager.running.plan_view import PlanView
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.jobmanager.sources.watermark_alignment import WatermarkAlignmentGroups
from penstock.runtime.inspection.requests import InspectionRequest, SlotId, SlotInfo
from penstock.runtime.task.pipelined.slot_messages import (
    AcknowledgeCheckpoint,
    AlignmentReport,
    AssignSplits,
    CancelCheckpoint,
    ConfirmCheckpoint,
    DeclineCheckpoint,
    OutputTaken,
    SinkOutput,
    SlotReport,
    SplitsFinished,
    TriggerBarrier,
)
from penstock.savepoint.state_io import SnapshotStateIO
from penstock.time import clock

_LONGEST_WAIT_S: Final = 1.0
# How long tasks wait for the first split discovery; afterwards they start without splits and get them later.
_FIRST_LOOK_S: Final = 1.0


class PipelinedDriver(PlanView):
    """Runs a job in pipelined mode."""

    def __init__(
        self,
        job: Job,
        store: ManifestStore,
        state_io: SnapshotStateIO,
        cluster: Cluster,
        listener: Listener,
        interrupts: Interrupts,
        step_hooks: Sequence[StepHook] = (),
    ) -> None:
        self._job = job
        self._store = store
        self._state_io = replace(state_io, merges=True)
        self._cluster = cluster
        self._listener = listener
        self._interrupts = interrupts
        self._step_hooks = step_hooks
        self._stages = Stages(cluster)
        self._discovery = Discovery(self._stages.wake)
        #: By operator id; a sink that streams results to the driver gets them without a checkpoint
        self._sinks = job.sinks()
        self._schedule = CheckpointSchedule(_policy(job))
        self._checkpoints = self._create_checkpoints()
        self._journal = Journal(store)
        self._notes = IntervalJournal(self._journal, job, state_io)
        #: The attempt number of the last restore
        self._attempt = 0
        #: The settings of the next trigger, without its number and time
        self._how = TriggerBarrier(0, 0)
        #: The checkpoint that was triggered when all sources had finished; None before
        self._last: int | None = None
        #: The groups of the running stages; without members before the first restore
        self._watermark_alignment = WatermarkAlignmentGroups({})
        #: By number, the monotonic time at which a checkpoint was triggered, until it has ended
        self._begun: dict[int, float] = {}
        #: Whether all slots have run since the last restore: only then checkpoints become due
        self._ran = False
        #: Whether the first checkpoint after a restore is due at once
        self._at_once = False
        #: Whether sources were stopped by a checkpoint that was to be the last; if the job runs on, the plan is restored
        self._stopped = False
        interrupts.on_interrupt(self._stages.wake)

    def _create_checkpoints(self) -> Checkpoints:
        return Checkpoints(
            self._job,
            self._store,
            self._trigger_sources,
            self._listener,
            self._step_hooks,
            pipelined=True,
        )

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the plan."""
        return self._checkpoints

    @property
    def tolerates_failures(self) -> bool:
        """Whether it counts failed checkpoints itself: yes, because tasks continue."""
        return True

    # Thread-safe

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Send an inspection request to a task or slot."""
        return self._stages.inspections.ask(target, request)

    def slots(self) -> list[SlotInfo]:
        """Return the running slots."""
        return self._stages.slots()

    # Start and restart

    def restore(self, manifest: Manifest | None, *, attempt: int, at_once: bool) -> None:
        """Restore a checkpoint; if only some stages have failed since, only those are restored."""
        self._at_once = at_once and attempt > 0
        self._attempt = attempt
        self._ran = False
        self._last = None
        failed = [e for e in self._stages.attempts if e.watch.phase is StagePhase.FAILED]
        healthy = [e for e in self._stages.attempts if e.watch.phase is not StagePhase.FAILED]
        if failed and healthy and self._goes_on_from(manifest):
            self._restart(failed)
            return
        self._discovery.stop(self.sources)
        self._stages.end(self._stages.attempts)
        self._checkpoints.restore(manifest)
        self._schedule.start(time.monotonic())
        self._begun = {}
        self._stopped = False
        if not self.finished:
            self._discover_first(self.sources)
            layouts = self._lay_out()
            self._watermark_alignment = _watermark_alignment_groups(self._job, layouts)
            self._notes.begin(manifest, self._assignments(), attempt=attempt)
            self._deploy(layouts)

    def _goes_on_from(self, manifest: Manifest | None) -> bool:
        """Whether the running stages continue from the checkpoint to restore."""
        base = self._checkpoints.manifest
        same = (None if base is None else base.checkpoint_id) == (
            None if manifest is None else manifest.checkpoint_id
        )
        return same and not self._stopped and self.coordinator.phase is CoordinatorPhase.IDLE

    def _restart(self, failed: Sequence[StageAttempt]) -> None:
        """Restore only some stages from the last checkpoint."""
        vertices = {vertex for each in failed for vertex in each.layout.vertices}
        sources = [source for source in self.sources if source.vertex in vertices]
        self._stages.end(failed)
        self._checkpoints.abandon([task for each in failed for task in each.layout.placement])
        for source in sources:
            self._checkpoints.restore_source(source, self._checkpoints.manifest)
        self._discover_first(sources)
        self._watermark_alignment.restart(
            (each.layout.stage, slot) for each in failed for slot in range(each.layout.slots)
        )
        self._notes.forget([task for each in failed for task in each.layout.placement])
        self._deploy([each.layout for each in failed])

    def _deploy(self, layouts: Sequence[StageLayout]) -> None:
        self._listener.on_deploy([task for layout in layouts for task in layout.placement])
        self._stages.start(
            self._job,
            layouts,
            attempt_number=self._attempt,
            next_checkpoint=self._checkpoints.next_number,
            restore=restore_points(self._job.plan, self._checkpoints.manifest, just_restored=True),
            assignments=self._assignments(),
            state_io=self._state_io,
            staging=self._store.staging,
        )

    def _assignments(self) -> dict[TaskId, SourceAssignment]:
        return {
            task: assignment
            for source in self.sources
            for task, assignment in source.assignments().items()
        }

    def _lay_out(self) -> tuple[StageLayout, ...]:
        demand = slot_demand(self._job)
        capacity = self._cluster.capacity(demand, lambda: self._interrupts.cancelled)
        check_capacity(demand.slots, capacity)
        granted = capacity.slots
        for_tasks = None if granted is None else granted - reserved_slots(self._job)
        return lay_out(self._job.job_graph, for_tasks)

    def _discover_first(self, sources: Sequence[SourceCoordinator]) -> None:
        for source in sources:  # before tasks hold the slots of the job
            source.prepare(lambda: self._interrupts.cancelled)
        for look in self._discovery.start(sources, _FIRST_LOOK_S):
            self._take_look(look)

    # From one checkpoint to the next

    def advance(self, savepoint: SavepointRequest | None) -> bool:
        """Run to the next completed checkpoint; False if interrupted before."""
        if savepoint is not None:
            how = TriggerBarrier(0, 0, drain=savepoint.drains, stop=savepoint.stops, aligned=True)
            self._complete_one(how, flush=True)
            return True
        if (
            self._stopped
        ):  # the last checkpoint was to end the job, but did not: sources are stopped
            self.restore(self.manifest, attempt=self._attempt, at_once=False)
        while not self._interrupts.interrupted():
            done = self._trigger_if_due()
            if done + self._pass(0.0 if done else self._wait_s()):
                return True
        return False

    def settle(self) -> None:
        """Complete a checkpoint now and stop the sources: another plan continues from it."""
        self._complete_one(TriggerBarrier(0, 0, stop=True), flush=False)

    def _complete_one(self, how: TriggerBarrier, *, flush: bool) -> None:
        """Trigger a checkpoint once all tasks run, and complete it; retry if it fails and that is tolerated."""
        number: int | None = None
        while True:
            done: list[int] = []
            if number not in self._checkpoints.pending:
                number = None
            if number is None and self._stages.all_running:
                number = self._checkpoints.next_number
                done += self._begin(how, flush=flush)
            done += self._pass(_LONGEST_WAIT_S)
            if number in done or self.finished:  # the job may finish meanwhile
                return

    def _trigger_if_due(self) -> list[int]:
        """Trigger a checkpoint if one is due; return the completed ones."""
        if not self._stages.all_running:
            return []
        if self._stages.sources_finished:
            if self._last in self._checkpoints.pending:
                return []
            # All sources have finished, and only the final checkpoint is missing.
            self._last = self._checkpoints.next_number
            return self._begin(TriggerBarrier(0, 0, aligned=True), flush=False)
        if self._schedule.is_due(time.monotonic()):
            return self._begin(TriggerBarrier(0, 0), flush=False)
        return []

    def _begin(self, how: TriggerBarrier, *, flush: bool) -> list[int]:
        """Trigger a checkpoint; return the completed ones."""
        self._take_looks()
        self._how = how
        self._stopped = self._stopped or how.stop or how.drain
        number, now = self._checkpoints.next_number, time.monotonic()
        self._schedule.on_triggered(number, now)
        self._begun[number] = now
        return self._follow(self._checkpoints.trigger(flush=flush))

    def _trigger_sources(self, number: int) -> None:
        self._stages.send_to_sources(
            replace(self._how, checkpoint=number, triggered_ms=clock.now_ms())
        )

    def _pass(self, wait_s: float) -> list[int]:
        """Process events, or wait for them up to `wait_s`; return the completed checkpoints."""
        failed: list[StageAttempt] = []
        done: list[int] = []
        for event in self._stages.poll_events(wait_s):
            done += self._take(event, failed)
        if failed:
            raise self._failure(failed)
        self._take_looks()
        for number in self._schedule.expired(time.monotonic()):
            assert self._job.checkpoints.timeout_ms is not None
            expired = CheckpointExpiredError.of(self._job.checkpoints.timeout_ms)
            done += self._follow(self._checkpoints.abort(number, expired))
        if not self._ran and self._stages.all_running:
            self._ran = True
            self._schedule.start(time.monotonic(), at_once=self._at_once)
        return done

    def _wait_s(self) -> float:
        """Return the time until the next action, unless an event arrives."""
        if not self._stages.all_running or self._last in self._checkpoints.pending:
            return _LONGEST_WAIT_S
        left = self._schedule.seconds_left(time.monotonic())
        return _LONGEST_WAIT_S if left is None else min(left, _LONGEST_WAIT_S)

    def _take(self, event: StageEvent, failed: list[StageAttempt]) -> list[int]:
        for consequence in event.consequences:
            if isinstance(consequence, StageRunning):
                self._listener.on_running(consequence.tasks)
            elif isinstance(consequence, StageFailed):
                failed.append(event.attempt)
        match event.report:
            case AcknowledgeCheckpoint(number, ack):
                self._notes.on_ack(ack)
                return self._follow(self._checkpoints.on_ack(number, ack))
            case DeclineCheckpoint(number, task, reason, at_fault):
                why = f"{task}: {reason}"
                return self._follow(self._checkpoints.abort(number, why, failed=at_fault))
            case SlotReport() as report:
                self._listener.on_report(report)
            case SplitsFinished(task, splits):
                source = next(each for each in self.sources if each.vertex == task.vertex)
                self._assign(source.on_finished(task.subtask, splits))
            case AlignmentReport(slot, reached):
                member = (event.attempt.layout.stage, slot)
                for command in self._watermark_alignment.on_report(member, reached):
                    self._stages.send_to_sources(command)
            case SinkOutput(task, operator, data):
                self._sinks[operator].put_streamed(data)
                self._stages.send_to_task(task, OutputTaken(task, operator, len(data)))
        return []

    def _follow(self, outcomes: Sequence[Outcome]) -> list[int]:
        """Notify tasks of the outcomes of checkpoints; return the completed ones."""
        done = []
        for outcome in outcomes:
            number, now = outcome.checkpoint_id, time.monotonic()
            begun = self._begun.pop(number, now)
            self._schedule.on_over(number, now)
            if isinstance(outcome, NotifyCheckpointComplete):
                self._stages.send_to_all(ConfirmCheckpoint(number))
                assert self._checkpoints.manifest is not None
                self._notes.on_completed(self._checkpoints.manifest, self.sources)
                self._listener.on_completed(CheckpointSpan(begun, now))
                done.append(number)
            else:
                self._stages.send_to_all(CancelCheckpoint(number))
        return done

    # Splits

    def _take_looks(self) -> None:
        for look in self._discovery.take():
            self._take_look(look)

    def _take_look(self, look: DiscoveryOutcome) -> None:
        if look.found is None:
            detail = str(look.error)
            raise ExecutionFailedError("split discovery failed", detail=detail) from look.error
        self._assign(look.source.take(look.found))

    def _assign(self, assignments: Mapping[TaskId, SourceAssignment]) -> None:
        for task, new in assignments.items():
            self._stages.send_to_task(
                task, AssignSplits(task, tuple(new.splits), new.no_more_splits, new.idle)
            )

    # Failing and ending

    def _failure(self, failed: Sequence[StageAttempt]) -> ExecutionFailedError:
        """Cancel the failed stages and those that depend on them; return the error to raise."""
        self._follow(self._checkpoints.abort_all("tasks have failed"))
        vertices = {vertex for each in failed for vertex in each.layout.vertices}
        self._discovery.stop([each for each in self.sources if each.vertex in vertices])
        for attempt in failed:
            self._stages.let_go(attempt)
        self._note_failure(failed)
        base = self._checkpoints.manifest
        since = (
            "a task failed"
            if base is None
            else f"a task failed after checkpoint {base.checkpoint_id}"
        )
        cause = self._stages.cause_of(failed[0])
        error = ExecutionFailedError(since, detail=None if cause is None else str(cause))
        error.__cause__ = cause
        # Others may have failed while traces were awaited: they are restored at the same time.
        failed = [e for e in self._stages.attempts if e.watch.phase is StagePhase.FAILED]
        if len(failed) < len(self._stages.attempts):
            error.tasks = tuple(task for each in failed for task in each.layout.placement)
        return error

    def _note_failure(self, failed: Sequence[StageAttempt]) -> None:
        """Write the failure to the journal, with the traces of slots that end because another one failed."""
        if not self._job.settings.journal:
            return
        traces = self._stages.final_traces(failed, lambda: self._interrupts.cancelled)
        cause = failed[0].watch.cause
        if isinstance(cause, Exception):
            self._notes.on_failed(cause, traces)

    def replan(self, job: Job) -> None:
        """Switch to another plan of the same program, which must be restored next."""
        self._discovery.stop(self.sources)
        self._stages.end(self._stages.attempts)
        self._checkpoints.close()
        self._handed_over = self.manifest
        self._job = job
        self._sinks = job.sinks()
        self._checkpoints = self._create_checkpoints()
        self._notes = IntervalJournal(self._journal, job, self._state_io)

    def sweep(self) -> None:
        """Delete files of failed attempts; only when no task runs any more."""
        self._stages.end(self._stages.attempts)
        self._checkpoints.sweep()

    def close(self) -> None:
        """End all stages, and release the resources of the plan on the driver."""
        self._discovery.stop(self.sources)
        self._stages.close()
        self._checkpoints.close()


def _watermark_alignment_groups(
    job: Job, layouts: Sequence[StageLayout]
) -> WatermarkAlignmentGroups:
    """Return the watermark alignment groups; members are slots, by stage and number."""
    sources = []
    for vertex in job.plan.vertices:
        strategy = getattr(vertex.operators[0].spec, "watermark_strategy", None)
        if vertex.is_source and strategy is not None:
            slots = [
                (layout.stage, slot)
                for layout in layouts
                for task, slot in layout.placement.items()
                if task.vertex == vertex.id
            ]
            sources.append((strategy, slots))
    return WatermarkAlignmentGroups.of(sources)


def _policy(job: Job) -> SchedulePolicy:
    checkpoints = job.checkpoints
    interval, timeout = checkpoints.interval_ms, checkpoints.timeout_ms
    return SchedulePolicy(
        interval_s=None if interval is None else interval / 1000,
        min_pause_s=checkpoints.min_pause_ms / 1000,
        max_concurrent=checkpoints.max_concurrent,
        timeout_s=None if timeout is None else timeout / 1000,
    )
