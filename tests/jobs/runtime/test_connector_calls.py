"""What a connector receives besides records (durable checkpoints, the time), and what it reports besides records."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors import (
    Boundedness,
    Committer,
    MalformedRecord,
    Sink,
    SinkWriter,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import OutputTag
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.modes import EPOCHS, MODES, PIPELINED, runs_in
from tests.builders.scripted import collect

DEAD = OutputTag("dead")
LENGTH = 3000
GATES = range(750, LENGTH, 750)
# Slots are threads: what connectors received is noted in this process.
reported: dict[str, list] = {}
lock = threading.Lock()


def note(what, value):
    with lock:
        reported.setdefault(what, []).append(value)


@pytest.fixture(autouse=True)
def _nothing_reported():
    reported.clear()


class Numbers(Source):
    """Numbers from 0 on in each split; those in `bad` are not numbers.

    `may_pass(splits, position, start)` says whether a split, read from `start` on, may go on: until then it has no records.
    """

    def __init__(self, bad=(), *, ordered=False, refuses=False, splits="ab", may_pass=None):
        self.bad = bad
        self.ordered = ordered
        self.refuses = refuses
        self.splits = splits
        self.may_pass = may_pass

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return Found(restored, self)

    def create_reader(self):
        return Reading(self)


class Found(SplitEnumerator):
    def __init__(self, restored, source):
        self.found = bool(restored)
        self.source = source

    def discover(self):
        if self.found:
            return []
        self.found = True
        return [SourceSplit(name, None, 0) for name in self.source.splits]

    def no_more_splits(self):
        return self.found

    def snapshot(self):
        return self.found

    def on_checkpoint(self, splits):
        note("enumerator", {each.split.split_id: each.position for each in splits})
        if self.source.refuses:
            raise OSError("the group's coordinator is away")


class Reading(SourceReader):
    def __init__(self, source):
        self.source = source

    def ordered(self, split):
        return self.source.ordered

    def read(self, split, position, limits):
        source, start = self.source, position
        while position < LENGTH:
            while source.may_pass and not source.may_pass(source.splits, position, start):
                yield SourceBatch([], position)
                time.sleep(0.001)
            note("order", ("asked", split.split_id, position))
            yield self.batch(split, position, min(position + 50, LENGTH))
            position = min(position + 50, LENGTH)

    def batch(self, split, start, end):
        good = [n for n in range(start, end) if n not in self.source.bad]
        malformed = [
            MalformedRecord.of(
                b"%d!" % n,
                ValueError("it shouts"),
                {"split": split.split_id, "offset": n},
                timestamp=n,
                position=n + 1,
            )
            for n in range(start, end)
            if n in self.source.bad
        ]
        positions = [n + 1 for n in good] if self.source.ordered else None
        return SourceBatch(good, end, good, positions, malformed=malformed)

    def on_checkpoint(self, split, position):
        note("order", ("confirmed", split.split_id, position))


def is_confirmed(splits, position, _):
    """Whether checkpoints hold all splits up to the last gate."""
    gate = max((gate for gate in GATES if gate <= position), default=0)
    reached = {name: at for what, name, at in reported_so_far("order") if what == "confirmed"}
    return all(reached.get(split, 0) >= gate for split in splits)


def is_in_a_small_epoch(_, position, start):
    """Whether fewer than 500 were read in this epoch."""
    return position < start + 500


PACED = {EPOCHS: is_in_a_small_epoch, PIPELINED: is_confirmed}


def all_is_sent(_, position, __):
    """Whether the writer has sent all that was read; asked after every fifth batch of a split."""
    if position % 250:
        return True
    read = 50 * sum(what == "asked" for what, *_ in reported_so_far("order"))
    return sum(len(values) for *_, values in reported_so_far("sent")) >= read


def reported_so_far(what):
    with lock:
        return list(reported.get(what, ()))


def fail_once(value):
    if value in {700, 1900}:
        with lock:  # both splits have these numbers: one of them fails
            first = value not in reported.setdefault("failed", [])
            if first:
                reported["failed"].append(value)
        if first:
            raise RuntimeError("once")
    return value


def environment(mode, **options):
    return configured({"execution.checkpointing.interval": "10 ms", **runs_in(mode), **options}, 2)


def numbers(env, source):
    return env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")


@pytest.mark.parametrize("mode", MODES)
def test_reader_and_enumerator_are_notified_of_durable_checkpoints(mode):
    with MiniCluster():
        collect(numbers(environment(mode), Numbers(may_pass=is_confirmed)))
    for split in "ab":
        confirmed = [
            at for what, name, at in reported["order"] if (what, name) == ("confirmed", split)
        ]
        assert confirmed == sorted(confirmed)
        assert {position % 50 for position in confirmed} == {0}
        assert len(set(confirmed)) > 2  # not only at the end
    last = {split: at for each in reported["enumerator"] for split, at in each.items()}
    assert last == {"a": LENGTH, "b": LENGTH}
    assert len(reported["enumerator"]) > 2


@pytest.mark.parametrize("mode", MODES)
def test_no_read_before_a_confirmed_position(mode):
    env = environment(mode, **restarts(5))
    with MiniCluster():
        collect(numbers(env, Numbers(may_pass=is_confirmed)).map(fail_once))
    assert len(reported["failed"]) == 2
    confirmed: dict[str, int] = {}
    asked: dict[str, list[int]] = {}
    for what, split, position in reported["order"]:
        if what == "confirmed":
            confirmed[split] = max(confirmed.get(split, 0), position)
        else:
            assert position >= confirmed.get(split, 0)
            asked.setdefault(split, []).append(position)
    assert any(positions != sorted(set(positions)) for positions in asked.values())  # read again


@pytest.mark.parametrize("mode", MODES)
def test_an_enumerator_that_cannot_take_note_does_not_fail_the_job(mode, caplog):
    with MiniCluster():
        found = collect(numbers(environment(mode), Numbers(refuses=True)))
    assert len(found) == 2 * LENGTH
    assert "failed to process a checkpoint notification" in caplog.text


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_malformed_record_goes_to_the_side_output_with_its_origin(mode, ordered):
    bad = {0, 17, 49, 99, 100, *range(500, 600), LENGTH - 1}
    stream = numbers(environment(mode), Numbers(bad, ordered=ordered)).on_error(DEAD)
    letters = stream.get_side_output(DEAD).map(
        lambda letter: (letter.origin["split"], letter.origin["offset"], letter.record)
    )
    with MiniCluster():
        found = collect(stream.map(lambda n: ("good", n, b"")).union(letters))
    expected = [("good", n, b"") for n in range(LENGTH) if n not in bad] * 2
    expected += [(split, n, b"%d!" % n) for split in "ab" for n in bad]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("mode", MODES)
def test_malformed_record_without_side_output_fails_the_job(mode):
    env = environment(mode, **{"restart-strategy.type": "none"})
    with MiniCluster(), pytest.raises(JobExecutionError) as caught:
        collect(numbers(env, Numbers({77})))
    text = str(caught.value)
    assert "offset 77" in text
    assert "it shouts" in text
    assert "b'77!'" in text
    assert "on_error" in text


class Lingering(SinkWriter):
    """Sends what it has collected after 20 ms."""

    def __init__(self, context):
        self.waiting = []
        self.due = None
        self.context = context

    def write(self, values, timestamps, watermark):
        self.waiting += values
        if self.due is None:
            self.due = int(time.time() * 1000) + 20

    def next_wakeup(self):
        return self.due

    def wake_up(self):
        note("sent", ("by time", time.time() * 1000 - self.due, list(self.waiting)))
        self.waiting, self.due = [], None

    def prepare_commit(self):
        if self.waiting:
            note("sent", ("by barrier", 0, list(self.waiting)))
        self.waiting, self.due = [], None
        self.context.metrics.counter("barriers").inc()
        return []


class LingeringSink(Sink):
    def create_writer(self, context, restored=None):
        return Lingering(context)


def test_a_writer_is_woken_when_its_moment_has_come_though_the_barrier_is_far_away():
    env = configured({"execution.checkpointing.interval": "1 h", **runs_in(PIPELINED)}, 1)
    numbers(env, Numbers(may_pass=all_is_sent)).sink_to(LingeringSink())
    with MiniCluster():
        env.execute()
    by_time = [late for how, late, _ in reported["sent"] if how == "by time"]
    assert len(by_time) > 10  # between any two of the twelve times that a split waits
    assert min(by_time) >= 0
    assert sorted(value for _, _, values in reported["sent"] for value in values) == sorted(
        [*range(LENGTH)] * 2
    )


class Notified(SinkWriter):
    """Notes what it handed over, and the notifications about it."""

    def __init__(self, context):
        self.subtask = context.subtask

    def begin(self, checkpoint):
        self.checkpoint_id = checkpoint.checkpoint_id

    def write(self, values, timestamps, watermark):
        pass

    def prepare_commit(self):
        note("calls", ("returned", self.subtask, self.checkpoint_id))
        return [(self.subtask, self.checkpoint_id)]

    def on_committed(self, checkpoint_id):
        note("calls", ("notified", self.subtask, checkpoint_id))


class Noting(Committer):
    def commit(self, request):
        for subtask, checkpoint_id in request.committables:
            note("calls", ("committed", subtask, checkpoint_id))


class ToldSink(Sink):
    def create_writer(self, context, restored=None):
        return Notified(context)

    def create_committer(self):
        return Noting()


@pytest.mark.parametrize("mode", MODES)
def test_writer_is_notified_only_of_committed_checkpoints(mode):
    env = environment(mode)
    numbers(env, Numbers(may_pass=PACED[mode])).sink_to(ToldSink())
    with MiniCluster():
        env.execute()
    for subtask in range(2):
        calls = [
            (what, checkpoint_id) for what, of, checkpoint_id in reported["calls"] if of == subtask
        ]
        returned = [checkpoint_id for what, checkpoint_id in calls if what == "returned"]
        news = [checkpoint_id for what, checkpoint_id in calls if what == "notified"]
        assert news == sorted(news)
        assert len(set(news) & set(returned)) > 2
        for index, (what, checkpoint_id) in enumerate(calls):
            if what == "notified":
                settled = {at for kind, at in calls[:index] if kind == "committed"}
                assert {at for at in returned if at <= checkpoint_id} <= settled


@pytest.mark.parametrize("mode", MODES)
def test_error_in_a_commit_notification_fails_the_job(mode, monkeypatch):
    def refuse(writer, checkpoint_id):
        raise OSError("the connection is gone")

    monkeypatch.setattr(Notified, "on_committed", refuse)
    env = environment(mode, **{"restart-strategy.type": "none"})
    numbers(env, Numbers(may_pass=PACED[mode])).sink_to(ToldSink())
    with MiniCluster(), pytest.raises(JobExecutionError, match="the connection is gone"):
        env.execute()


class Leaving(Noting):
    """Notes who it serves, and whose output it is to give up."""

    def open(self, context):
        self.operator_id = context.operator_id
        note("opened", (context.operator_id, context.writers_rest))

    def abandon(self, subtasks, job_id):
        note("abandoned", (self.operator_id, sorted(subtasks)))


class LeavingSink(ToldSink):
    def create_committer(self):
        return Leaving()


def test_only_the_sink_of_the_failed_region_discards_its_output():
    env = environment(PIPELINED, **restarts(5))
    failing_numbers = Numbers(may_pass=is_confirmed)
    numbers(env, failing_numbers).map(fail_once).sink_to(LeavingSink()).uid("fails")
    numbers(env, Numbers(splits="cd")).sink_to(LeavingSink()).uid("goes on")
    with MiniCluster():
        env.execute()
    failing, healthy = (name for name, _ in reported["opened"])
    assert len(reported["failed"]) == 2
    assert reported["abandoned"] == [(failing, [0, 1])] * 2
    assert healthy != failing


@pytest.mark.parametrize("mode", MODES)
def test_a_committer_knows_its_operator_and_whether_writers_rest(mode):
    env = environment(mode)
    numbers(env, Numbers()).sink_to(LeavingSink()).uid("one")
    numbers(env, Numbers()).sink_to(LeavingSink()).uid("two")
    with MiniCluster():
        env.execute()
    assert len({name for name, _ in reported["opened"]}) == 2
    assert {rest for _, rest in reported["opened"]} == {mode != PIPELINED}
