"""Writes the state diagrams of docs/developers/state-machines.md from the code of the pure cores.

    python tools/gen_state_diagrams.py

The pictures are docs/images/states/*.svg; tables on the page are replaced between `<!-- generated: name -->` and
`<!-- end -->`. A test checks that both show what the cores do today.
"""

# ruff: noqa: SLF001 - what tells two states of a core apart is private

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state_drawing import draw
from state_machines import Explored, Machine, explore, from_table

from penstock.checkpoint.coordinator import CheckpointCoordinator, CoordinatorPhase
from penstock.checkpoint.messages import (
    AbortCheckpoint,
    Ack,
    CommitFailed,
    CommitFinished,
    ManifestFailed,
    ManifestWritten,
    OperatorPlan,
    PipeFinished,
    RestoreCheckpoint,
    TaskFailed,
    TriggerCheckpoint,
)
from penstock.common.job_status import JobStatus
from penstock.graph.placement import StageLayout
from penstock.graph.task_id import TaskId
from penstock.jobmanager.execution.execution_state import (
    ExecutionState,
    may_follow,
    status_may_follow,
)
from penstock.jobmanager.failover.restart_strategies import Restart
from penstock.jobmanager.high_availability.lease_core import LeaseCore, LeaseRecord
from penstock.jobmanager.job_master import job_messages as job
from penstock.jobmanager.job_master.job_core import JobCore, JobPhase
from penstock.jobmanager.requests import RescaleRequest, SavepointRequest
from penstock.jobmanager.resources.slot_pool import SlotPool, SlotRequest
from penstock.jobmanager.running.driver import ExecutionFailedError
from penstock.jobmanager.running.pipelined.stage_watch import StagePhase, StageWatch
from penstock.runtime.network.messages import BarrierMessage, TaskFailure
from penstock.runtime.task.pipelined import slot_messages as slots
from penstock.runtime.task.pipelined.barrier_handlers import AlignedBarrierHandler
from penstock.runtime.task.pipelined.unaligned_barrier_handler import UnalignedBarriers

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "developers" / "state-machines.md"
IMAGES = DOCS / "images" / "states"


# The life cycle of a job


class _RestartsAlways:
    def on_failure(self, now_ms: int) -> Restart:
        return Restart(0)


def _job_event(create: Callable[[], Any]) -> Callable[[JobCore], Any]:
    return lambda core: core.handle(create())


def _failed(**facts: bool) -> job.ExecutionFailed:
    cause = ValueError("user code")
    return job.ExecutionFailed(ExecutionFailedError("failed"), cause, 1.0, **facts)


JOB_EVENTS: dict[str, Callable[[], Any]] = {
    "Start": job.Start,
    "Acquired": job.Acquired,
    "JobRestored": job.JobRestored,
    "JobRestored: finished": lambda: job.JobRestored(finished=True),
    "RequestTaken: none": lambda: job.RequestTaken(None),
    "RequestTaken: savepoint": lambda: job.RequestTaken(SavepointRequest("target")),
    "RequestTaken: stop": lambda: job.RequestTaken(SavepointRequest("target", stops=True)),
    "RequestTaken: drain": lambda: job.RequestTaken(
        SavepointRequest("target", stops=True, drains=True)
    ),
    "RequestTaken: rescale": lambda: job.RequestTaken(RescaleRequest((4,))),
    "TargetChecked": job.TargetChecked,
    "TargetChecked: error": lambda: job.TargetChecked(OSError("no such directory")),
    "RescaleRefused": lambda: job.RescaleRefused(ValueError("too many")),
    "Interrupted": job.Interrupted,
    "CheckpointCompleted": lambda: job.CheckpointCompleted(1.0),
    "CheckpointCompleted: finished": lambda: job.CheckpointCompleted(1.0, finished=True),
    "SavepointWritten": job.SavepointWritten,
    "SavepointWritten: error": lambda: job.SavepointWritten(OSError("disk full")),
    "DelayElapsed": job.DelayElapsed,
    "ExecutionFailed": _failed,
    "ExecutionFailed: permanent": lambda: _failed(permanent=True),
    "Cancelled": job.Cancelled,
}


def _job_facts(core: JobCore) -> Any:
    savepoint = core._savepoint
    kind = None if savepoint is None else (savepoint.stops, savepoint.drains)
    return core.phase, core.cancelled, core._finished, core._has_run, kind, core._rescaling is None


