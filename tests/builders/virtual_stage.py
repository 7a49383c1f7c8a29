"""A stage whose slots run concurrently in virtual time: functions declare their cost, and nothing depends on the machine.

Slots, subtasks, channels and credits are the real ones. The slot with the earliest time runs next. A message arrives when
the time of the receiving slot reaches the time at which it was sent.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceAssignment,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.graph.operator_specs import FlatMapSpec, SourceSpec
from penstock.graph.stage import NetworkSettings, StageDeployment
from penstock.graph.task_id import TaskId
from penstock.runtime.network.peers import Peer
from penstock.runtime.network.transport import Network
from penstock.runtime.task.pipelined.pipelined_slot import SlotLoop, StopSignal
from penstock.runtime.task.pipelined.pipelined_task import PipelinedTask
from penstock.runtime.task.pipelined.slot_messages import TriggerBarrier
from penstock.runtime.task.pipelined.uploads import Upload
from penstock.time import clock
from tests.builders import pipes, stages
from tests.builders.task_clocks import replace_monotonic

FAST_S = 1e-6  # cost of a record in a fast function, and in a source
_TURN_S = 20e-6  # cost of a turn of a slot besides its functions
_BEGIN_S = 1000.0
_MOST_TURNS = 2_000_000  # then a test fails instead of running forever


class VirtualClock:
    """The time of the slot that is running."""

    def __init__(self) -> None:
        self.now_s = _BEGIN_S

    def monotonic(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        """Advance the time of the slot."""
        self.now_s += seconds

    @property
    def passed_s(self) -> float:
        """Seconds since the start of the stage."""
        return self.now_s - _BEGIN_S


CLOCK = VirtualClock()  # functions and sources find it here, as they are pickled


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make slots and subtasks use CLOCK."""
    CLOCK.now_s = _BEGIN_S
    replace_monotonic(monkeypatch, CLOCK.monotonic)
    before = clock.set_reader(lambda: 1_000_000 + CLOCK.now_s)
    yield
    clock.set_reader(before)


class Numbers(Source):
    """The payload of a split is a function of the seconds since the start: the number of available records. A bounded source ends after the last one."""

    def __init__(self, boundedness: Boundedness) -> None:
        self._boundedness = boundedness

    def get_boundedness(self) -> Boundedness:
        return self._boundedness

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        raise NotImplementedError

    def create_reader(self) -> SourceReader:
        return _NumbersReader()


