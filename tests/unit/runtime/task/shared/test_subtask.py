"""A subtask by itself: fed by hand, side by side with others, over several checkpoints, without rows and without slots."""

from __future__ import annotations

import pickle
from collections import deque

from penstock.common import Types, WatermarkStrategy
from penstock.connectors.base.source import SourceAssignment, SourceSplit, SplitProgress
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph.deployment import JobSettings, SubtaskRestore
from penstock.graph.operator_specs import KeyedProcessSpec, MapSpec, SourceSpec
from penstock.graph.partitioning import Hash
from penstock.runtime.network.buffers import BufferedRow, decode
from penstock.runtime.network.messages import BARRIER, DATA, WATERMARK
from penstock.runtime.operators.connectors.source_modes import PollResult
from penstock.runtime.task.epochs.epoch_slot import receive_row
from penstock.runtime.task.pipelined.pipelined_mode import PipelinedMode
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.time.decisions import WallClockDecisions
from penstock.testing import ManualClock
from tests.builders import pipes


class Channels:
    """Carries what subtasks send in queues, one per channel; any thread may take from any of them."""

    def __init__(self):
        self.queues = {}

    def writer_of(self, edge, subtask):
        return _Writer(self, edge, subtask)

    def pending(self, vertex, target):
        return [key for key, queue in self.queues.items() if key[:2] == (vertex, target) and queue]


class _Writer:
    def __init__(self, channels, edge, subtask):
        self.channels, self.edge, self.subtask, self.sequence = channels, edge, subtask, {}

    def send(self, target, kind, content):
        payload = content.encode() if kind == DATA else pickle.dumps(content)
        number = self.sequence.get(target, 0)
        self.sequence[target] = number + 1
        key = (self.edge.target_vertex, target, self.edge.target_gate, self.subtask)
        self.channels.queues.setdefault(key, deque()).append((number, kind, payload))
        return len(payload)

    def most_records(self, target):
        return 2**31 - 1

    def shares(self, target):
        return False


