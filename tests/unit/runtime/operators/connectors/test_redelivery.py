"""Records that a reader delivers again are dropped: each is processed once, in order, and the copies do nothing."""

from __future__ import annotations

import random
import re
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.common import Duration, WatermarkStrategy
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceAssignment,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitProgress,
)
from penstock.connectors.hybrid.source import HybridSource
from penstock.errors import InvalidProgramError, RecordError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import SourceSpec
from penstock.runtime.operators.connectors.redelivery import (
    REDELIVERED,
    DeduplicatingReader,
    new_part,
)
from penstock.runtime.time.decisions import WallClockDecisions
from penstock.testing import ManualClock, OperatorHarness
from tests.builders.brokers import WILD, Broker
from tests.builders.examples import examples

PAGE = Path(__file__).parents[5] / "docs" / "how-to" / "sources-and-sinks.md"
SPLIT = SourceSplit("s")
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
PAST = 0.0  # a deadline that has come
MANY_EPOCHS = 500
MAX = 2**63 - 1


def batch(first, last, *, tells="positions", end=None):
    """The records after position `first` up to position `last`, called by their positions."""
    numbers = list(range(first + 1, last + 1))
    made = SourceBatch(numbers, last if end is None else end, [number * 10 for number in numbers])
    if tells == "positions":
        made.positions = list(numbers)
    elif tells == "start":
        made.start = first
    return made


@pytest.mark.parametrize("tells", ["positions", "start"])
@pytest.mark.parametrize(
    ("first", "last", "position", "new", "end"),
    [
        pytest.param(5, 8, 5, [6, 7, 8], 8, id="new"),
        pytest.param(7, 9, 5, [8, 9], 9, id="after a gap"),
        pytest.param(0, 2, 5, [], 5, id="long read"),
        pytest.param(2, 5, 5, [], 5, id="just read"),
        pytest.param(0, 3, None, [1, 2, 3], 3, id="nothing was read"),
        pytest.param(5, 5, 5, [], 5, id="empty, stays"),
        pytest.param(3, 3, 5, [], 5, id="empty, goes back"),
        pytest.param(7, 7, 5, [], 7, id="empty, goes on"),
    ],
)
def test_a_batch_is_new_or_was_read_before(tells, first, last, position, new, end):
    found = new_part(batch(first, last, tells=tells), SPLIT, position)
    times = [number * 10 for number in new]
    assert found == SourceBatch(new, end, times)


def test_with_positions_a_batch_may_be_part_old_and_part_new():
    found = new_part(batch(3, 8), SPLIT, 6)
    assert found == SourceBatch([7, 8], 8, [70, 80])


def test_positions_need_not_be_next_to_each_other():
    given_again = SourceBatch(list("abc"), 90, positions=[10, 40, 90])
    assert new_part(given_again, SPLIT, 39).records == ["b", "c"]
    assert new_part(given_again, SPLIT, 40).records == ["c"]


