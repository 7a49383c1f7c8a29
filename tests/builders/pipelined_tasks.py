"""Subtasks for tests, in the loop of their slot: a keyed sum that others feed, and a source that reads."""

from __future__ import annotations

import pickle

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph.operator_specs import KeyedProcessSpec, MapSpec, SourceSpec
from penstock.runtime.network.messages import BarrierMessage
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.operators.hooks import (
    Asynchronous,
    HoldsRecordsBack,
    LimitsInput,
    UsesProcessingTime,
)
from penstock.runtime.records import RowBatch
from tests.builders import pipes, stages

SEEN = []


def note(value):
    SEEN.append(value)
    return value


class Sums(KeyedProcessFunction):
    """Emits the sum so far."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        yield total


def summing(sources=2, *, function=Sums, **options):
    """A keyed sum, or another function, that is fed by subtasks of other slots, and sends to one elsewhere."""
    target = pipes.vertex(
        1,
        KeyedProcessSpec(function()),
        MapSpec(note),
        gates=[pipes.gate(0, "HASH", sources=sources)],
        edges=[pipes.edge(2, operator=1)],
        partitionings=[None],
        keyed=[0],
    )
    after = pipes.vertex(2, MapSpec(note), level=2, gates=[pipes.gate(1)])
    elsewhere = {(0, index): 1 + index for index in range(sources)} | {(2, 0): 1}
    return stages.stage(target, after, elsewhere=elsewhere, **options)


def batch(*values):
    return RowBatch(list(values), None, ["k"] * len(values))


def barrier(checkpoint, *, finished=False, **options):
    return BarrierMessage(checkpoint, "up", finished, **options)


def state_of(ack):
    """The sum that a snapshot holds."""
    (chain,) = ack.keyed.values()
    tables = [pickle.loads(part) for part in chain]
    return repr(tables)


def reading(*specs, bounded=False, splits=(), edges=True, **options):
    """A source that sends to a subtask elsewhere."""
    last = len(specs)
    source = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(bounded=bounded), WatermarkStrategy.for_monotonous_timestamps()),
        *specs,
        level=0,
        edges=[pipes.edge(1, "FORWARD", operator=last)] if edges else [],
        partitionings=[None] if edges else [],
    )
    target = pipes.vertex(1, MapSpec(note), gates=[pipes.gate(0)])
    return stages.stage(
        source,
        target,
        elsewhere={(1, 0): 1},
        assignments={(0, 0): pipes.reads(*splits)},
        **options,
    )


class Last(StreamOperator, Asynchronous, LimitsInput, HoldsRecordsBack, UsesProcessingTime):
    """Says when it is told to finish; waits for something first, as long as it is told to."""

    under_way = False
    has_room = True

    def on_wakeup(self):
        pass

    def next_step(self):
        return None

    def on_quiet(self):
        pass

    def advance_processing_time(self, now):
        pass

    def next_wakeup(self):
        return None

    def process(self, records, input_index=0):
        SEEN.extend(records.values)
        self.output.emit(records)

    def process_watermark(self, watermark):
        SEEN.append(("time", watermark))
        super().process_watermark(watermark)

    def finish(self, *, ends_for_good):
        SEEN.append("finish")
        self.output.emit(RowBatch(["last"]))


def ending(slot, vertex=1):
    """Put an operator into the place of the head of a chain."""
    chain = slot.task(vertex).subtask.chain
    head = chain.operators[0]
    last = Last(head.spec)
    last.open(head.context)
    chain.operators[0] = last
    chain._asynchronous.append(last)
    chain._limiting.append(last)
    chain._holding.append(last)
    chain._timed[:] = [(0, last), *(each for each in chain._timed if each[0])]
    return last
