"""One subtask of one vertex: a chain of operators between input gates and outgoing edges.

It is independent of its transport: records and control messages are passed to `receive`, a source is polled by `poll`, and
`begin_checkpoint` is called when the gates have all barriers that it needs. The interval between two checkpoints is an epoch
in epoch mode.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.errors import PenstockError
from penstock.graph.deployment import SubtaskRestore, VertexCode, VertexDeployment
from penstock.runtime.network.messages import BARRIER, DATA, BarrierMessage, TaskAck
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.operators.connectors.source_modes import MoreSplits, PollResult
from penstock.runtime.operators.hooks import HandlesWakeups, Reusable
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.state.operator_state import EMITTED
from penstock.runtime.state.redistribution import restore_local
from penstock.runtime.task.shared.chain_metrics import ChainMetrics
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.gates import InputGates
from penstock.runtime.task.shared.in_flight import Capture, RestoredInFlight
from penstock.runtime.task.shared.operator_chain import OperatorChain, user_code
from penstock.runtime.task.shared.operator_contexts import create_context, interval_of
from penstock.runtime.task.shared.result_edges import Receiver, ResultEdges
from penstock.runtime.task.shared.snapshots import KeyedSnapshots, PendingSnapshot, pack_local
from penstock.runtime.task.shared.subtask_mode import SubtaskMode
from penstock.runtime.time.decisions import WALL, RuntimeDecisions


class Subtask:
    """Runs a chain.

    Life cycle: `open` and `connect`; then, repeatedly, `begin_interval`, any mix of `receive` (or `poll`) and
    `advance_processing_time`, and `begin_checkpoint`; finally `close`. In pipelined mode `finish` is called as soon as all
    input has ended. What is not part of this cycle is done by its parts: `gates`, `chain`, `edges`, `restored`, `metrics`.
    """

    def __init__(self, deployment: VertexDeployment, index: int, mode: SubtaskMode) -> None:
        self.deployment = deployment
        self.index = index
        self.id = deployment.task(index)
        #: Whether all operators have finished: only barriers follow. It is part of every snapshot, and never False again.
        self.finished = False
        code: VertexCode = pickle.loads(deployment.code)
        self.keyed = KeyedSnapshots(deployment, index)
        self.chain = OperatorChain(deployment, code, self.keyed)
        self.source = self.chain.source
        self.edges = ResultEdges(deployment, code, index)
        self.gates = InputGates(
            deployment.name, deployment.gates, index, deployment.parallelism, mode.watermark_policy
        )
        self.metrics = ChainMetrics(deployment, self.chain, self.edges.buffered, self.keyed)
        #: The in-flight records of the checkpoint that it was restored from, until they have been sent and received.
        self.restored: RestoredInFlight
        #: The clock of all its operators; replaced by `open`.
        self.decisions: RuntimeDecisions = WALL
        self._mode = mode

    def open(
        self,
        task: TaskEnvironment,
        restore: SubtaskRestore,
        kept: Mapping[int, Any] | None = None,
    ) -> None:
        """Restore the state of the chain, open its functions.

        `kept` is what a retired subtask in this place returned.
        """
        deployment = self.deployment
        if task.decisions_of is not None:
            self.decisions = task.decisions_of(self.id)
        else:
            self.decisions = self._mode.create_decisions(task.settings)
        operator_ids = [info.operator_id for info in deployment.operators]
        local = restore_local(restore, operator_ids, self.index, deployment.parallelism)
        self.keyed.restore(task.settings, self.decisions.clock, task.state_io, restore)
        self.restored = RestoredInFlight(
            deployment, self.index, restore.in_flight, task.state_io.load_in_flight
        )
        self.gates.restore(local)
        self.finished = local.get("finished", False)
        self.chain.announces = restore.just_restored
        states, classes = local.get("operators", {}), local.get("classes", {})
        self.edges.create(self.chain, task.settings.buffer_bytes, self._mode.is_call)
        for position, operator_id in enumerate(operator_ids):
            context = create_context(
                task,
                deployment,
                self.index,
                position,
                operator=self.chain.operators[position],
                output=self.chain.outputs[position],
                keyed_state=self.keyed.get(position),
                state=states.get(operator_id),
                classes=classes.get(operator_id),
                timers_watermark=self.gates.timers_watermark,
                decisions=self.decisions,
                metrics=self.metrics.groups[position],
            )
            self.chain.open(position, context, (kept or {}).get(position))
        self.edges.open(self.chain)

    def connect(self, task: TaskEnvironment, neighbours: Mapping[int, Receiver]) -> None:
        """Use the writers of `task`, and neighbours in the same slot, from now on; channels are numbered from 0 again."""
        self._task = task
        self.gates.renumber()
        self.edges.connect(task.writer_of, neighbours)

    def begin_interval(self, task: TaskEnvironment) -> None:
        """Begin the interval that ends with the checkpoint of this number."""
        self._task = task
        self.gates.start_barrier_alignment()
        self.decisions.begin_interval()
        self.edges.begin_interval(self.decisions)
        self._mode.begin_interval(self.metrics)
        self.chain.begin_interval(interval_of(task))

    # Calls of the transport or the slot. A journal records these.

    def receive(self, gate: int, channel: int, kind: int, content: Any) -> None:
        """Process records or a control message from a channel."""
        if kind == DATA:
            self.metrics.records_in += len(content)
            self.chain.process(content, self.gates.input_of[gate])
        elif kind == BARRIER:
            self.gates.barrier_alignment.on_barrier((gate, channel), content)
        else:
            self.chain.apply_time(self.gates.on_time((gate, channel), kind, content))

    def poll(self) -> PollResult:
        """Let the source read one batch."""
        source, times = self.source, self.chain.times
        assert source is not None
        if not times.running:
            return source.poll()
        before = times.enter(0)
        polled = source.poll()
        times.enter(before)
        return polled

    def add_splits(self, more: MoreSplits) -> None:
        """Add splits to the source."""
        assert self.source is not None
        self.source.add_splits(more)

    def drain(self) -> None:
        """Stop the source: it reads no more, and its watermark goes to MAX."""
        assert self.source is not None
        self.source.drain()

    def advance_processing_time(self) -> None:
        """Fire processing-time timers that are due; may be called between any two records."""
        self.chain.advance_processing_time(self.decisions.clock())

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) processing time must be advanced even if no record arrives."""
        return self.chain.next_wakeup()

    def on_wakeup(self, operator: HandlesWakeups) -> None:
        """Let an operator handle external events."""
        self.chain.on_wakeup(operator)

    def on_quiet(self) -> None:
        """Let operators emit records that they hold back: there is no more input now."""
        self.chain.on_quiet()

    def on_completed(self, checkpoint: int) -> None:
        """Notify all operators that a checkpoint is durable."""
        self.chain.on_completed(checkpoint)

    def finish(self) -> bool:
        """Finish: all input has ended. Returns False if an operator waits for results; then it must be called again."""
        self.finished = self.finished or self.chain.finish()
        return self.finished

    # Checkpoints.

    def begin_checkpoint(
        self,
        number: int,
        triggered_ms: int = 0,
        *,
        aligned: bool = False,
        overtaken: Capture | None = None,
    ) -> PendingSnapshot:
        """Pass the barrier that all channels have delivered: advance time, flush, forward it, take the snapshot.

        With `overtaken` the barrier overtakes the records in the output channels, which are added to it; then the barriers of
        some input channels may be missing.
        """
        task, source = self._task, self.source
        self.gates.barrier_alignment.check(number, all_there=overtaken is None)
        self.chain.apply_time(self.gates.on_barriers())
        ends = self._mode.ends_at_barrier(
            self.gates,
            finished=self.finished,
            source_finished=None if source is None else source.finished,
        )
        if not ends:
            self.advance_processing_time()
        results = self.chain.pass_barrier(
            number, ends=ends and not self.finished, ends_for_good=not task.drains
        )
        self.finished = self.finished or ends
        # Everything that the operators emit belongs before the barrier, and nothing may be emitted between it and the
        # snapshot: the receivers' snapshots end with the barrier, this one here.
        message = BarrierMessage(number, task.attempt, ends, triggered_ms, aligned)
        self.edges.send_barrier(message, overtaken)
        write = self.keyed.begin(task.state_io, number, task.attempt)
        ack = TaskAck(
            task=self.id,
            attempt=task.attempt,
            upstream=self.gates.upstream_attempts(),
            keyed={},
            local=pack_local(self.gates.snapshot(), self.chain.contexts, finished=self.finished),
            committables=results.committables,
            sink_times=results.sink_times,
            progress=None if source is None else source.progress(number),
            watermark=self.watermark,
            next_wakeup=self.next_wakeup(),
            finished=self.finished,
            metrics=self.metrics.totals(),
        )
        name = self.keyed.in_flight_name(number, task.attempt)
        return PendingSnapshot(
            ack,
            write,
            barrier=message,
            write_in_flight=functools.partial(task.state_io.store_in_flight, name),
        )

    @property
    def watermark(self) -> int:
        """The combined input watermark; for a source, the last one emitted."""
        if len(self.gates):
            return self.gates.watermark
        emitted: int = self.chain.contexts[0].operator_state.get(EMITTED, MIN_WATERMARK)
        return emitted

    # Closing.

    def close(self) -> None:
        """Close all functions; the first error is raised after all were closed."""
        self._close([(op, op.close) for op in self.chain.opened()])

    def retire(self) -> dict[int, Any]:
        """Close, but return what the next subtask in this place can reuse, by position in the chain."""
        kept: dict[int, Any] = {}

        def retire(position: int, operator: StreamOperator) -> None:
            if not isinstance(operator, Reusable):
                operator.close()
            elif (found := operator.retire()) is not None:
                kept[position] = found

        retiring = [
            (op, functools.partial(retire, position, op))
            for position, op in enumerate(self.chain.opened())
        ]
        # Its work does not count: errors must not fail another attempt.
        with contextlib.suppress(Exception):
            self._close(retiring)
        return kept

    def _close(self, closers: Iterable[tuple[StreamOperator, Callable[[], None]]]) -> None:
        errors: list[PenstockError] = []
        for operator, close in (*closers, *self.edges.closers(self.chain)):
            try:
                with user_code(operator):
                    close()
            except PenstockError as error:
                errors.append(error)
        self.keyed.close()
        if errors:
            raise errors[0]