def test_batch_without_positions_before_the_split_position_is_dropped():
    assert new_part(batch(2, 5, tells="nothing"), SPLIT, 5) == SourceBatch([], 5, [])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        pytest.param(
            batch(3, 8, tells="start"),
            RecordError,
            "it ranges from 3 to 8, but the split was read up to 6",
            id="part old, part new, which is which is unknown",
        ),
        pytest.param(
            batch(6, 8, tells="nothing"), InvalidProgramError, "has no positions", id="nothing"
        ),
        pytest.param(
            SourceBatch(["a"], 8, start=8), InvalidProgramError, "starts at 8", id="no advance"
        ),
        pytest.param(
            SourceBatch(["a", "b"], 8, positions=[8]),
            InvalidProgramError,
            "2 records and 1 positions",
            id="one is missing",
        ),
        pytest.param(
            SourceBatch(["a", "b", "c"], 8, positions=[7, 8, 8]),
            InvalidProgramError,
            "8 follows 8",
            id="two share a position",
        ),
        pytest.param(
            SourceBatch(["a", "b", "c"], 8, positions=[7, 6, 8]),
            InvalidProgramError,
            "6 follows 7",
            id="goes back within the batch",
        ),
        pytest.param(
            SourceBatch(["a", "b"], 8, positions=[6, 7]),
            InvalidProgramError,
            "ends at 8, but its last record at 7",
            id="positions of records instead of those after them",
        ),
        pytest.param(
            SourceBatch(["a", "b"], 8, positions=[8, 9]),
            InvalidProgramError,
            "ends at 8, but its last record at 9",
            id="ends too early",
        ),
        pytest.param(
            SourceBatch(["a"], (8, 0), positions=[(8, 0)]),
            InvalidProgramError,
            "cannot be compared",
            id="of another type than the position",
        ),
        pytest.param(SourceBatch([], None), InvalidProgramError, "cannot be compared", id="None"),
    ],
)
def test_ambiguous_positions_are_rejected(wrong, error, message):
    with pytest.raises(error, match="split 's'") as caught:
        new_part(wrong, SPLIT, 6)
    assert message in str(caught.value)
    assert caught.value.hint


class Scripted(SourceReader):
    """Yields given batches, whatever it is asked for."""

    def __init__(self, *batches, ordered=True):
        self.batches = batches
        self.is_ordered = ordered
        self.asked = []
        self.taken = 0

    def ordered(self, split):
        return self.is_ordered

    def read(self, split, position, limits):
        self.asked.append(position)
        for each in self.batches:
            self.taken += 1
            yield each


class ScriptedSource(Source):
    def __init__(self, reader):
        self.reader = reader

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        raise NotImplementedError

    def create_reader(self):
        return self.reader


def test_a_batch_without_anything_new_is_passed_over_until_there_was_something_new():
    reader = Scripted(batch(0, 2), batch(1, 4), batch(4, 6), batch(0, 3), batch(6, 7))
    dropped = []
    found = [
        each.records
        for each in DeduplicatingReader(reader, dropped.append).read(SPLIT, 4, ReadLimits())
    ]
    assert found == [[5, 6], [], [7]]
    assert dropped == [2, 3, 3]


class Run:
    """A source subtask with one split that stands at position 4, over several epochs."""

    def __init__(self, *batches, strategy=MONOTONOUS, ordered=True, decisions=None):
        self.reader = Scripted(*batches, ordered=ordered)
        self.harness = OperatorHarness(
            SourceSpec(ScriptedSource(self.reader), strategy),
            clock=ManualClock(1000),
            auto_watermark_interval=1e-6,  # a watermark after each batch
            decisions=decisions,
        )
        self.progress = [SplitProgress(SPLIT, 4)]

    def checkpoint_id(self, *batches, deadline=None):
        if batches:
            self.reader.batches = batches
        self.harness.clear()
        assignment = SourceAssignment(self.progress)
        for _ in self.harness.operator.run(assignment, deadline):
            pass
        self.harness.snapshot()
        self.progress = self.harness.operator.progress()
        return self.harness.values(), self.harness.watermarks()

    @property
    def position(self):
        return self.progress[0].position

    @property
    def redelivered(self):
        return self.harness.metrics.report().get(REDELIVERED, ("counter", 0))[1]


def test_redelivered_records_within_an_epoch_are_processed_once():
    run = Run(batch(4, 6), batch(3, 8), batch(0, 8), batch(7, 9))
    assert run.checkpoint_id()[0] == [5, 6, 7, 8, 9]
    assert run.position == 9
    assert run.redelivered == 3 + 8 + 1
    assert run.harness.operator.reader.records == 5


def test_a_position_never_goes_back():
    run = Run(batch(4, 9))
    run.checkpoint_id()
    assert run.checkpoint_id(batch(0, 3), SourceBatch([], 2)) == ([], [])
    assert run.position == 9
    assert run.checkpoint_id(batch(2, 10))[0] == [10]
    assert run.reader.asked == [4, 9, 9]