def job_machine() -> Machine:
    """The core of a JobMaster."""
    return Machine(
        create=lambda: JobCore(_RestartsAlways()),
        events={label: _job_event(create) for label, create in JOB_EVENTS.items()},
        state=lambda core: core.phase.name,
        fingerprint=_job_facts,
        condition=lambda core: "cancelled" if core.cancelled else "",
    )


# Checkpoints

_TASK = TaskId("sum", 0)


def _trigger(core: CheckpointCoordinator) -> Any:
    if len(core.pending_checkpoint_ids) == 2:
        return []
    sink = OperatorPlan("sink", "files", "sum", 1, 128, committer=True)
    plan = TriggerCheckpoint(core.next_checkpoint_id, (sink,), frozenset({_TASK}), now_ms=0)
    return core.handle(plan)


def _to_oldest(event: Callable[[int], Any]) -> Callable[[CheckpointCoordinator], Any]:
    def handle(core: CheckpointCoordinator) -> Any:
        pending = core.pending_checkpoint_ids
        return core.handle(event(pending[0])) if pending else []

    return handle


def _to_written(event: Callable[[int], Any]) -> Callable[[CheckpointCoordinator], Any]:
    def handle(core: CheckpointCoordinator) -> Any:
        written = core._written
        return core.handle(event(written.checkpoint_id)) if written is not None else []

    return handle


def _to_committing(event: Callable[[int], Any]) -> Callable[[CheckpointCoordinator], Any]:
    def handle(core: CheckpointCoordinator) -> Any:
        base = core.base
        return core.handle(event(base.checkpoint_id)) if core._uncommitted and base else []

    return handle


def _restore(core: CheckpointCoordinator) -> Any:
    if core.phase is not CoordinatorPhase.FAILED:
        return []
    base = core.base
    return core.handle(RestoreCheckpoint(base, (base,) if base else ()))


def _ack(number: int, *, finished: bool = False) -> Ack:
    return Ack(number, _TASK, f"attempt {number}", finished=finished)


def _coordinator_facts(core: CheckpointCoordinator) -> Any:
    pending = [(bool(each.acks), _finishes(each.acks)) for each in core._pending.values()]
    written = core._written
    return (
        core.phase,
        tuple(pending),
        core.base is not None and core.base.final,
        core.base is None,
        written is not None and written.final,
    )


def _finishes(acks: dict[TaskId, list[Ack]]) -> bool:
    return any(ack.finished for found in acks.values() for ack in found)


def coordinator_machine(*, pipelined: bool) -> Machine:
    """The checkpoint coordinator, with one task and one sink that commits."""
    events: dict[str, Callable[[CheckpointCoordinator], Any]] = {
        "TriggerCheckpoint": _trigger,
        "Ack": _to_oldest(_ack),
        "Ack: finished": _to_oldest(lambda number: _ack(number, finished=True)),
        "ManifestWritten": _to_written(ManifestWritten),
        "ManifestFailed": _to_written(lambda number: ManifestFailed(number, "disk full")),
        "ManifestFailed: fatal": _to_written(
            lambda number: ManifestFailed(number, "fenced", fatal=True)
        ),
        "CommitFinished": _to_committing(lambda number: CommitFinished("sink", number)),
        "CommitFailed": _to_committing(lambda number: CommitFailed("sink", number, "no answer")),
        "TaskFailed": _to_oldest(lambda number: TaskFailed(number, "user code")),
        "RestoreCheckpoint": _restore,
    }
    if pipelined:
        events["AbortCheckpoint"] = _to_oldest(lambda number: AbortCheckpoint(number, "too slow"))
    else:
        events["PipeFinished"] = _to_oldest(lambda number: PipeFinished(number, 0))
    return Machine(
        create=lambda: CheckpointCoordinator("job", "a job", pipelined=pipelined),
        events=events,
        state=lambda core: core.phase.name,
        fingerprint=_coordinator_facts,
    )


# Barriers at a subtask with two channels


def _barrier(channel: int, number: int) -> Callable[[Any], Any]:
    message = BarrierMessage(number, "attempt", finished=False)
    return lambda core: core.on_barrier((0, channel), message, 0.0)


def _waiting(handler: Any) -> Any:
    return handler._pending if isinstance(handler, AlignedBarrierHandler) else handler._waiting


def _alignment(handler: Any) -> str:
    if handler.in_flight:
        return "COLLECTING IN-FLIGHT DATA"
    return "ALIGNING" if _waiting(handler) else "READING"


def _barrier_facts(handler: Any) -> Any:
    past = handler._past
    return repr(_waiting(handler)), repr(handler.in_flight), past._last, frozenset(past._aborted)


