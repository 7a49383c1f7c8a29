"""`Replay`: the parts of a replay common to both execution modes: the program without sinks, its state and its results."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock.errors import PenstockError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.deployment import VertexDeployment
from penstock.graph.task_id import TaskId
from penstock.processes import temporary
from penstock.replay.recording import Recording
from penstock.replay.result import ReplayedCounts, ReplayFailure, ReplayResult, SinkRecord
from penstock.replay.sinks import CollectedOutput, switch_off_sinks
from penstock.replay.state_check import ReplayStateIO, StateComparison, compare, wrote_full
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.time.decisions import SlotTrace
from penstock.runtime.user_code import user_traceback


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """The subtask to replay up to: nothing downstream of it is run."""

    level: int
    slot: int
    vertex: int
    subtask: int


@dataclass(slots=True)
class ReplayedFailure:
    """A failure with its traceback and the slot in which it occurred."""

    error: BaseException
    level: int
    slot: int
    subtask: Subtask | None


class ReplayWatcher:
    """Observes the slots of a replay; the debugger's subclasses do more."""

    def before_slot(self, level: int, slot: int) -> None:
        """Called before a slot runs."""

    def after_slot(self, level: int, slot: int) -> None:
        """Called after a slot has run, whether it failed or not."""

    def opened(self, subtask: Subtask) -> None:
        """Called for a subtask before its first record."""