class _NumbersReader(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        while True:
            size = min(limits.batch_size, int(split.payload(CLOCK.passed_s)) - position)
            if size <= 0:
                return
            CLOCK.spend(size * FAST_S)
            records = list(range(position, position + size))
            position += size
            yield SourceBatch(records, position)


class Step:
    """A function with a cost per record.

    `cost_s` is in seconds, or a function of the seconds since the start. `copies` returns how many records it emits for one, given the
    number of earlier ones. With `size` it emits bytes of that length.
    """

    def __init__(
        self,
        cost_s: float | Callable[[float], float] = FAST_S,
        copies: Callable[[int], int] = lambda before: 1,
        size: int = 0,
    ) -> None:
        self._cost_s = cost_s
        self._copies = copies
        self._size = size
        self._taken = 0

    def __call__(self, value: Any) -> list[Any]:
        cost_s = self._cost_s
        CLOCK.spend(cost_s(CLOCK.passed_s) if callable(cost_s) else cost_s)
        self._taken += 1
        return [bytes(self._size) if self._size else value] * self._copies(self._taken - 1)


def chain(
    *steps: Step,
    parallelism: int = 1,
    same_slot: bool = False,
    chained: Sequence[Step] = (),
    there: Callable[[float], float] = lambda seconds: 1e12,
    ends: bool = False,
    **options: Any,
) -> StageDeployment:
    """A source followed by steps, with an exchange in front of each step. Subtasks have slots of their own, or share them.

    `chained` are steps in the chain of the source. `there` returns the number of available records after so many seconds; if the source `ends`, it ends
    after the last one.
    """
    last = len(steps)
    exchange = {"partitioning": "REBALANCE", "targets": parallelism}
    numbers = Numbers(Boundedness.BOUNDED if ends else Boundedness.CONTINUOUS_UNBOUNDED)
    head = [SourceSpec(numbers, WatermarkStrategy.no_watermarks()), *map(FlatMapSpec, chained)]
    vertices = [
        pipes.vertex(
            number,
            *(head if number == 0 else [FlatMapSpec(steps[number - 1])]),
            level=number,
            parallelism=parallelism,
            gates=[pipes.gate(number - 1, "REBALANCE", sources=parallelism)] if number else [],
            edges=[pipes.edge(number + 1, operator=0 if number else len(chained), **exchange)]
            if number < last
            else [],
            partitionings=[None] if number < last else [],
        )
        for number in range(last + 1)
    ]
    split = SplitProgress(SourceSplit("numbers", there, 0), 0)
    return stages.stage(
        *vertices,
        slots=parallelism * (1 if same_slot else last + 1),
        elsewhere={
            (number, index): index + (0 if same_slot else number * parallelism)
            for number in range(last + 1)
            for index in range(parallelism)
        },
        assignments={
            (0, index): SourceAssignment([split], no_more_splits=ends)
            for index in range(parallelism)
        },
        **options,
    )


class _Line:
    """The connection from one slot to another."""

    def __init__(self, inbox: deque[tuple[float, list[bytes]]]) -> None:
        self._inbox = inbox

    def send_multipart(self, message: list[bytes], flags: int) -> None:
        self._inbox.append((CLOCK.now_s, message))


class _VirtualNetwork(Network):
    """The network of a slot without sockets."""

    def __init__(self, slot: int, slots: int, settings: NetworkSettings) -> None:
        self.address = ""
        self.inbox: deque[tuple[float, list[bytes]]] = deque()  # with the moment of sending
        self._slot = slot
        self._settings = settings
        self._peers = {other: Peer(slot, other) for other in range(slots) if other != slot}
        self._numbers = dict.fromkeys(self._peers, 0)
        self._local = {}
        self._outputs = {}
        self._inputs = {}
        self._early = {}
        self._unopened = []
        self._commands = []

    def join(self, others: Sequence[_VirtualNetwork]) -> None:
        """Connect to the other slots."""
        for slot, peer in self._peers.items():
            peer.connected(_Line(others[slot].inbox))  # type: ignore[arg-type]

    def pump(self) -> bool:
        """Receive what has been sent up to now."""
        if self._unopened:
            self._announce_windows()
        arrived = [message for sent_s, message in self.inbox if sent_s <= CLOCK.now_s]
        left = [each for each in self.inbox if each[0] > CLOCK.now_s]
        self.inbox.clear()
        self.inbox.extend(left)
        for message in arrived:
            self._read(message)
        self.send()
        return bool(arrived)

    def send(self) -> None:
        """Send what has been collected."""
        for peer in self._peers.values():
            peer.flush()

    @property
    def next_arrival_s(self) -> float:
        """When the next message arrives."""
        return min((sent_s for sent_s, _ in self.inbox), default=float("inf"))

    def tell(self, command: Any) -> None:
        """Receive a command of the driver."""
        self._commands.append(command)

    def report(self, message: Any) -> None:
        """Ignore: there is no driver."""

    def wake(self) -> None:
        """Ignore: the stage runs all slots."""


class _VirtualLoop(SlotLoop):
    """A slot that writes no snapshots."""

    def __init__(
        self,
        deployment: StageDeployment,
        slot: int,
        network: _VirtualNetwork,
        begun: Callable[[Upload], None],
    ) -> None:
        self._begun = begun
        super().__init__(deployment, slot, network, StopSignal())

    def upload(self, upload: Upload) -> None:
        """Record that the barrier has passed a subtask."""
        self._begun(upload)


class VirtualStage(contextlib.AbstractContextManager["VirtualStage"]):
    """Runs a stage, and counts the records that subtasks process before barriers."""

    def __init__(self, deployment: StageDeployment) -> None:
        self._networks = [
            _VirtualNetwork(slot, deployment.slots, deployment.network)
            for slot in range(deployment.slots)
        ]
        for network in self._networks:
            network.join(self._networks)
        self._loops = [
            _VirtualLoop(deployment, slot, network, self._begun)
            for slot, network in enumerate(self._networks)
        ]
        self._now_s = [CLOCK.now_s] * deployment.slots  # of each slot
        self._wait_s = [0.0] * deployment.slots  # how long it is idle then
        self._checkpoint = 0
        # By checkpoint and task: how many records were processed before its barrier.
        self._before_barrier: dict[tuple[int, TaskId], int] = {}

    def __enter__(self) -> Self:
        for loop in self._loops:
            loop.open()
        return self

    def __exit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.abandon()

    def _begun(self, upload: Upload) -> None:
        before = upload.subtask.metrics.records_in
        self._before_barrier[upload.checkpoint, upload.task] = before

    def tasks(self, vertex: int) -> list[PipelinedTask]:
        """Return the subtasks of a vertex."""
        return [
            task for loop in self._loops for task in loop.tasks if task.id.vertex == f"v{vertex}"
        ]

    def run_to(self, moment: float) -> None:
        """Run until so many seconds have passed since the start."""
        self._run_until(lambda: min(self._now_s) >= _BEGIN_S + moment)

    def run_to_the_end(self) -> None:
        """Run until all subtasks have ended."""
        tasks = [task for loop in self._loops for task in loop.tasks]
        self._run_until(lambda: all(task.end.ended for task in tasks))

    def before_barrier(self, vertex: int) -> int:
        """Trigger a checkpoint; return the number of records before its barrier at a vertex, the largest of its subtasks."""
        self._checkpoint += 1
        number, tasks = self._checkpoint, self.tasks(vertex)
        before = {task.id: task.subtask.metrics.records_in for task in tasks}
        for network in self._networks:
            network.tell(TriggerBarrier(number, int(clock.now() * 1000)))
        self._wait_s = [0.0] * len(self._wait_s)
        self._run_until(lambda: all((number, task.id) in self._before_barrier for task in tasks))
        return max(self._before_barrier[number, task.id] - before[task.id] for task in tasks)

    def _run_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(_MOST_TURNS):
            if condition():
                return
            self._turn()
        raise AssertionError("the condition was not reached")

    def _turn(self) -> None:
        """Run one turn of the slot with the earliest time."""
        begin_s = [
            min(now_s + wait_s, max(now_s, network.next_arrival_s))
            for now_s, wait_s, network in zip(
                self._now_s, self._wait_s, self._networks, strict=True
            )
        ]
        slot = begin_s.index(min(begin_s))
        CLOCK.now_s = begin_s[slot]
        CLOCK.spend(_TURN_S)
        self._wait_s[slot] = self._loops[slot].turn()
        if self._wait_s[slot] > 0:
            self._networks[slot].send()
        self._now_s[slot] = CLOCK.now_s