def barrier_machine(create: Callable[[], Any]) -> Machine:
    """A barrier handler that gets the barriers of two checkpoints from two channels."""
    events: dict[str, Callable[[Any], Any]] = {
        f"barrier: {number} on {'AB'[channel]}": _barrier(channel, number)
        for number in (1, 2)
        for channel in (0, 1)
    }
    events["aborted: 1"] = lambda core: core.on_aborted(1)
    events["alignment timeout"] = lambda core: core.on_time(1000.0)
    return Machine(create, events, _alignment, _barrier_facts)


# A stage of two slots

_TASKS = {TaskId("map", 0): 0, TaskId("map", 1): 1}


def _stage_events() -> dict[str, Callable[[StageWatch], Any]]:
    failure = TaskFailure(None, "user code", None, "", None)
    both = (0, 1)
    events: dict[str, Callable[[StageWatch], Any]] = {}
    for slot in both:
        listening = slots.SlotListening(slot, f"address {slot}", slot)
        running = slots.SlotRunning(slot, slot, "host")
        events[f"SlotListening: {slot}"] = lambda core, it=listening: core.on_listening(it)
        events[f"SlotRunning: {slot}"] = lambda core, it=running: core.on_running(it)
    events["SlotFailed"] = lambda core: core.on_slot_failed(slots.SlotFailed(0, failure))
    events["slot lost"] = lambda core: core.on_lost(0)
    events["stage ended"] = lambda core: core.on_ended(None)
    events["asked to end"] = lambda core: core.leave()
    return events


def stage_machine() -> Machine:
    """An attempt of a stage of a pipelined job."""
    return Machine(
        create=lambda: StageWatch(StageLayout(0, ("map",), 2, _TASKS), ()),
        events=_stage_events(),
        state=lambda core: core.phase.name,
        fingerprint=lambda core: (core.phase, core.listening, frozenset(core.places)),
    )


# Slots of a session


@dataclass(slots=True)
class _Pool:
    """A pool of four slots, in which another job holds up to three."""

    pool: SlotPool

    @property
    def state(self) -> str:
        """The state of job `a`."""
        use = self.pool.use()
        waits = "a" in self.pool._waiting
        if "a" in use.held:
            return "HOLDING, WAITING FOR MORE" if waits else "HOLDING SLOTS"
        if "a" in use.sharing:
            return "SHARING, WAITING FOR SLOTS" if waits else "SHARING THE REST"
        return "WAITING" if waits else "NO REQUEST"


def _pool() -> _Pool:
    pool = SlotPool()
    pool.total = 4
    return _Pool(pool)


def _ask(job_id: str, count: int) -> Callable[[_Pool], None]:
    return lambda core: core.pool.ask(SlotRequest(job_id, f"job {job_id}", count))


def _grant(job_id: str) -> Callable[[_Pool], None]:
    def grant(core: _Pool) -> None:
        if job_id in core.pool._waiting:
            core.pool.try_grant(job_id)

    return grant


def _pool_facts(core: _Pool) -> Any:
    waiting = tuple((each.job_id, each.slots) for each in core.pool._waiting.values())
    use = core.pool.use()
    return tuple(sorted(use.held.items())), use.sharing, waiting


def slot_pool_machine() -> Machine:
    """A job's requests to the slot pool of a session."""
    return Machine(
        create=_pool,
        events={
            "ask: 2 slots": _ask("a", 2),
            "ask: 4 slots": _ask("a", 4),
            "ask: a share": _ask("a", 0),
            "try_grant": _grant("a"),
            "withdraw": lambda core: core.pool.withdraw("a"),
            "release": lambda core: core.pool.release("a"),
            "another job asks": _ask("b", 3),
            "another job is granted": _grant("b"),
            "another job releases": lambda core: core.pool.release("b"),
        },
        state=lambda core: core.state,
        fingerprint=_pool_facts,
    )


# Leases


@dataclass(slots=True)
class _Candidate:
    """A candidate of an election, and what it did last."""

    core: LeaseCore
    did: str = "NOT SEEN"
    version: int = 0
    now: float = 0.0

    def sees(self, holder: str | None, *, changed: bool, later: float = 0.0) -> None:
        """Observe the lease, after some time."""
        self.version += changed
        self.now += later
        record = LeaseRecord(holder, 15.0, 0, str(self.version))
        self.did = self.core.observe(record, self.now).name

    def sees_nothing(self) -> None:
        """Observe that there is no lease."""
        self.did = self.core.observe(None, self.now).name