class Replay:
    """An interval that can be replayed any number of times; use it as a context manager."""

    def __init__(self, recording: Recording, *, verify: bool = False) -> None:
        self.recording = recording
        self.failed: ReplayedFailure | None = None
        self._verify = verify and recording.after is not None
        self._collection = CollectedOutput()
        self._stack = contextlib.ExitStack()
        self._stack.callback(self._collection.close)
        self._job_id = f"replay-{uuid.uuid4().hex}"
        self._acks: list[TaskAck] = []
        try:
            self._prepare()
        except BaseException:
            self._stack.close()
            raise

    def _prepare(self) -> None:
        recording, plan = self.recording, self.recording.plan
        self._local = self._stack.enter_context(temporary.directory("replay"))
        self._code = recording.load_code()
        self.vertices: tuple[VertexDeployment, ...] = tuple(
            switch_off_sinks(vertex, code, self._collection)
            for vertex, code in zip(plan.vertices, self._code, strict=True)
        )
        self._settings = dataclasses.replace(
            plan.settings,
            job_id=self._job_id,
            journal=False,
            state_backend=plan.settings.state_backend.in_directory(self._local),
        )
        self._restore = recording.load_restore()
        full = None
        if self._verify and recording.after is not None:
            full = wrote_full(self.vertices, recording.base, recording.after)
        self._state_io = ReplayStateIO(recording.state_io, self.vertices, full)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # Running: interval mode and pipelined mode differ.

    def run(self, target: ReplayTarget | None = None, watcher: ReplayWatcher | None = None) -> None:
        """Run the interval, or as much of it as the target needs; subtasks before the target print nothing."""
        raise NotImplementedError

    def run_slot_again(self, level: int, slot: int, watcher: ReplayWatcher) -> None:
        """Run one part again over its recorded input; its result replaces the earlier one."""
        raise NotImplementedError

    def _has_failed(self) -> bool:
        return self.failed is not None

    def _count_silent(self) -> int:
        """Return the number of tasks that should have left a trace and did not."""
        raise NotImplementedError

    def _forget_results(self, hosted: Mapping[TaskId, VertexDeployment]) -> None:
        """Discard the results of subtasks that are run again."""
        self._acks = [ack for ack in self._acks if ack.task not in hosted]
        for (_, subtask), vertex in hosted.items():
            for operator in vertex.operators:
                self._collection.records().pop((operator.operator_id, subtask), None)

    # Results

    def result(self) -> ReplayResult:
        """Return the result of the last run."""
        record, plan = self.recording.record, self.recording.plan
        failure = self.describe_failure()
        return ReplayResult(
            job_id=record.job_id,
            job_name=plan.job_name,
            checkpoint_id=record.checkpoint_id,
            attempt=record.attempt,
            sinks=self._sink_records(),
            counts=self._counts(),
            failure=failure,
            recorded_failure=_recorded_failure(record.failure),
            state=self._compare() if failure is None else None,
            approximations=tuple(self._approximations()),
        )

    def _compare(self) -> StateComparison | None:
        after, plan = self.recording.after, self.recording.plan
        if not self._verify or after is None:
            return None
        return compare(
            self._state_io,
            self.vertices,
            self._restore,
            self._acks,
            plan.sinks,
            after,
        )

    def _sink_records(self) -> dict[str, dict[int, tuple[SinkRecord, ...]]]:
        plan, collected = self.recording.plan, self._collection.records()
        found: dict[str, dict[int, tuple[SinkRecord, ...]]] = {}
        for vertex in self.vertices:
            for info in vertex.operators:
                if info.operator_id not in plan.sinks:
                    continue
                name = info.name.removeprefix("Sink: ")
                if name in found:
                    name = f"{name} ({info.operator_id[:8]})"
                found[name] = {
                    subtask: tuple(records)
                    for (operator, subtask), records in sorted(
                        collected.items(), key=lambda each: each[0]
                    )
                    if operator == info.operator_id
                }
        return found

    def _counts(self) -> dict[str, ReplayedCounts]:
        taken: dict[str, int] = {}
        sent: dict[str, int] = {}
        for report in self._reports():
            for operator, metrics in report.items():
                sent[operator] = sent.get(operator, 0) + metrics["numRecordsOut"][1]
                if "numRecordsIn" in metrics:
                    taken[operator] = taken.get(operator, 0) + metrics["numRecordsIn"][1]
        counts: dict[str, ReplayedCounts] = {}
        for vertex in self.vertices:
            for info in vertex.operators:
                if info.operator_id in sent:
                    name = (
                        info.name if info.name not in counts else f"{info.name} ({vertex.vertex})"
                    )
                    counts[name] = ReplayedCounts(
                        taken.get(info.operator_id), sent[info.operator_id]
                    )
        return counts

    def _reports(self) -> Iterable[dict[str, dict[str, Any]]]:
        """Return the counters of the subtasks that ran, by operator."""
        return (ack.metrics for ack in self._acks)

    def describe_failure(self) -> ReplayFailure | None:
        """Return the failure of the last run."""
        failed = self.failed
        if failed is None:
            return None
        error = failed.error
        cause = error.__cause__ if isinstance(error, UserCodeError) and error.__cause__ else error
        operator = getattr(error, "operator_id", None)
        names = {
            info.operator_id: info.name for vertex in self.vertices for info in vertex.operators
        }
        message = error.detail if isinstance(error, PenstockError) else None
        return ReplayFailure(
            error=cause,
            message=message or "",
            traceback=user_traceback(cause),
            vertex=failed.subtask.deployment.name if failed.subtask is not None else None,
            operator=names.get(operator) if operator is not None else None,
            subtask=failed.subtask.index if failed.subtask is not None else None,
            record_known=isinstance(error, UserCodeError) and error.record_known,
            record=getattr(error, "record", None),
        )

    def _approximations(self) -> Iterator[str]:
        record = self.recording.record
        silent = self._count_silent()
        if silent:
            yield (
                f"{silent} task{'s' if silent > 1 else ''} ended without recording watermark times, clock readings and "
                "source positions: a process was killed, the interval failed outside of the program, or it is "
                "still running"
            )
        cut = any(map(is_cut, record.traces))
        if cut:
            yield "clock readings or the order of records were not recorded to the end of the interval"
        waiting = [
            info.name
            for vertex, code in zip(self.vertices, self._code, strict=True)
            for info, spec in zip(vertex.operators, code.specs, strict=True)
            if spec.waits_for_others
        ]
        if waiting and (silent or cut):
            yield f"calls of {_quoted(waiting)} may complete in another order, or in another interval"
        yield from self._more_approximations()
        failure = record.failure
        if not isinstance(failure, str) and failure is not None:
            names = {i.operator_id: i.name for vertex in self.vertices for i in vertex.operators}
            if failure.operator in self.recording.plan.sinks:
                sink = names[failure.operator or ""]
                yield f"the interval failed in '{sink}', but sinks are disabled in a replay"

    def _more_approximations(self) -> Iterator[str]:
        """Return further reasons why the replay may differ from the original run."""
        return iter(())


def is_cut(trace: SlotTrace) -> bool:
    """Whether the trace of a slot is incomplete."""
    return trace.arrivals.cut or any(
        each.clock.steps.cut
        or each.opening.steps.cut
        or each.batches.cut
        or any(log.cut for log in each.decisions.values())
        or (each.calls is not None and each.calls.cut)
        for each in trace.subtasks
    )


def _recorded_failure(failure: Any) -> str | None:
    if failure is None or isinstance(failure, str):
        return failure
    return "\n".join(filter(None, [failure.traceback.rstrip(), failure.detail]))


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress output and breakpoints."""
    with contextlib.redirect_stdout(io.StringIO()), breakpoints(pass_over):
        yield


def pass_over(*_: Any, **__: Any) -> None:
    """Ignore a `breakpoint()`."""


@contextlib.contextmanager
def breakpoints(hook: Callable[..., Any]) -> Iterator[None]:
    """Redirect `breakpoint()` to a function."""
    before, sys.breakpointhook = sys.breakpointhook, hook
    try:
        yield
    finally:
        sys.breakpointhook = before
