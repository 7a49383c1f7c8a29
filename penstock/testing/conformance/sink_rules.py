"""Rules for sinks that are seen without a job: what is shown when, commits that come again, writers that are left."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import (
    CheckpointContext,
    CommitRequest,
    Committer,
    CommitterContext,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.testing.conformance.reading import copy_of
from penstock.testing.conformance.rules import (
    RuleBook,
    broken,
    does_not_apply,
    expect_each_once,
    step,
)
from penstock.testing.conformance.setups import Guarantee, SinkSetup
from penstock.testing.conformance.source_rules import check_arguments

SINK_RULES: RuleBook[SinkSetup] = RuleBook()
JOB = "c0ffee" + "0" * 26
OTHER_JOB = "decade" + "0" * 26
_MIN_WATERMARK = -(2**63)
_attempts = itertools.count()


class Protocol:
    """Does to a sink by hand what a job does to it; all that is handed over goes through pickles."""

    def __init__(self, setup: SinkSetup, directory: Path, job_id: str = JOB) -> None:
        self.setup = setup
        sink = setup.create() if job_id == JOB else setup.create_for_other_job()
        self.sink: Sink = copy_of(sink, "the sink")
        self.job_id = job_id
        self._staging = directory / "staging" / job_id
        self._staging.mkdir(parents=True, exist_ok=True)
        self._pending: Any = None
        self._open: list[SinkWriter] = []

    def open(
        self, subtask: int = 0, restored: StateValue = None, parallelism: int = 2
    ) -> SinkWriter:
        """Open a writer."""
        context = WriterContext(self.job_id, "sink", subtask, parallelism, str(self._staging))
        with step("sink.create_writer"):
            writer = self.sink.create_writer(context, restored)
        self._open.append(writer)
        return writer

    def begin(self, writer: SinkWriter, checkpoint_id: int) -> None:
        """Begin a checkpoint, by an attempt of its own."""
        with step(f"writer.begin of checkpoint {checkpoint_id}"):
            writer.begin(
                CheckpointContext(checkpoint_id, f"attempt{next(_attempts)}-{checkpoint_id}")
            )

    def write(self, writer: SinkWriter, records: Sequence[Any]) -> None:
        """Write records in two batches."""
        half = len(records) // 2
        for batch in (records[:half], records[half:]):
            if batch:
                with step("writer.write"):
                    writer.write(list(batch), [0] * len(batch), _MIN_WATERMARK)
                with step("writer.next_wakeup"):
                    writer.next_wakeup()

    def prepare(self, writer: SinkWriter, checkpoint_id: int) -> list[Any]:
        """Pass the barrier."""
        with step(f"writer.prepare_commit of checkpoint {checkpoint_id}"):
            committables = writer.prepare_commit()
        if not isinstance(committables, list):
            raise broken(
                f"writer.prepare_commit of checkpoint {checkpoint_id}",
                f"it returns {committables!r}, which is not a list",
            )
        with step(f"writer.snapshot after checkpoint {checkpoint_id}"):
            copy_of(writer.snapshot(), "what writer.snapshot returns")
        copied: list[Any] = copy_of(committables, "the committables")
        return copied

    def checkpoint_id(
        self, writer: SinkWriter, checkpoint_id: int, records: Sequence[Any]
    ) -> list[Any]:
        """Write the records of a checkpoint up to its barrier."""
        self.begin(writer, checkpoint_id)
        self.write(writer, records)
        return self.prepare(writer, checkpoint_id)

    def request(
        self, checkpoint_id: int, committables: list[Any], *, final: bool = False
    ) -> CommitRequest:
        """Return what the committer gets for a checkpoint."""
        return CommitRequest(
            checkpoint_id, committables, final, now_ms=checkpoint_id * 1000, pending=self._pending
        )

    def commit(self, request: CommitRequest, name: str | None = None) -> None:
        """Commit, by a committer of its own, as after a restart of the driver."""
        name = name or f"committer.commit of checkpoint {request.checkpoint_id}"
        committer = self.committer()
        if committer is not None:
            self._commit(committer, request, name)
        for writer in self._open:
            with step(f"writer.on_committed of checkpoint {request.checkpoint_id}"):
                writer.on_committed(request.checkpoint_id)

    def _commit(self, committer: Committer, request: CommitRequest, name: str) -> None:
        with step(name):
            self._pending = copy_of(committer.commit(request), "what commit returns")
        with step("committer.next_wakeup"):
            committer.next_wakeup(self._pending)
        with step("committer.close"):
            committer.close()

    def committer(self) -> Committer | None:
        """Create a committer."""
        with step("sink.create_committer"):
            committer: Committer | None = copy_of(self.sink, "the sink").create_committer()
        if committer is not None:
            with step("committer.open"):
                committer.open(CommitterContext(self.job_id, "sink", 1000))
        return committer

    def clean_up(self, requests: Sequence[CommitRequest]) -> None:
        """Let the committer clean up; no writer is at work."""
        committer = self.committer()
        if committer is not None:
            with step("committer.clean_up"):
                committer.clean_up(requests, self.job_id)
            committer.close()

    def close(self, writer: SinkWriter) -> None:
        """Close a writer."""
        self.leave(writer)
        with step("writer.close"):
            writer.close()

    def leave(self, writer: SinkWriter) -> None:
        """Tell a writer nothing any more, as if its process was gone or cut off."""
        if writer in self._open:
            self._open.remove(writer)


def records_of(setup: SinkSetup, start: int, end: int) -> list[Any]:
    """Return the records of these numbers."""
    return [setup.record(number) for number in range(start, end)]


def expect_shown(setup: SinkSetup, where: str, expected: Sequence[Any]) -> None:
    """See that this is shown, as the sink's guarantee has it."""
    with step("shown of the setup"):
        found = list(setup.shown())
    expect_each_once(
        setup, where, expected, found, twice=setup.guarantee is Guarantee.AT_LEAST_ONCE
    )