def lease_machine() -> Machine:
    """A candidate that watches a Kubernetes Lease."""

    def unchanged(core: _Candidate, later: float) -> None:
        if core.did in {"WAIT", "TAKE"}:
            core.sees("other", changed=False, later=later)

    return Machine(
        create=lambda: _Candidate(LeaseCore("me")),
        events={
            "no lease": lambda core: core.sees_nothing(),
            "own": lambda core: core.sees("me", changed=True),
            "other holder": lambda core: core.sees("other", changed=True, later=20),
            "other holder: unchanged": lambda core: unchanged(core, 1),
            "other holder: expired": lambda core: unchanged(core, 20),
            "no holder": lambda core: core.sees(None, changed=True),
        },
        state=lambda core: core.did,
        fingerprint=lambda core: core.did,
    )


# The page


def _states(names: Sequence[str], kind: Any, may: Callable[[Any, Any], bool]) -> Explored:
    states = [kind[name] for name in names]
    table = {state.name: [after.name for after in states if may(state, after)] for state in states}
    return from_table(names[0], table)


EXECUTION_STATES = tuple(state.name for state in ExecutionState)
# Without RECONCILING, which nothing leads to: only programs that read Flink's REST API know it.
JOB_STATUSES = (
    "CREATED", "RUNNING", "FAILING", "RESTARTING", "CANCELLING", "SUSPENDED", "FAILED", "CANCELED", "FINISHED",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagram:
    """A picture, and whether the page has a table of its transitions as well."""

    title: str
    explored: Explored
    order: tuple[str, ...] = ()


def diagrams() -> dict[str, Diagram]:
    """Return all diagrams by name."""
    phases = tuple(phase.name for phase in JobPhase)
    coordinator = tuple(phase.name for phase in CoordinatorPhase)
    aligned = barrier_machine(lambda: AlignedBarrierHandler([(0, 0), (0, 1)]))
    unaligned = barrier_machine(lambda: UnalignedBarriers([(0, 0), (0, 1)], timeout_ms=100))
    return {
        "job": Diagram("JobCore: the life cycle of a job", explore(job_machine()), phases),
        "checkpoints-epochs": Diagram(
            "CheckpointCoordinator in epoch mode",
            explore(coordinator_machine(pipelined=False)),
            coordinator,
        ),
        "checkpoints-pipelined": Diagram(
            "CheckpointCoordinator in pipelined mode",
            explore(coordinator_machine(pipelined=True)),
            coordinator,
        ),
        "barriers-aligned": Diagram("AlignedBarrierHandler, two channels", explore(aligned)),
        "barriers-unaligned": Diagram("UnalignedBarriers, two channels", explore(unaligned)),
        "stage": Diagram(
            "StageWatch: an attempt of a stage",
            explore(stage_machine()),
            tuple(phase.name for phase in StagePhase),
        ),
        "slot-pool": Diagram("SlotPool: the slots of one job", explore(slot_pool_machine())),
        "lease": Diagram("LeaseCore: what a candidate does", explore(lease_machine())),
        "execution": Diagram(
            "ExecutionState: an attempt of a subtask",
            _states(EXECUTION_STATES, ExecutionState, may_follow),
            EXECUTION_STATES,
        ),
        "job-status": Diagram(
            "JobStatus",
            _states(JOB_STATUSES, JobStatus, status_may_follow),
            JOB_STATUSES,
        ),
    }


def _table(explored: Explored) -> str:
    lines = ["| In | event | leads to | instructions |", "|---|---|---|---|"]
    for each in sorted(explored.transitions, key=lambda found: explored.states.index(found.before)):
        names = ", ".join(f"`{name}`" for name in each.instructions)
        event, _, variant = each.event.partition(": ")
        label = f"`{event}`" + (f" ({variant})" if variant else "")
        lines.append(f"| {each.before} | {label} | {each.after} | {names} |")
    return "\n".join(lines)


def render(page: str, found: dict[str, Diagram]) -> str:
    """Put the tables of transitions into the page."""
    return re.sub(
        r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n{_table(found[match[2]].explored)}\n\n{match[3]}",
        page,
        flags=re.DOTALL,
    )


def pictures(found: dict[str, Diagram]) -> dict[str, str]:
    """Return all pictures by file name."""
    return {f"{name}.svg": draw(it.explored, it.title, it.order) for name, it in found.items()}


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    found = diagrams()
    for name, text in pictures(found).items():
        (IMAGES / name).write_text(text)
    PAGE.write_text(render(PAGE.read_text(), found))


if __name__ == "__main__":
    main()