class Sums(KeyedProcessFunction):
    """Emits (key, sum so far, watermark)."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        yield ctx.get_current_key(), total, ctx.timer_service().current_watermark()


class NoWakeups:
    """The operators of these tests work with their input only."""

    def wake(self, operator):
        raise AssertionError

    watch = tell = wake


def environment(channels, checkpoint_id=1, clock=None):
    return TaskEnvironment(
        settings=JobSettings("job", "job", check_order=True, auto_watermark_interval=1),
        checkpoint_id=checkpoint_id,
        attempt="attempt",
        attempt_number=0,
        staging="/staging",
        state_io=pipes.MemoryStateIO(),
        writer_of=channels.writer_of,
        decisions_of=None if clock is None else lambda task: WallClockDecisions(clock),
        pipelined=NoWakeups(),
    )


SEEN = []


def note(value):
    SEEN.append(value)
    return value


def parity(value):
    return value % 2


def take(subtask, gate, channel, sequence, kind, payload):
    row = BufferedRow(subtask.index, 0, gate, channel, sequence, kind, payload)
    receive_row(subtask, row, check_order=True)


class Running:
    """Two sources and a keyed operator; none waits for the end of another."""

    def __init__(self):
        self.channels = Channels()
        source = pipes.vertex(
            0,
            SourceSpec(pipes.Numbers(bounded=False), WatermarkStrategy.for_monotonous_timestamps()),
            level=0,
            parallelism=2,
            edges=[pipes.edge(1, "HASH")],
            partitionings=[Hash(parity)],
        )
        target = pipes.vertex(
            1,
            KeyedProcessSpec(Sums()),
            MapSpec(note),
            gates=[pipes.gate(0, "HASH", sources=2)],
            keyed=[0],
        )
        self.sources = [Subtask(source, index, PipelinedMode()) for index in range(2)]
        self.target = Subtask(target, 0, PipelinedMode())
        self.payloads = [[], []]  # what can be read
        for subtask in (*self.sources, self.target):
            task = environment(self.channels)
            subtask.open(task, SubtaskRestore())
            subtask.connect(task, {})
            subtask.begin_interval(task)

    def read(self, index, *records):
        """Let a source find these records, and read them batch by batch."""
        head, payload = self.sources[index].source, self.payloads[index]
        if not payload:
            head.add_splits(SourceAssignment([SplitProgress(SourceSplit("s", payload, 0), 0)]))
        payload.extend(records)
        head.on_wakeup()
        while head.poll() is PollResult.MORE:
            pass
        head.time.check()

    def deliver(self):
        """Take from all channels of the target that are not blocked by a barrier."""
        taken = True
        while taken:
            taken = False
            for key in self.channels.pending(1, 0):
                if not self.target.gates.barrier_alignment.blocks(key[2:]):
                    take(self.target, *key[2:], *self.channels.queues[key].popleft())
                    taken = True

    def begin(self, subtask, checkpoint):
        subtask.begin_interval(environment(self.channels, checkpoint))


def test_checkpoints_pass_through_a_running_subtask_and_each_has_what_came_before_its_barrier():
    SEEN.clear()
    run = Running()
    run.read(0, (1, 10))
    run.read(1, (3, 20))
    run.deliver()
    # Time has moved although no barrier is in sight: both channels have spoken.
    assert run.target.gates.watermark == 9
    assert [(key, total) for key, total, _ in SEEN] == [(1, 1), (1, 4)]

    run.sources[0].begin_checkpoint(1).finish()
    run.begin(run.sources[0], 2)
    run.read(0, (5, 30))  # after the barrier
    run.deliver()
    assert not run.target.gates.barrier_alignment.complete
    assert [total for _, total, _ in SEEN] == [1, 4]  # the channel waits for the other one
    run.read(1, (7, 40))  # before the barrier
    run.sources[1].begin_checkpoint(1).finish()
    run.deliver()
    assert run.target.gates.barrier_alignment.complete
    ack = run.target.begin_checkpoint(1).finish()
    assert [total for _, total, _ in SEEN] == [1, 4, 11]
    assert ack.upstream == {("v0", 0): "attempt", ("v0", 1): "attempt"}
    (chain,) = ack.keyed.values()
    tables = [pickle.loads(part) for part in chain]
    assert "11" in repr(tables)
    assert "16" not in repr(tables)

    run.begin(run.target, 2)
    run.deliver()
    assert [total for _, total, _ in SEEN] == [1, 4, 11, 16]
    run.begin(run.sources[1], 2)
    for source in run.sources:
        source.begin_checkpoint(2).finish()
    run.deliver()
    assert run.target.begin_checkpoint(2).finish().watermark == 29


class Alarm(KeyedProcessFunction):
    """Sets a timer 50 ms after each record, by the wall clock."""

    def process_element(self, value, ctx):
        now = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now + 50)

    def on_timer(self, timestamp, ctx):
        yield timestamp


def test_timers_of_the_wall_clock_fire_without_a_barrier():
    channels, clock = Channels(), ManualClock(1000)
    vertex = pipes.vertex(
        1,
        KeyedProcessSpec(Alarm()),
        gates=[pipes.gate(0, "HASH")],
        keyed=[0],
        edges=[pipes.edge(2)],
        partitionings=[None],
    )
    subtask = Subtask(vertex, 0, PipelinedMode())
    task = environment(channels, clock=clock)
    subtask.open(task, SubtaskRestore())
    subtask.connect(task, {})
    subtask.begin_interval(task)
    take(subtask, 0, 0, 0, DATA, pipes.buffer(["x"], keys=["k"]))
    assert subtask.next_wakeup() == 1050
    clock.advance(49)
    subtask.advance_processing_time()
    assert subtask.next_wakeup() == 1050
    clock.advance(1)
    subtask.advance_processing_time()
    assert subtask.next_wakeup() is None
    take(subtask, 0, 0, 1, WATERMARK, pickle.dumps(7))  # sends what is pending
    sent = [(kind, payload) for _, kind, payload in channels.queues[2, 0, 0, 0]]
    assert [decode(payload).values for kind, payload in sent if kind == DATA] == [[1050]]
    assert BARRIER not in [kind for kind, _ in sent]