def expect_hidden(
    setup: SinkSetup, where: str, allowed: Sequence[Any], hidden: Sequence[Any]
) -> None:
    """See that what is not committed is not shown, if that is what the sink promises."""
    with step("shown of the setup"):
        found = list(setup.shown())
    if setup.guarantee is Guarantee.EXACTLY_ONCE:
        # What is committed may wait until a file is full, say.
        known = {setup.identity(record) for record in found}
        there = [record for record in allowed if setup.identity(record) in known]
        expect_each_once(setup, where, there, found)
        return
    known = {setup.identity(record) for record in [*allowed, *hidden]}
    strange = {setup.identity(record) for record in found} - known
    if strange:
        raise broken(where, f"unexpected records: {sorted(map(repr, strange))}")


@SINK_RULES.rule("wrong arguments are rejected by the constructor, not when the job runs")
def _arguments(setup: SinkSetup, _: Path) -> None:
    check_arguments(setup)


@SINK_RULES.rule("committed output is visible, and nothing before the commit is")
def _shown(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    writers = [job.open(subtask) for subtask in range(2)]
    done: list[Any] = []
    for checkpoint_id in range(1, 4):
        parts = [
            records_of(setup, 100 * checkpoint_id + 10 * n, 100 * checkpoint_id + 10 * n + 6)
            for n in range(2)
        ]
        committables: list[Any] = []
        for writer, part in zip(writers, parts, strict=True):
            job.begin(writer, checkpoint_id)
            job.write(writer, part)
        both = [*parts[0], *parts[1]]
        expect_hidden(setup, f"after write, in checkpoint {checkpoint_id}", done, both)
        for writer in writers:
            committables += job.prepare(writer, checkpoint_id)
        expect_hidden(setup, f"after prepare_commit of checkpoint {checkpoint_id}", done, both)
        job.commit(job.request(checkpoint_id, committables, final=checkpoint_id == 3))
        done += both
    expect_shown(setup, "after the commit of the last checkpoint", done)
    for writer in writers:
        job.close(writer)
    expect_shown(setup, "after close of the writers", done)


@SINK_RULES.rule("a repeated commit changes nothing")
def _twice(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    writer = job.open()
    one, two = records_of(setup, 0, 6), records_of(setup, 10, 16)
    first = job.request(1, job.checkpoint_id(writer, 1, one), final=True)
    job.commit(first)
    job.commit(first, "committer.commit of checkpoint 1, the second time")
    expect_shown(setup, "after the second commit of checkpoint 1", one)
    second = job.request(2, job.checkpoint_id(writer, 2, two), final=True)
    job.commit(second)
    job.commit(second, "committer.commit of checkpoint 2, the second time")
    job.close(writer)
    job.commit(second, "committer.commit of checkpoint 2, after close of the writer")
    expect_shown(setup, "after the third commit of checkpoint 2", [*one, *two])


@SINK_RULES.rule("the same committer may commit again, as in a retry by the driver")
def _same_committer(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    writer = job.open()
    one = records_of(setup, 0, 6)
    request = job.request(1, job.checkpoint_id(writer, 1, one), final=True)
    committer = job.committer()
    if committer is not None:
        for time in ("first", "second"):
            with step(f"committer.commit, the {time} time"):
                committer.commit(request)
        committer.close()
    job.close(writer)
    expect_shown(setup, "after the second commit", one)


@SINK_RULES.rule("output prepared for an aborted checkpoint is committed by the next")
def _carried(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    writer = job.open()
    one, two, three = (records_of(setup, 10 * n, 10 * n + 5) for n in range(3))
    carried = job.checkpoint_id(writer, 1, one)
    carried += job.checkpoint_id(writer, 2, two)
    own = job.checkpoint_id(writer, 3, three)
    expect_hidden(setup, "before the first commit", [], [*one, *two, *three])
    job.commit(
        job.request(3, carried + own, final=True), "committer.commit of checkpoint 3 with 1 and 2"
    )
    job.close(writer)
    expect_shown(setup, "after the commit of checkpoint 3", [*one, *two, *three])


@SINK_RULES.rule("close neither publishes an unfinished checkpoint nor touches a finished one")
def _closed(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    writer = job.open()
    one, given_up = records_of(setup, 0, 6), records_of(setup, 10, 16)
    request = job.request(1, job.checkpoint_id(writer, 1, one), final=True)
    job.begin(writer, 2)
    job.write(writer, given_up)
    job.close(writer)
    expect_hidden(setup, "after close in the middle of checkpoint 2", [], [*one, *given_up])
    job.commit(request, "committer.commit of checkpoint 1, after close")
    if setup.guarantee is Guarantee.EXACTLY_ONCE:
        expect_shown(setup, "after the commit of checkpoint 1", one)
    else:
        _expect_not_lost(setup, "after the commit of checkpoint 1", one, given_up)


def _expect_not_lost(
    setup: SinkSetup, where: str, expected: Sequence[Any], possible: Sequence[Any]
) -> None:
    """See that records are shown; others may be, which were written and given up."""
    known = {setup.identity(record) for record in possible}
    found = [record for record in setup.shown() if setup.identity(record) not in known]
    expect_each_once(
        setup, where, expected, found, twice=setup.guarantee is Guarantee.AT_LEAST_ONCE
    )


@SINK_RULES.rule("an aborted attempt that keeps running publishes nothing")
def _zombie(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    zombies = [job.open(), job.open()]
    one, two, ghosts = (records_of(setup, 10 * n, 10 * n + 6) for n in range(3))
    for zombie in zombies:
        job.begin(zombie, 1)
        job.write(zombie, one)
        job.leave(zombie)
    successor = job.open()
    request = job.request(1, job.checkpoint_id(successor, 1, one), final=True)
    for zombie in zombies:
        _may_fail(partial(zombie.write, list(ghosts), None, _MIN_WATERMARK))
    _may_fail(zombies[0].prepare_commit)  # its result is ignored
    job.commit(request)
    _may_fail(zombies[1].prepare_commit)  # later still
    second = job.checkpoint_id(successor, 2, two)
    for zombie in zombies:
        _may_fail(zombie.close)
    last = job.request(2, second, final=True)
    job.commit(last)
    job.close(successor)
    job.clean_up([last])  # leftovers of the zombies may block readers until the next start
    if setup.guarantee is Guarantee.EXACTLY_ONCE:
        expect_shown(setup, "after an abandoned writer went on and closed late", [*one, *two])
    else:
        _expect_not_lost(
            setup, "after an abandoned writer went on and closed late", [*one, *two], ghosts
        )


def _may_fail(call: Any) -> None:
    """A writer that was replaced may be refused: that is as good as being ignored."""
    try:
        call()
    except Exception:  # noqa: BLE001 - the external system may raise anything
        return


@SINK_RULES.rule("clean_up keeps output that checkpoints refer to, and removes the rest")
def _clean_up(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    other = Protocol(setup, directory, OTHER_JOB)
    writer, stranger = job.open(), other.open()
    one, lost, left, theirs = (records_of(setup, 10 * n, 10 * n + 6) for n in range(4))
    named = job.request(1, job.checkpoint_id(writer, 1, one), final=True)
    theirs_named = other.request(1, other.checkpoint_id(stranger, 1, theirs), final=True)
    job.checkpoint_id(writer, 2, lost)  # prepared, and the checkpoint came to nothing
    job.begin(writer, 3)
    job.write(writer, left)  # written, and the process was killed: nothing is closed
    job.leave(writer)
    job.clean_up([named])
    job.commit(named, "committer.commit of what clean_up had to keep")
    other.commit(theirs_named, "committer.commit of another job's, after clean_up of this one's")
    done = [*one, *theirs]
    if setup.guarantee is Guarantee.EXACTLY_ONCE:
        expect_shown(setup, "after clean_up and commit", done)
    else:
        _expect_not_lost(setup, "after clean_up and commit", done, [*lost, *left])
    _may_fail(writer.close)
    other.close(stranger)
    with step("left_over of the setup"):
        rest = list(setup.left_over())
    if rest:
        raise broken("after clean_up and commit", f"left behind: {', '.join(map(repr, rest[:5]))}")


@SINK_RULES.rule("a request without committables is committed like any other")
def _nothing(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    job.commit(job.request(1, []), "committer.commit of nothing")
    writer = job.open()
    one = records_of(setup, 0, 6)
    committables = job.checkpoint_id(writer, 2, one)
    job.commit(job.request(2, committables))
    job.commit(job.request(3, []), "committer.commit of nothing, after checkpoint 2")
    job.commit(job.request(4, [], final=True), "committer.commit of nothing, at the end")
    job.close(writer)
    expect_shown(setup, "after commits of nothing", one)


@SINK_RULES.rule("a writer that never got a record can be closed")
def _unused(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    job.close(job.open())
    expect_shown(setup, "after close of a writer without a record", [])


@SINK_RULES.rule("a writer restores the state of another one")
def _state(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    writer = job.open()
    one, two = records_of(setup, 0, 6), records_of(setup, 10, 16)
    committables = job.checkpoint_id(writer, 1, one)
    state = copy_of(writer.snapshot(), "what writer.snapshot returns")
    job.commit(job.request(1, committables, final=True))
    job.close(writer)
    writer = job.open(restored=state)
    job.commit(job.request(2, job.checkpoint_id(writer, 2, two), final=True))
    job.close(writer)
    expect_shown(setup, "after a checkpoint of each of two writers", [*one, *two])


@SINK_RULES.rule("a writer that requests a wakeup gets it, and loses nothing")
def _wake_up(setup: SinkSetup, directory: Path) -> None:
    job = Protocol(setup, directory)
    writer = job.open()
    one = records_of(setup, 0, 6)
    job.begin(writer, 1)
    job.write(writer, one)
    due = writer.next_wakeup()
    if due is None:
        job.close(writer)
        raise does_not_apply("the writer does not want to be woken")
    with step("writer.wake_up"):
        writer.wake_up()
    again = writer.next_wakeup()
    if again is not None and again <= due:
        raise broken("writer.next_wakeup after wake_up", "it is always due at once")
    expect_hidden(setup, "after wake_up", [], one)
    job.commit(job.request(1, job.prepare(writer, 1), final=True))
    job.close(writer)
    expect_shown(setup, "after wake_up and commit", one)


@SINK_RULES.rule("a record of a megabyte is written like any other")
def _big(setup: SinkSetup, directory: Path) -> None:
    big = setup.big_record()
    if big is None:
        raise does_not_apply("the setup has no big record")
    job = Protocol(setup, directory)
    writer = job.open()
    records = [setup.record(0), big, setup.record(1)]
    job.commit(job.request(1, job.checkpoint_id(writer, 1, records), final=True))
    job.close(writer)
    expect_shown(setup, "after the commit", records)