def test_copies_do_not_move_time():
    run = Run(batch(4, 6))
    assert run.checkpoint_id()[1] == [59]
    wild = SourceBatch([5, 6], 6, [WILD, WILD], positions=[5, 6])
    mixed = SourceBatch([6, 7], 7, [WILD, 70], positions=[6, 7])
    assert run.checkpoint_id(wild) == ([], [])
    assert run.checkpoint_id(wild, mixed, wild) == ([7], [69])
    assert run.harness.output() == [(7, 70)]


def test_a_timestamp_assigner_does_not_see_copies():
    seen = []

    def assign(value, timestamp):
        seen.append(value)
        return timestamp

    run = Run(batch(0, 6), strategy=MONOTONOUS.with_timestamp_assigner(assign))
    run.checkpoint_id()
    assert seen == [5, 6]


def test_a_split_that_gives_nothing_but_copies_turns_idle():
    run = Run(batch(4, 6), strategy=MONOTONOUS.with_idleness(Duration.of_millis(100)))
    run.checkpoint_id()
    run.harness.clock.advance(100)
    run.checkpoint_id(batch(0, 6))
    assert run.harness.statuses() == [True]
    run.checkpoint_id(batch(0, 6))
    assert run.harness.statuses() == []
    run.checkpoint_id(batch(0, 7))
    assert run.harness.statuses() == [False]


def test_a_split_that_gave_nothing_but_copies_has_no_watermark():
    run = Run(batch(0, 4))
    assert run.checkpoint_id() == ([], [])
    assert run.progress[0].watermark == -(2**63)


def test_deadline_does_not_stop_a_reader_at_redelivered_records():
    run = Run(batch(0, 2), batch(2, 4), batch(4, 5), batch(5, 6))
    assert run.checkpoint_id(deadline=PAST)[0] == [5]
    assert run.reader.taken == 3
    run.checkpoint_id(batch(5, 6), batch(0, 1), batch(6, 7), deadline=PAST)
    assert run.position == 6


def test_copies_do_stop_a_reader_that_has_got_on():
    clock = iter([False, True])
    decisions = WallClockDecisions(ManualClock(1000))
    decisions.due = lambda place, due: place == "split" and next(clock)
    run = Run(decisions=decisions)
    assert run.checkpoint_id(batch(4, 5), batch(0, 5), batch(5, 6))[0] == [5]
    assert run.reader.taken == 2


def test_nothing_changes_for_positions_that_are_not_ordered():
    run = Run(SourceBatch(["b"], 3), SourceBatch(["a"], 3), ordered=False)
    assert run.checkpoint_id()[0] == ["b", "a"]
    assert run.position == 3
    assert REDELIVERED not in run.harness.metrics.report()


@pytest.mark.parametrize("tells", ["positions", "start"])
def test_reader_with_positions_must_declare_them_as_ordered(tells):
    run = Run(batch(4, 6, tells=tells), ordered=False)
    with pytest.raises(InvalidProgramError, match="Scripted sets positions of records"):
        run.checkpoint_id()


def test_a_reader_that_fails_when_it_is_asked_whether_it_is_ordered_is_named():
    run = Run()
    run.reader.ordered = lambda split: split.nothing
    with pytest.raises(UserCodeError, match="AttributeError") as caught:
        run.checkpoint_id()
    assert "split s" in caught.value.detail


def test_a_hybrid_source_asks_the_source_that_the_split_is_of():
    first, second = Scripted(ordered=False), Scripted(ordered=True)
    hybrid = HybridSource([ScriptedSource(first), ScriptedSource(second)])
    reader = hybrid.create_reader()
    wrapped = [SourceSplit(f"{index}/s", (index, SPLIT)) for index in range(2)]
    assert [reader.ordered(split) for split in wrapped] == [False, True]


class Partition:
    """What the reader of the documentation talks to: begins three messages early, and repeats itself."""

    def poll(self, position, seconds):
        for first in (max(0, position - 3), position + 1):
            yield [types.SimpleNamespace(offset=n, value=f"m{n}") for n in range(first, first + 5)]


