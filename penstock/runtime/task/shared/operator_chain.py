"""The operators of a subtask, and what the subtask asks of all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError
from penstock.graph.deployment import VertexCode, VertexDeployment
from penstock.runtime.operators.base import (
    CheckpointInterval,
    OperatorContext,
    StreamOperator,
)
from penstock.runtime.operators.connectors.source import SourceOperator
from penstock.runtime.operators.hooks import (
    Asynchronous,
    CheckpointListener,
    CommitsByTime,
    FollowsCheckpoints,
    HandlesWakeups,
    HoldsRecordsBack,
    LimitsInput,
    Reusable,
    SendsToDriver,
    UsesProcessingTime,
)
from penstock.runtime.operators.registry import create_operator
from penstock.runtime.records import MIN_WATERMARK, Batch
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.task.shared.chain import ChainOutput
from penstock.runtime.task.shared.chain_times import ChainTimes
from penstock.runtime.task.shared.snapshots import KeyedSnapshots
from penstock.runtime.time.watermark_valve import ValveOutput


@dataclass(slots=True)
class BarrierResults:
    """What the operators of a chain return at a barrier, by operator id."""

    committables: dict[str, list[Any]] = field(default_factory=dict)
    sink_times: dict[str, tuple[int, bool]] = field(default_factory=dict)


class OperatorChain:
    """The operators of a subtask, from the head on. Each passes its records to the next ones by a call."""

    def __init__(
        self, deployment: VertexDeployment, code: VertexCode, keyed: KeyedSnapshots
    ) -> None:
        self.operators: list[StreamOperator] = [create_operator(spec) for spec in code.specs]
        types = code.types or ({},) * len(self.operators)
        #: The outputs, one per operator.
        self.outputs = [ChainOutput(*each) for each in zip(self.operators, types, strict=True)]
        #: The contexts of the operators that have been opened: fewer than operators if one of them failed.
        self.contexts: list[OperatorContext] = []
        self.times = ChainTimes(self.outputs)
        head = self.operators[0]
        #: The head of the chain, if it reads splits.
        self.source = head if isinstance(head, SourceOperator) else None
        positions = list(enumerate(self.operators))
        #: Operators that work by the clock, with their positions.
        self._timed = [(at, op) for at, op in positions if isinstance(op, UsesProcessingTime)]
        self._asynchronous = [op for op in self.operators if isinstance(op, Asynchronous)]
        self._limiting = [op for op in self.operators if isinstance(op, LimitsInput)]
        self._holding = [op for op in self.operators if isinstance(op, HoldsRecordsBack)]
        #: Whether `announce_time` has to repeat watermarks: after a restart, until it was called.
        self.announces = False
        self._keyed = keyed
        #: Number of finished operators. They finish from the head on, each when nothing of it is under way.
        self._ended = 0
        for position, info in enumerate(deployment.operators):
            for target, tag in info.chained:
                self.outputs[position].add_operator(self.operators[target], tag, target)

    def open(self, position: int, context: OperatorContext, kept: object) -> None:
        """Open the operator at a position, in order; `kept` is what a former operator in this place returned."""
        self.contexts.append(context)
        operator = self.operators[position]
        with user_code(operator):
            operator.open(context)
            if isinstance(operator, Reusable):
                operator.take_over(kept)

    def position_of(self, operator: HandlesWakeups) -> int:
        """Return the position of an operator."""
        operators: list[Any] = self.operators
        return operators.index(operator)

    def begin_interval(self, interval: CheckpointInterval) -> None:
        """Begin the interval that ends with the next checkpoint, unless the operators were opened for it."""
        if interval.checkpoint_id == self.contexts[0].interval.checkpoint_id:
            return
        for operator in self.operators:
            if isinstance(operator, FollowsCheckpoints):
                operator.begin_interval(interval)

    def announce_time(self) -> None:
        """After a restart, emit the last watermarks of the chain's own generators again: valves downstream start from scratch."""
        if not self.announces:
            return
        self.announces = False
        for context, output in zip(self.contexts, self.outputs, strict=True):
            emitted = context.operator_state.get(EMITTED, MIN_WATERMARK)
            if emitted != MIN_WATERMARK:
                output.emit_watermark(emitted)
            if context.operator_state.get(IDLE, False):
                output.emit_status(True)

    # Input.

    def process(self, records: Batch, input_index: int) -> None:
        """Process records of an input."""
        if not self.times.running:
            self._process(records, input_index)
            return
        before = self.times.enter(0)
        self._process(records, input_index)
        self.times.enter(before)

    def _process(self, records: Batch, input_index: int) -> None:
        on_disk = self._keyed.on_disk
        if on_disk and records.keys is not None:
            head = self._keyed.get(0)
            if head is not None:
                head.expect(records.keys)
        self.operators[0].process(records, input_index)
        for backend in on_disk:
            backend.trim_cache()

    def apply_time(self, outputs: Iterable[ValveOutput]) -> None:
        """Process watermarks and status changes of the input."""
        head = self.operators[0]
        before = self.times.enter(0) if self.times.running else None
        for output in outputs:
            if output.idle is False:
                head.process_status(False)
            if output.watermark is not None:
                head.process_watermark(output.watermark)
            if output.idle:
                head.process_status(True)
        if before is not None:
            self.times.enter(before)

    def advance_processing_time(self, now: int) -> None:
        """Fire processing-time timers that are due."""
        times = self.times
        ended = self._ended
        if not times.running:
            for position, operator in self._timed:
                if position >= ended:
                    operator.advance_processing_time(now)
            return
        before = times.enter(times.outside)
        for position, operator in self._timed:
            if position >= ended:
                times.enter(position)
                operator.advance_processing_time(now)
        times.enter(before)

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) processing time must be advanced even if no record arrives."""
        wakeups = [
            wakeup
            for position, op in self._timed
            if position >= self._ended and (wakeup := op.next_wakeup()) is not None
        ]
        return min(wakeups, default=None)

    # Work that does not come from the input.

    @property
    def has_room(self) -> bool:
        """Whether all operators can take input now."""
        return all(operator.has_room for operator in self._limiting)

    def next_step(self) -> float | None:
        """Return when (by time.monotonic()) an operator must be woken; None: never."""
        steps = [step for op in self._asynchronous if (step := op.next_step()) is not None]
        return min(steps, default=None)

    def due_to_step(self, moment: float) -> list[HandlesWakeups]:
        """Return the operators that must be woken by now."""
        return [
            op
            for op in self._asynchronous
            if (step := op.next_step()) is not None and step <= moment
        ]

    def on_wakeup(self, operator: HandlesWakeups) -> None:
        """Let an operator handle external events."""
        if not self.times.running:
            operator.on_wakeup()
            return
        before = self.times.enter(self.position_of(operator))
        operator.on_wakeup()
        self.times.enter(before)

    def on_quiet(self) -> None:
        """Let operators emit records that they hold back: there is no more input now."""
        for operator in self._holding:
            operator.on_quiet()

    def on_taken(self, operator: str, size: int) -> None:
        """Record that the driver has received this much of a sink's output."""
        for context, each in zip(self.contexts, self.operators, strict=True):
            if context.operator_id == operator and isinstance(each, SendsToDriver):
                each.on_taken(size)

    # Checkpoints.

    def pass_barrier(self, checkpoint: int, *, ends: bool, ends_for_good: bool) -> BarrierResults:
        """Let all records before the barrier of a checkpoint take effect; with `ends`, finish on the way."""
        results = BarrierResults()
        for context, operator in zip(self.contexts, self.operators, strict=True):
            with user_code(operator):
                # A source emits MAX in its barrier, before the downstream operators finish.
                if ends and operator is not self.source:
                    operator.finish(ends_for_good=ends_for_good)
                found = operator.barrier()
                context.runtime_context.snapshot_functions(checkpoint, context.clock())
            if found:
                results.committables[context.operator_id] = found
            if isinstance(operator, CommitsByTime) and (time := operator.time_of_commit()):
                results.sink_times[context.operator_id] = time
        return results

    def on_completed(self, checkpoint: int) -> None:
        """Notify all operators that a checkpoint is durable."""
        for operator in self.operators:
            if isinstance(operator, CheckpointListener):
                with user_code(operator):
                    operator.on_completed(checkpoint)

    # Ending.

    def finish(self) -> bool:
        """Finish one operator after the other: all input has ended. Return False if one of them waits for results."""
        if self.source is not None and not self._ended:
            self.source.barrier()  # its input has ended: it emits MAX
        while self._ended < len(self.operators):
            operator = self.operators[self._ended]
            if isinstance(operator, Asynchronous) and operator.under_way:
                return False
            if operator is not self.source:
                with user_code(operator):
                    # It may be a drained job: then the state that waits for more input is in the savepoint.
                    operator.finish(ends_for_good=False)
            self._ended += 1
        return True

    def opened(self) -> Sequence[StreamOperator]:
        """Return the operators that have been opened, and so have to be closed."""
        return self.operators[: len(self.contexts)]


@contextlib.contextmanager
def user_code(operator: StreamOperator) -> Iterator[None]:
    """Report exceptions of user code outside of records (open, close, commits) under its operator."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise operator.guard(error) from error
