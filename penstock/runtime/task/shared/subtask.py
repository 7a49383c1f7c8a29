"""One subtask of one vertex: a chain of operators between input gates and result writers.

It is independent of its transport: records and control messages are passed to `receive`, a source is polled by `poll`,
and `checkpoint`
is called when the gates have all barriers. In this module an epoch is the interval between two checkpoints, in both modes.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from penstock.connectors.base.source import SourceAssignment
from penstock.errors import PenstockError
from penstock.graph.deployment import SubtaskRestore, VertexCode, VertexDeployment
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import OutputChannel
from penstock.runtime.network.edges import BufferedEdge, LocalEdge
from penstock.runtime.network.messages import (
    BARRIER,
    DATA,
    BarrierMessage,
    LatencyMarker,
    TaskAck,
)
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.connectors.source import MoreSplits, PollResult, SourceOperator
from penstock.runtime.operators.registry import create_operator
from penstock.runtime.records import MIN_WATERMARK, Batch
from penstock.runtime.state.operator_state import EMITTED, IDLE, StateClasses
from penstock.runtime.state.redistribution import restore_local
from penstock.runtime.state.schema import StateSchema
from penstock.runtime.task.shared.chain import ChainOutput
from penstock.runtime.task.shared.chain_metrics import ChainMetrics
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.gates import (
    Channel,
    InputGates,
    PolicyOf,
    epoch_time,
)
from penstock.runtime.task.shared.in_flight import Capture, RestoredInFlight
from penstock.runtime.task.shared.operator_contexts import create_context, job_extras
from penstock.runtime.task.shared.snapshots import KeyedSnapshots, PendingSnapshot, pack_local
from penstock.runtime.time.decisions import (
    WALL,
    RecordedDecisions,
    RuntimeDecisions,
    WallClockDecisions,
    wall_clock,
)
from penstock.runtime.time.watermark_valve import ValveOutput


class Receiver(Protocol):
    """A subtask of the same slot, as seen by an edge."""

    def receive(self, gate: int, channel: int, kind: int, content: Any) -> None:
        """Process records or a control message from a channel."""


class Subtask:
    """Runs a chain.

    Life cycle: `open` and `connect`; then, repeatedly, `begin_interval`, any mix of `receive` (or `read_source`) and
    `advance_processing_time`, and `checkpoint`; finally `close`. In pipelined mode its source is polled, `finish` is
    called as soon as all
    input has ended, and `begin_checkpoint` leaves the writing to another thread.
    """

    def __init__(
        self, deployment: VertexDeployment, index: int, policy_of: PolicyOf = epoch_time
    ) -> None:
        self.deployment = deployment
        self.index = index
        self.id = deployment.task(index)
        self.finished = False
        code: VertexCode = pickle.loads(deployment.code)
        self.operators: list[StreamOperator] = [create_operator(spec) for spec in code.specs]
        self._stepping = [
            op for op in self.operators if type(op).next_step is not StreamOperator.next_step
        ]
        types = code.types or ({},) * len(self.operators)
        self._outputs = [ChainOutput(*each) for each in zip(self.operators, types, strict=True)]
        self._partitionings = code.partitionings
        self._edges: list[BufferedEdge | LocalEdge] = []
        self._buffered: list[BufferedEdge] = []  # those with a writer
        self._contexts: list[OperatorContext] = []
        self.gates = InputGates(
            deployment.name, deployment.gates, index, deployment.parallelism, policy_of
        )
        self._keyed = KeyedSnapshots(deployment, index)
        self.metrics = ChainMetrics(
            deployment, self._outputs, self._buffered, self._keyed, self.source
        )
        self._times = self.metrics.times
        self._announces = False
        self._in_flight: RestoredInFlight | None = None  # until it has been sent and processed
        self._ended = 0  # number of finished operators
        self.decisions: RuntimeDecisions = WALL

    # Opening.

    def open(
        self,
        task: TaskEnvironment,
        restore: SubtaskRestore,
        kept: Mapping[int, Any] | None = None,
    ) -> None:
        """Build the chain, restore its state, open its functions.

        `kept` is what a retired subtask in this place returned.
        """
        self.decisions = self._create_decisions(task)
        operator_ids = [info.operator_id for info in self.deployment.operators]
        local = restore_local(restore, operator_ids, self.index, self.deployment.parallelism)
        self._keyed.restore(task.settings, self.decisions.clock, task.state_io, restore)
        if restore.in_flight:
            self._in_flight = RestoredInFlight(
                self.deployment, self.index, restore.in_flight, task.state_io.load_in_flight
            )
        self.gates.restore(local)
        self._announces = restore.just_restored
        self.finished = local.get("finished", False)
        states, classes = local.get("operators", {}), local.get("classes", {})
        for position, info in enumerate(self.deployment.operators):
            for target, tag in info.chained:
                self._outputs[position].add_operator(self.operators[target], tag, target)
        self._create_edges(task)
        for position, operator in enumerate(self.operators):
            operator_id = self.deployment.operators[position].operator_id
            context = self._create_context(
                task, position, states.get(operator_id), classes.get(operator_id)
            )
            context.extras["kept"] = (kept or {}).get(position)
            self._contexts.append(context)
            with _user_code(operator):
                operator.open(context)
        for described, edge in zip(self.deployment.edges, self._edges, strict=True):
            with _user_code(self.operators[described.operator]):
                edge.open(self._contexts[described.operator].runtime_context)

    def _create_decisions(self, task: TaskEnvironment) -> RuntimeDecisions:
        if task.decisions_of is not None:
            return task.decisions_of(self.id)
        return (
            RecordedDecisions(wall_clock)
            if task.settings.journal
            else WallClockDecisions(wall_clock)
        )

    def _create_edges(self, task: TaskEnvironment) -> None:
        for edge in self.deployment.edges:
            output: BufferedEdge | LocalEdge
            if edge.local and task.pipelined is None:
                output = LocalEdge(edge, self.index)
            else:
                output = BufferedEdge(
                    edge,
                    self._partitionings[edge.index],
                    self.index,
                    self.deployment.parallelism,
                    task.settings.buffer_bytes,
                    operator_name=self.deployment.operators[edge.operator].name,
                )
                self._buffered.append(output)
            self._edges.append(output)
            self._outputs[edge.operator].add_edge(output, edge.side_tag)

    def _create_context(
        self,
        task: TaskEnvironment,
        position: int,
        state: dict[str, Any] | None,
        classes: StateClasses | None,
    ) -> OperatorContext:
        return create_context(
            task,
            self.deployment,
            self.index,
            position,
            operator=self.operators[position],
            output=self._outputs[position],
            keyed_state=self._keyed.get(position),
            state=state,
            classes=classes,
            timers_watermark=self.gates.timers_watermark,
            decisions=self.decisions,
            metrics=self.metrics.groups[position],
        )

    def connect(self, task: TaskEnvironment, neighbours: Mapping[int, Receiver]) -> None:
        """Use the writers of `task`, and neighbours in the same slot, from now on; channels are numbered from 0 again."""
        self._task = task
        self.gates.renumber()
        for edge, output in zip(self.deployment.edges, self._edges, strict=True):
            if isinstance(output, LocalEdge):
                output.bind(neighbours[edge.target_vertex].receive)
            else:
                output.bind(task.writer_of(edge, self.index))

    def begin_interval(self, task: TaskEnvironment) -> None:
        """Begin the interval that ends with the checkpoint of this number."""
        self._task = task
        self.gates.start_barrier_alignment()
        self.decisions.begin_interval()
        if self.decisions.traces:
            snapshots = self.decisions.routers([edge.snapshot() for edge in self._buffered])
            for exchange, snapshot in zip(self._buffered, snapshots, strict=True):
                exchange.restore(snapshot)
        if task.pipelined is None:
            self.metrics.reset()
        for operator, context in zip(self.operators, self._contexts, strict=True):
            if context.checkpoint_id != task.checkpoint_id:
                context.checkpoint_id = task.checkpoint_id
                context.extras = job_extras(task)
                operator.open_interval(context)

    def announce_time(self) -> None:
        """After a restart, emit the last watermarks of the chain's own generators again: valves downstream start from scratch."""
        if not self._announces:
            return
        self._announces = False
        for context, output in zip(self._contexts, self._outputs, strict=True):
            emitted = context.operator_state.get(EMITTED, MIN_WATERMARK)
            if emitted != MIN_WATERMARK:
                output.emit_watermark(emitted)
            if context.operator_state.get(IDLE, False):
                output.emit_status(True)

    def resend(self) -> None:
        """After a restore, send the in-flight records of the output channels before anything else."""
        if self._in_flight is not None:
            for resent in self._in_flight.outputs():
                batch, edge = decode(resent.payload), self._edges[resent.edge]
                if resent.target is None:
                    edge.emit(batch)
                else:
                    edge.send_to(resent.target, batch)

    def restored_inputs(self) -> Iterator[tuple[Channel, list[bytes], bool]]:
        """After a restore, return the in-flight records of the input channels, and whether the channels have changed."""
        found, self._in_flight = self._in_flight, None
        if found is not None:
            for channel, payloads in found.inputs():
                yield channel, payloads, found.has_changed(channel[0])

    def receive_restored(self) -> None:
        """Process the in-flight records of the input channels."""
        for channel, payloads, _ in self.restored_inputs():
            for payload in payloads:
                self.receive(*channel, DATA, decode(payload))

    # Receiving.

    def receive_buffer(
        self, gate: int, channel: int, sequence: int, kind: int, payload: bytes
    ) -> None:
        """Process an item sent by a writer."""
        if self._task.settings.check_order:
            self.gates.check_sequence(gate, channel, sequence)
        self.metrics.bytes_in += len(payload)
        content = decode(payload) if kind == DATA else pickle.loads(payload)
        self.receive(gate, channel, kind, content)

    def receive(self, gate: int, channel: int, kind: int, content: Any) -> None:
        """Process records or a control message from a channel."""
        if kind == DATA:
            self.metrics.records_in += len(content)
            if self._times.running:
                before = self._times.enter(0)
                self._process(content, self.gates.input_of[gate])
                self._times.enter(before)
            else:
                self._process(content, self.gates.input_of[gate])
        elif kind == BARRIER:
            self.gates.barrier_alignment.on_barrier((gate, channel), content)
        else:
            self._apply_time(self.gates.on_time((gate, channel), kind, content))

    def _process(self, records: Batch, input_index: int) -> None:
        on_disk = self._keyed.on_disk
        if on_disk and records.keys is not None:
            head = self._keyed.get(0)
            if head is not None:
                head.expect(records.keys)
        self.operators[0].process(records, input_index)
        for backend in on_disk:
            backend.trim_cache()

    def _apply_time(self, outputs: Iterable[ValveOutput]) -> None:
        head = self.operators[0]
        before = self._times.enter(0) if self._times.running else None
        for output in outputs:
            if output.idle is False:
                head.process_status(False)
            if output.watermark is not None:
                head.process_watermark(output.watermark)
            if output.idle:
                head.process_status(True)
        if before is not None:
            self._times.enter(before)

    def read_source(self, assignment: SourceAssignment, seconds: float | None) -> Iterator[None]:
        """Let the source at the head of the chain read its splits, for a limited time."""
        head = self.operators[0]
        assert isinstance(head, SourceOperator)
        steps, times = head.run(assignment, seconds), self._times
        while True:
            if times.running:
                times.enter(0)
            if next(steps, self) is self:
                return
            yield

    def advance_processing_time(self) -> None:
        """Fire processing-time timers that are due; may be called between any two records."""
        now, times = self.decisions.clock(), self._times
        if not times.running:
            for operator in self.operators[self._ended :]:
                operator.advance_processing_time(now)
            return
        before = times.enter(times.outside)
        for position in range(self._ended, len(self.operators)):
            times.enter(position)
            self.operators[position].advance_processing_time(now)
        times.enter(before)

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) processing time must be advanced even if no record arrives."""
        going = self.operators[self._ended :]
        wakeups = [wakeup for op in going if (wakeup := op.next_wakeup()) is not None]
        return min(wakeups, default=None)

    # Pipelined mode.

    @property
    def source(self) -> SourceOperator | None:
        """The source at the head of the chain, if any."""
        head = self.operators[0]
        return head if isinstance(head, SourceOperator) else None

    @property
    def has_room(self) -> bool:
        """Whether all operators can take input now."""
        return all(operator.has_room for operator in self.operators)

    def poll(self) -> PollResult:
        """Let the source read one batch."""
        source = self.source
        assert source is not None
        if not self._times.running:
            return source.poll()
        before = self._times.enter(0)
        polled = source.poll()
        self._times.enter(before)
        return polled

    def add_splits(self, more: MoreSplits) -> None:
        """Add splits to the source."""
        source = self.source
        assert source is not None
        source.add_splits(more)

    def drain(self) -> None:
        """Stop the source: it reads no more, and its watermark goes to MAX."""
        source = self.source
        assert source is not None
        source.drain()

    def next_step(self) -> float | None:
        """Return when (by time.monotonic()) an operator must be woken; None: never."""
        steps = [step for op in self._stepping if (step := op.next_step()) is not None]
        return min(steps, default=None)

    def due_to_step(self, moment: float) -> list[StreamOperator]:
        """Return the operators that must be woken by now."""
        return [
            op for op in self._stepping if (step := op.next_step()) is not None and step <= moment
        ]

    def on_wakeup(self, operator: StreamOperator) -> None:
        """Let an operator handle external events."""
        if not self._times.running:
            operator.on_wakeup()
            return
        before = self._times.enter(self.operators.index(operator))
        operator.on_wakeup()
        self._times.enter(before)

    def on_quiet(self) -> None:
        """Let operators emit records that they hold back: there is no more input now."""
        for operator in self.operators:
            operator.on_quiet()

    def on_taken(self, operator: str, size: int) -> None:
        """Record that the driver has received this much of a sink's output."""
        for context, each in zip(self._contexts, self.operators, strict=True):
            if context.operator_id == operator:
                each.on_taken(size)

    def on_completed(self, checkpoint: int) -> None:
        """Notify all operators that a checkpoint is durable."""
        for operator in self.operators:
            with _user_code(operator):
                operator.on_completed(checkpoint)

    def finish(self) -> bool:
        """Finish: all input has ended. Returns False if an operator waits for results; then it must be called again."""
        if self.finished:
            return True
        source = self.source
        if source is not None and not self._ended:
            source.barrier()  # its input has ended: it emits MAX
        while self._ended < len(self.operators):
            operator = self.operators[self._ended]
            if operator.under_way:
                return False
            if operator is not source:
                with _user_code(operator):
                    operator.finish()
            self._ended += 1
        self.finished = True
        return True

    def send_end(self) -> None:
        """Send the end of the channel on all edges: only barriers follow."""
        for edge in self._buffered:
            edge.end()

    def send_latency(self, marker: LatencyMarker) -> None:
        """Send a latency marker along all edges, each to one target."""
        for edge in self._buffered:
            edge.latency(marker)

    @property
    def waiting(self) -> bool:
        """Whether records wait for their buffers to fill up."""
        return any(edge.waiting for edge in self._buffered)

    def flush(self) -> None:
        """Send all buffered records."""
        for edge in self._buffered:
            edge.flush()

    def holds_barrier(self, message: BarrierMessage) -> bool:
        """Whether a forwarded barrier is still queued in an output channel."""
        return any(edge.holds(message) for edge in self._buffered)

    def expedite_barrier(self, message: BarrierMessage, overtaken: Capture) -> None:
        """Let a forwarded barrier overtake the records in the output channels."""
        for edge in self._buffered:
            for target, items in edge.expedite(message):
                overtaken.add_outputs(edge.index, target, items)

    def state_schemas(self) -> dict[str, dict[str, StateSchema]]:
        """Return the schemas of the chain's keyed states: by operator id, then by table. Thread-safe."""
        found = {}
        for position, operator in enumerate(self.deployment.operators):
            backend = self._keyed.get(position)
            if backend is not None:
                found[operator.operator_id] = dict(backend.schemas)
        return found

    @property
    def exchanges(self) -> Sequence[BufferedEdge]:
        """The edges that send buffers."""
        return self._buffered

    def output_channels(self) -> list[OutputChannel]:
        """Return all output channels of pipelined mode."""
        return [channel for edge in self._buffered for channel in edge.channels()]

    def measure(self, now_ms: int) -> dict[str, Any]:
        """Return the metrics, as described in `task_metrics`."""
        return self.metrics.measure(self._contexts, self.watermark, now_ms)

    # Checkpoints.

    def checkpoint(self, number: int) -> TaskAck:
        """Pass the barrier that all channels have delivered, and write the snapshot; return the ACK."""
        return self.begin_checkpoint(number).finish()

    def begin_checkpoint(
        self,
        number: int,
        triggered_ms: int = 0,
        *,
        aligned: bool = False,
        overtaken: Capture | None = None,
    ) -> PendingSnapshot:
        """Pass the barrier that all channels have delivered: advance time, flush, forward it, take the snapshot.

        With `overtaken` the barrier overtakes the records in the output channels, which are added to it; then the
        barriers of some input
        channels may be missing.
        """
        self.gates.barrier_alignment.check(number, all_there=overtaken is None)
        self._apply_time(self.gates.on_barriers())
        head = self.operators[0]
        source = head if isinstance(head, SourceOperator) else None
        ends = self._ends_here(source)
        if not ends:
            self.advance_processing_time()
        committables: dict[str, list[Any]] = {}
        sink_times: dict[str, tuple[int, bool]] = {}
        for context, operator in zip(self._contexts, self.operators, strict=True):
            with _user_code(operator):
                # A source emits MAX in its barrier, before the downstream operators finish.
                if ends and not self.finished and operator is not source:
                    context.ends_for_good = not self._task.drains
                    operator.finish()
                found = operator.barrier()
                context.runtime_context.snapshot_functions(number, context.clock())
            if found:
                committables[context.operator_id] = found
            if (time := operator.time_of_commit()) is not None:
                sink_times[context.operator_id] = time
        self.finished = self.finished or ends
        message = BarrierMessage(number, self._task.attempt, ends, triggered_ms, aligned)
        if overtaken is None:
            for edge in self._edges:
                edge.barrier(message)
        else:
            for exchange in self._buffered:
                for target, items in exchange.overtake(message):
                    overtaken.add_outputs(exchange.index, target, items)
        write = self._keyed.begin(self._task.state_io, number, self._task.attempt)
        ack = TaskAck(
            task=self.id,
            attempt=self._task.attempt,
            upstream=self.gates.upstream_attempts(),
            keyed={},
            local=pack_local(self.gates.snapshot(), self._contexts, finished=self.finished),
            committables=committables,
            sink_times=sink_times,
            progress=None if source is None else source.progress(number),
            watermark=self.watermark,
            next_wakeup=self.next_wakeup(),
            finished=self.finished,
            metrics=self.metrics.totals(),
        )
        name = self._keyed.in_flight_name(number, self._task.attempt)
        state_io = self._task.state_io
        return PendingSnapshot(
            ack,
            write,
            barrier=message,
            write_in_flight=lambda payload: state_io.store_in_flight(name, payload),
        )

    def _ends_here(self, source: SourceOperator | None) -> bool:
        """Whether this barrier ends the output of the subtask."""
        if self._task.pipelined is not None:
            return self.finished
        return self.gates.barrier_alignment.finished if source is None else source.finished

    @property
    def watermark(self) -> int:
        """The combined input watermark; for a source, the last one emitted."""
        if len(self.gates):
            return self.gates.watermark
        emitted: int = self._contexts[0].operator_state.get(EMITTED, MIN_WATERMARK)
        return emitted

    def close(self) -> None:
        """Close all functions; the first error is raised after all were closed."""
        self._end(lambda operator: operator.close())

    def retire(self) -> dict[int, Any]:
        """Close, but return what the next subtask in this place can reuse, by position in the chain."""
        kept: dict[int, Any] = {}

        def end(operator: StreamOperator) -> None:
            if (found := operator.retire()) is not None:
                kept[self.operators.index(operator)] = found

        with contextlib.suppress(
            Exception
        ):  # its work does not count: errors must not fail another attempt
            self._end(end)
        return kept

    def _end(self, end: Callable[[StreamOperator], None]) -> None:
        endings: list[tuple[StreamOperator, Callable[[], None]]] = [
            *(
                (operator, functools.partial(end, operator))
                for operator in self.operators[: len(self._contexts)]
            ),
            *(
                (self.operators[described.operator], edge.close)
                for described, edge in zip(self.deployment.edges, self._edges, strict=False)
            ),
        ]
        errors: list[PenstockError] = []
        for operator, ending in endings:
            try:
                with _user_code(operator):
                    ending()
            except PenstockError as error:
                errors.append(error)
        self._keyed.close()
        if errors:
            raise errors[0]


@contextlib.contextmanager
def _user_code(operator: StreamOperator) -> Iterator[None]:
    """Report exceptions of user code outside of records (open, close, commits) under its operator."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise operator.guard(error) from error
