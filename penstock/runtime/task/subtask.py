"""One subtask of one vertex: its chain, its input channels, its state."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.common.pickling import dumps
from penstock.connectors.source import SourceAssignment
from penstock.errors import PenstockError
from penstock.graph.deployment import JobSettings, SubtaskRestore, VertexCode, VertexDeployment
from penstock.graph.key_groups import key_group_range
from penstock.runtime.metrics import MetricGroup
from penstock.runtime.network.buffers import Row, decode
from penstock.runtime.network.edges import LocalEdge, RemoteEdge
from penstock.runtime.network.messages import (
    BARRIER,
    DATA,
    STATUS,
    WATERMARK,
    BarrierMessage,
    TaskAck,
)
from penstock.runtime.network.routing import connected_sources
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.registry import create_operator
from penstock.runtime.operators.source import SourceOperator
from penstock.runtime.records import MIN_WATERMARK, Batch
from penstock.runtime.state.backends import create_backend
from penstock.runtime.state.keyed import KeyedStateBackend
from penstock.runtime.state.operator_state import EMITTED, IDLE, OperatorStateBackend
from penstock.runtime.state.redistribution import restore_local
from penstock.runtime.state.state_backend import StatePlace
from penstock.runtime.state.table import TableDelta
from penstock.runtime.task.chain import ChainOutput
from penstock.runtime.task.context import RuntimeContext
from penstock.runtime.time.pace import WALL, Pace, RecordingPace, WallPace, wall_clock
from penstock.runtime.time.timers import TimerManager
from penstock.runtime.time.valve import ValveOutput, WatermarkValve


class ChannelError(PenstockError, RuntimeError):
    """A channel did not deliver what it must: records before the barrier, in order, then the barrier."""


@dataclass(frozen=True, slots=True)
class SnapshotName:
    """Who takes a snapshot, and when: unique to the attempt."""

    epoch: int
    operator: str
    subtask: int
    attempt: str
    key_groups: tuple[int, int]


class StateIO(Protocol):
    """How a subtask reads and writes its keyed state on checkpoint storage."""

    def load(self, chain: Any, owned: range | None = None) -> Iterator[dict[str, TableDelta]]:
        """Read the snapshots of a chain, oldest first; entries of key groups that are not `owned` may be left out."""

    def store(
        self,
        chain: Any,
        name: SnapshotName,
        delta: dict[str, TableDelta],
        full: Callable[[], dict[str, TableDelta]],
    ) -> Any:
        """Write `delta` (or, if that is due or `chain` is None, `full()`) and return the new chain."""

    def store_files(self, chain: Any, name: SnapshotName, directory: Path, settings: Any) -> Any:
        """Write the files of a database that storage does not have yet, and return the new chain."""

    def fetch_files(self, handle: Any, directory: Path, settings: Any) -> None:
        """Read the files of a database (`chain.database`) into a directory."""


@dataclass(slots=True)
class TaskEnvironment:
    """The Spark task that a subtask runs in, for one epoch."""

    settings: JobSettings
    epoch: int
    attempt: str
    attempt_number: int
    staging: str
    state_io: StateIO
    rows: list[Row]  # what the subtasks send; the task passes it on and empties it
    pace_of: Callable[[int, int], Pace] | None = None  # by vertex and subtask; None: the wall clock


_NO_CHAIN = object()  # the operator has had no state so far


class Subtask:
    """Runs a chain. Life cycle: `open`, then per epoch `begin_epoch`, `receive`..., `end_epoch`; `close` at last."""

    def __init__(self, deployment: VertexDeployment, index: int) -> None:
        self.deployment = deployment
        self.index = index
        self.finished = False
        code: VertexCode = pickle.loads(deployment.code)
        self.operators: list[StreamOperator] = [create_operator(spec) for spec in code.specs]
        types = code.types or ({},) * len(self.operators)
        self._outputs = [ChainOutput(*each) for each in zip(self.operators, types, strict=True)]
        self._metrics = [MetricGroup() for _ in self.operators]
        self._partitionings = code.partitionings
        self._edges: list[RemoteEdge | LocalEdge] = []
        self._contexts: list[OperatorContext] = []
        self._channels: dict[tuple[int, int], int] = {}
        self._sources: dict[tuple[int, int], tuple[int, int]] = {}
        for gate in deployment.gates:
            for channel in connected_sources(
                gate.partitioning, index, gate.source_parallelism, deployment.parallelism
            ):
                self._channels[gate.gate, channel] = len(self._channels)
                self._sources[gate.gate, channel] = (gate.source_vertex, channel)
        self._inputs = {gate.gate: gate.input_index for gate in deployment.gates}
        self._valve = WatermarkValve(len(self._channels))
        # Where time stood before a start from a checkpoint: the valve begins anew, but time does not go back.
        self._floor = MIN_WATERMARK
        self._announces = False
        self._keyed: dict[int, KeyedStateBackend] = {}
        self._disk_backends: list[KeyedStateBackend] = []
        self._chains: dict[int, Any] = {}  # None: the next snapshot must be a full one
        self._records_in = 0
        self.pace: Pace = WALL
        groups = key_group_range(index, deployment.parallelism, deployment.max_parallelism)
        self._key_groups = (groups.start, groups.stop)

    # Opening

    def open(self, task: TaskEnvironment, restore: SubtaskRestore) -> None:
        """Build the chain, restore its state, open its functions."""
        self.pace = self._create_pace(task)
        operator_ids = [info.operator_id for info in self.deployment.operators]
        local = restore_local(restore, operator_ids, self.index, self.deployment.parallelism)
        for position in self.deployment.keyed:
            self._restore_keyed(task, restore, position)
        if "valve" in local:
            self._valve.restore(local["valve"])
        self._floor = local.get("floor", MIN_WATERMARK)
        self._announces = restore.anew
        self.finished = local.get("finished", False)
        states = local.get("operators", {})
        for position, info in enumerate(self.deployment.operators):
            for target, tag in info.chained:
                self._outputs[position].add_operator(self.operators[target], tag)
        self._connect_edges(task.settings)
        for position, operator in enumerate(self.operators):
            operator_id = self.deployment.operators[position].operator_id
            context = self._create_context(task, position, states.get(operator_id))
            self._contexts.append(context)
            with _user_code(operator):
                operator.open(context)
        for described, edge in zip(self.deployment.edges, self._edges, strict=True):
            with _user_code(self.operators[described.operator]):
                edge.open(self._contexts[described.operator].runtime_context)

    def _create_pace(self, task: TaskEnvironment) -> Pace:
        if task.pace_of is not None:
            return task.pace_of(self.deployment.vertex, self.index)
        return RecordingPace(wall_clock) if task.settings.journal else WallPace(wall_clock)

    def _connect_edges(self, settings: JobSettings) -> None:
        for edge in self.deployment.edges:
            output: RemoteEdge | LocalEdge
            if edge.local:
                output = LocalEdge(edge, self.index)
            else:
                output = RemoteEdge(
                    edge,
                    self._partitionings[edge.index],
                    self.index,
                    self.deployment.parallelism,
                    settings.buffer_bytes,
                )
            self._edges.append(output)
            self._outputs[edge.operator].add_edge(output, edge.side_tag)

    def _restore_keyed(self, task: TaskEnvironment, restore: SubtaskRestore, position: int) -> None:
        info = self.deployment.operators[position]
        backend = self._keyed[position] = create_backend(
            task.settings.state_backend,
            self.pace.clock,
            StatePlace(
                task.settings.job_id,
                operator=info.name,
                place=f"{self.deployment.vertex}.{position}",
                subtask=self.index,
                max_parallelism=self.deployment.max_parallelism,
            ),
        )
        self._disk_backends = [each for each in self._keyed.values() if not each.in_memory]
        chains = restore.keyed.get(info.operator_id, ())
        if not chains and restore.owned is not None and info.operator_id in restore.keyed:
            self._chains[position] = (
                None  # its key groups are empty, and the checkpoint must say so
            )
        elif chains:
            self._chains[position] = backend.restore(
                task.state_io, chains, restore.owned, self.deployment.max_parallelism
            )

    def _create_context(
        self, task: TaskEnvironment, position: int, state: dict[str, Any] | None
    ) -> OperatorContext:
        deployment, info = self.deployment, self.deployment.operators[position]
        keyed = self._keyed.get(position)
        operator_state = OperatorStateBackend(state)
        timers = None
        if keyed is not None:
            timers = TimerManager(keyed)
            timers.watermark = operator_state.get("timer watermark", self._valve.watermark)
        runtime_context = RuntimeContext(
            task_name=info.name,
            subtask=self.index,
            parallelism=deployment.parallelism,
            max_parallelism=deployment.max_parallelism,
            attempt_number=task.attempt_number,
            keyed_state=keyed,
            operator_state=operator_state,
            job_parameters=task.settings.job_parameters,
            metrics=self._metrics[position],
        )
        return OperatorContext(
            job_name=task.settings.job_name,
            operator_id=info.operator_id,
            operator_name=info.name,
            task_name=deployment.name,
            subtask=self.index,
            parallelism=deployment.parallelism,
            max_parallelism=deployment.max_parallelism,
            attempt_number=task.attempt_number,
            epoch=task.epoch,
            output=self._outputs[position],
            runtime_context=runtime_context,
            keyed_state=keyed,
            operator_state=operator_state,
            timers=timers,
            clock=self.pace.clock,
            pace=self.pace,
            auto_watermark_interval=task.settings.auto_watermark_interval,
            batch_mode=task.settings.batch_mode,
            job_parameters=task.settings.job_parameters,
            extras=_extras(task),
        )

    def begin_epoch(self, task: TaskEnvironment, neighbours: dict[int, Subtask]) -> None:
        """Bind the subtask to the Spark task of this epoch."""
        self._task = task
        self._barriers: dict[tuple[int, int], BarrierMessage] = {}
        self._sequences: dict[tuple[int, int], int] = {}
        self._pending_watermarks: dict[int, int] = {}
        self._pending_active: dict[int, None] = {}
        self._pending_idle: dict[int, None] = {}
        self._records_in = 0
        self.pace.begin_epoch()
        if self.pace.traces:
            remote = [edge for edge in self._edges if isinstance(edge, RemoteEdge)]
            memories = self.pace.routers([edge.memory() for edge in remote])
            for exchange, memory in zip(remote, memories, strict=True):
                exchange.recall(memory)
        for group, output in zip(self._metrics, self._outputs, strict=True):
            group.reset()
            output.records_out = 0
        for edge, output_edge in zip(self.deployment.edges, self._edges, strict=True):
            if isinstance(output_edge, LocalEdge):
                output_edge.bind(neighbours[edge.target_vertex].receive)
            else:
                output_edge.bind(task.rows)
        for operator, context in zip(self.operators, self._contexts, strict=True):
            if context.epoch != task.epoch:
                context.epoch = task.epoch
                context.extras = _extras(task)
                operator.open_epoch(context)

    def announce_time(self) -> None:
        """After a restart, repeat what the chain's own sources of time said last: valves downstream begin anew."""
        if not self._announces:
            return
        self._announces = False
        for context, output in zip(self._contexts, self._outputs, strict=True):
            emitted = context.operator_state.get(EMITTED, MIN_WATERMARK)
            if emitted != MIN_WATERMARK:
                output.emit_watermark(emitted)
            if context.operator_state.get(IDLE, False):
                output.emit_status(True)

    # Receiving

    def receive_row(self, row: Row) -> None:
        """Take a row of the pipe."""
        _, _, gate, channel, sequence, kind, payload = row
        if self._task.settings.check_order:
            expected = self._sequences.get((gate, channel), 0)
            if sequence != expected:
                raise ChannelError(
                    f"row {sequence} arrived where row {expected} was due",
                    detail=f"vertex '{self.deployment.name}', gate {gate}, channel {channel}",
                )
            self._sequences[gate, channel] = expected + 1
        content = decode(payload) if kind == DATA else pickle.loads(payload)
        self.receive(gate, channel, kind, content)

    def receive(self, gate: int, channel: int, kind: int, content: Any) -> None:
        """Take records or a control message from a channel."""
        if kind == DATA:
            self._records_in += len(content.values)
            if self._disk_backends and content.keys is not None and 0 in self._keyed:
                self._keyed[0].expect(content.keys)
            self.operators[0].process(content, self._inputs[gate])
            for backend in self._disk_backends:
                backend.relieve()
        elif kind == BARRIER:
            self._barriers[gate, channel] = content
        else:
            self._receive_time(self._channels[gate, channel], kind, content)

    def _receive_time(self, channel: int, kind: int, content: Any) -> None:
        """Take a watermark or a status.

        A single channel moves time between its records. Several channels arrive one after another although they stand for
        the same span of time, so there time moves at the end of the epoch.
        """
        single = len(self._channels) == 1
        if kind == WATERMARK:
            if single:
                self._apply(self._valve.on_watermark(channel, content))
            else:
                self._pending_watermarks[channel] = content
        elif kind == STATUS:
            if single:
                self._apply(self._valve.on_status(channel, content))
            elif content:
                self._pending_idle[channel] = None
            else:
                # Active for some time of the epoch: its watermarks count, even if it ends idle.
                self._pending_active[channel] = None
                self._pending_idle.pop(channel, None)

    def _apply(self, output: ValveOutput) -> None:
        head = self.operators[0]
        if output.idle is False:
            head.process_status(False)
        if output.watermark is not None:
            head.process_watermark(max(output.watermark, self._floor))
        if output.idle:
            head.process_status(True)

    def _apply_pending(self) -> None:
        for channel in self._pending_active:
            self._apply(self._valve.on_status(channel, idle=False))
        for channel, watermark in self._pending_watermarks.items():
            self._apply(self._valve.on_watermark(channel, watermark))
        for channel in self._pending_idle:
            self._apply(self._valve.on_status(channel, idle=True))

    def read_source(self, assignment: SourceAssignment, seconds: float | None) -> Iterator[None]:
        """Run the source at the head of the chain, for so long."""
        head = self.operators[0]
        assert isinstance(head, SourceOperator)
        yield from head.run(assignment, seconds)

    def advance_processing_time(self) -> None:
        """Fire what the wall clock allows."""
        now = self.pace.clock()
        for operator in self.operators:
            operator.advance_processing_time(now)

    # Ending the epoch

    def end_epoch(self) -> TaskAck:
        """Reach the barrier: advance time, flush, snapshot; return the ACK."""
        self._check_barriers()
        self._apply_pending()
        head = self.operators[0]
        is_source = isinstance(head, SourceOperator)
        if isinstance(head, SourceOperator):
            ends = head.finished
        else:
            ends = all(message.finished for message in self._barriers.values())
        if not ends:
            self.advance_processing_time()
        committables: dict[str, list[Any]] = {}
        for position, operator in enumerate(self.operators):
            # A source emits MAX in its barrier, before the operators after it finish.
            with _user_code(operator):
                if ends and not self.finished and not (is_source and position == 0):
                    operator.finish()
                found = operator.barrier()
                context = self._contexts[position]
                context.runtime_context.snapshot_functions(self._task.epoch, context.clock())
            if found:
                committables[self.deployment.operators[position].operator_id] = found
        self.finished = self.finished or ends
        message = BarrierMessage(self._task.attempt, ends)
        for edge in self._edges:
            edge.barrier(message)
        return self._acknowledge(committables)

    def _check_barriers(self) -> None:
        missing = [channel for channel in self._channels if channel not in self._barriers]
        if missing:
            raise ChannelError(
                f"{len(missing)} of {len(self._channels)} input channels ended without a barrier",
                detail=f"vertex '{self.deployment.name}', subtask {self.index}, (gate, channel) {missing[:5]}",
            )

    def _acknowledge(self, committables: dict[str, list[Any]]) -> TaskAck:
        head = self.operators[0]
        wakeups = [wakeup for op in self.operators if (wakeup := op.next_wakeup()) is not None]
        return TaskAck(
            vertex=self.deployment.vertex,
            subtask=self.index,
            attempt=self._task.attempt,
            upstream={
                self._sources[channel]: message.attempt
                for channel, message in self._barriers.items()
            },
            keyed=self._snapshot_keyed(),
            local=self._snapshot_local(),
            committables=committables,
            progress=head.progress() if isinstance(head, SourceOperator) else None,
            watermark=max(self._valve.watermark, self._floor)
            if self._channels
            else self._source_watermark(),
            next_wakeup=min(wakeups, default=None),
            finished=self.finished,
            metrics=self._report_metrics(),
        )

    def _source_watermark(self) -> int:
        emitted: int = self._contexts[0].operator_state.get(EMITTED, MIN_WATERMARK)
        return emitted

    def _snapshot_keyed(self) -> dict[str, Any]:
        for position, backend in self._keyed.items():
            chain = self._chains.get(position, _NO_CHAIN)
            written = backend.write_snapshot(
                self._task.state_io,
                None if chain is _NO_CHAIN else chain,
                SnapshotName(
                    self._task.epoch,
                    f"{self.deployment.vertex}.{position}",
                    self.index,
                    self._task.attempt,
                    self._key_groups,
                ),
                force=chain is None,
            )
            if written is not None:
                self._chains[position] = written
        return {
            self.deployment.operators[position].operator_id: chain
            for position, chain in self._chains.items()
        }

    def _snapshot_local(self) -> bytes:
        for context in self._contexts:
            if context.timers is not None:
                context.operator_state.put("timer watermark", context.timers.watermark)
        states = {
            info.operator_id: context.operator_state.snapshot()
            for info, context in zip(self.deployment.operators, self._contexts, strict=True)
        }
        return dumps(
            {
                "valve": self._valve.snapshot(),
                "floor": self._floor,
                "finished": self.finished,
                "operators": {name: state for name, state in states.items() if state},
            },
        )

    def _report_metrics(self) -> dict[str, dict[str, Any]]:
        reports: dict[str, dict[str, Any]] = {}
        received = self._records_in
        head = self.operators[0]
        if isinstance(head, SourceOperator):
            received, head.records = head.records, 0
        for position, info in enumerate(self.deployment.operators):
            with _user_code(self.operators[position]):  # gauges
                report = self._metrics[position].report()
            report["numRecordsOut"] = ("counter", self._outputs[position].records_out)
            if position == 0:
                report["numRecordsIn"] = ("counter", received)
            reports[info.operator_id] = report
        return reports

    def close(self) -> None:
        """Close all functions; the first error is raised when all were closed."""
        opened = self.operators[: len(self._contexts)]
        closeables: list[tuple[StreamOperator, StreamOperator | RemoteEdge | LocalEdge]] = [
            *((operator, operator) for operator in opened),
            *(
                (self.operators[described.operator], edge)
                for described, edge in zip(self.deployment.edges, self._edges, strict=False)
            ),
        ]
        errors: list[PenstockError] = []
        for operator, closeable in closeables:
            try:
                with _user_code(operator):
                    closeable.close()
            except PenstockError as error:
                errors.append(error)
        for backend in self._keyed.values():
            backend.close()
        if errors:
            raise errors[0]


@contextlib.contextmanager
def _user_code(operator: StreamOperator) -> Iterator[None]:
    """Report what user code raises outside of records (open, close, commits, gauges) under its operator."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise operator.guard(error) from error


def _extras(task: TaskEnvironment) -> dict[str, Any]:
    return {"job_id": task.settings.job_id, "attempt": task.attempt, "staging": task.staging}


__all__ = ["Batch", "ChannelError", "StateIO", "Subtask", "TaskEnvironment", "wall_clock"]