def test_the_reader_of_the_documentation_may_deliver_again():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    page = {}
    exec(compile(code, str(PAGE), "exec"), page)
    reader = DeduplicatingReader(page["TopicReader"](), lambda dropped: None)
    split = SourceSplit("topic-0", Partition(), 0)
    found = [each.records for each in reader.read(split, 10, ReadLimits())]
    assert found == [["m10", "m11"], ["m12", "m13", "m14", "m15"]]


class Attempts:
    """Runs a broker's splits through epochs, attempts, restarts and changes of parallelism, as chance has it."""

    def __init__(self, source, chance):
        self.source = source
        self.chance = chance
        self.progress = [SplitProgress(split, split.start) for split in source.splits()]
        self.snapshots = []
        self.subtasks = []
        self.output = []
        self.watermarks = []

    def run(self):
        for _ in range(MANY_EPOCHS):
            if not any(self.is_open(each) for each in self.progress):
                return
            self.checkpoint_id()
        raise AssertionError("the source does not get on")

    def is_open(self, progress):
        if self.source.bounded:
            return not progress.finished
        return progress.position != self.source.position(progress.split.payload)

    def deploy(self, parallelism):
        self.subtasks = [self.subtask(index, parallelism) for index in range(parallelism)]

    def subtask(self, index, parallelism):
        return OperatorHarness(
            SourceSpec(self.source, MONOTONOUS),
            subtask=index,
            parallelism=parallelism,
            snapshots=self.snapshots,
        )

    def checkpoint_id(self):
        if not self.subtasks or self.chance.random() < 0.2:
            self.deploy(self.chance.randint(1, 3))
        parallelism = len(self.subtasks)
        assigned = [self.progress[index::parallelism] for index in range(parallelism)]
        dropped = []
        for index, splits in enumerate(assigned):
            while (found := self.attempt(index, splits)) is None:
                self.subtasks[index] = self.subtask(index, parallelism)  # Spark runs the task again
            dropped.append(found)
        if self.chance.random() < 0.2:  # before the checkpoint: nothing of the epoch counts
            self.subtasks = []
            return
        self.snapshots = [each.snapshot() for each in self.subtasks]
        for each, (delivered, records) in zip(self.subtasks, dropped, strict=True):
            assert each.metrics.counter(REDELIVERED).get_count() == delivered - records
            self.output += each.output()
            self.watermarks += each.watermarks()
        self.progress = [
            progress
            for each in self.subtasks
            for progress in each.operator.progress()
            if not progress.finished
        ]

    def attempt(self, index, splits):
        """Run a task; return how many records it was given and how many it took, or None if it was killed."""
        harness = self.subtasks[index]
        harness.clear()
        harness.metrics.reset()
        self.source.delivered = 0
        deadline = PAST if self.chance.random() < 0.6 else None
        assignment = SourceAssignment(splits, no_more_splits=True)
        for _ in harness.operator.run(assignment, deadline):
            if self.chance.random() < 0.1:
                return None
        return self.source.delivered, len(harness.values())


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.lists(st.integers(0, 25), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
    bounded=st.booleans(),
    tells=st.sampled_from(["positions", "start"]),
    position=st.sampled_from([int, "{:03}".format, lambda number: (number // 3, number % 3)]),
)
def test_whatever_is_delivered_again_and_whatever_dies_each_record_counts_once_in_order(
    lengths, seed, bounded, tells, position
):
    chance = random.Random(seed)
    source = Broker(lengths, lambda: chance, bounded=bounded, tells=tells, position=position)
    attempts = Attempts(source, chance)
    attempts.run()
    for number, length in enumerate(lengths):
        of_split = [record for record in attempts.output if record[0][0] == str(number)]
        assert of_split == [((str(number), each), each) for each in range(length)]
    assert all(mark < max(lengths) or mark == MAX for mark in attempts.watermarks)
