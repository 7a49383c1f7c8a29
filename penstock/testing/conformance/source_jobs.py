"""Rules for sources in whole jobs: crashes, rescaling, idleness, malformed records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.common import Duration, WatermarkStrategy
from penstock.common.job_client import JobClient
from penstock.common.user_types import Record
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.base.source import Source
from penstock.datastream import OutputTag, ProcessFunction
from penstock.errors import JobExecutionError
from penstock.testing.conformance.jobs import (
    FolderSink,
    environment,
    reads,
    running,
    wait_for_end,
    wait_until,
)
from penstock.testing.conformance.killed_jobs import KILLS, ReadingJob, run_killed
from penstock.testing.conformance.rules import broken, does_not_apply, expect_each_once, step
from penstock.testing.conformance.setups import SourceSetup
from penstock.testing.conformance.source_rules import SOURCE_RULES, filled
from penstock.testing.conformance.taps import Tap, injected_failures, tapped_source

COUNT = 60
_SETTLE_S = 0.15  # some checkpoints, in which what is doubled would come
_IDLE_S = 0.5
_MOMENT_S = 0.025
_MOST_READS_A_SECOND = 200  # of an idle split; it is asked each 10 ms at the most
_MOST_ANNOUNCED = 20  # empty reads in a row that next_ready had announced
_DEAD = OutputTag("dead")
# Every call of the contract that a job makes, and at least one it cannot do without.
_CALLS = (
    "source.create_enumerator",
    "enumerator.discover",
    "enumerator.snapshot",
    "source.create_reader",
    "reader.open",
    "reader.read",
    "reader.batch",
    "reader.on_checkpoint",
    "enumerator.on_checkpoint",
)


def _read(
    setup: SourceSetup,
    source: Source,
    directory: Path,
    mode: str,
    count: int,
    options: dict[str, str] | None = None,
    before_end: Callable[[JobClient], None] = lambda _: None,
) -> list[Any]:
    """Run a job that reads everything; return what it has committed. One without an end is cancelled after `before_end`."""
    shelf = FolderSink(directory / "shelf")
    env = environment(directory, mode, 2, options)
    reads(env, source).sink_to(shelf).uid("sink")
    with running(env) as client:
        if setup.bounded:
            wait_for_end(client, setup.wait_s, "a job over all records")
        else:
            before_end(client)
            _wait_for_records(setup, shelf, client, count)
    return shelf.records()


def _wait_for_records(setup: SourceSetup, shelf: FolderSink, client: Any, count: int) -> None:
    """Wait for this many records, then a while longer for unexpected ones."""
    end = time.monotonic() + setup.wait_s
    result = client.get_job_execution_result()
    while len(shelf.records()) < count and time.monotonic() < end and not result.done():
        time.sleep(0.01)
    time.sleep(_SETTLE_S)
    if result.done():
        result.result(0)
        raise broken("a job with an unbounded source", "the job has ended by itself")


@SOURCE_RULES.rule_in_both_modes("a job reads each record once")
def _whole(setup: SourceSetup, directory: Path, mode: str) -> None:
    records = filled(setup, COUNT)
    tap = Tap(f"{directory} {mode}", pause_s=0.005, batch_size=3)  # over several checkpoints
    with step("a job over all records"):
        source = tapped_source(setup.create(), tap)
        found = _read(setup, source, directory, mode, len(records))
    tap.close()
    expect_each_once(setup, "a job over all records", records, found)


@SOURCE_RULES.rule_in_both_modes("a source without records yet does not fail")
def _empty(setup: SourceSetup, directory: Path, mode: str) -> None:
    if not setup.may_be_empty:
        raise does_not_apply("there is no such source without records")
    where = "a job without a record"
    tap = Tap(f"{directory} {mode}")

    def wait_for_a_look(client: JobClient) -> None:
        """Wait until existing splits were read without new records, and checkpoints completed after that: a failure would have come."""
        if not _splits(setup):
            return
        wait_s = setup.wait_s
        wait_until(lambda: tap.calls["reader.read"] > 0, client, wait_s, where, "a split is read")
        # In pipelined mode the first checkpoint may have been pending.
        last = tap.calls["enumerator.on_checkpoint"] + (2 if mode == "pipelined" else 1)
        wait_until(
            lambda: tap.calls["enumerator.on_checkpoint"] >= last,
            client,
            wait_s,
            where,
            "checkpoints complete after that",
        )

    with step(where):
        setup.add([])
        source = tapped_source(setup.create(), tap)
        options = {"restart-strategy.type": "none"}
        found = _read(setup, source, directory, mode, 0, options, wait_for_a_look)
    tap.close()
    expect_each_once(setup, where, [], found)


@SOURCE_RULES.rule_in_both_modes("a job that is rescaled from 1 to 3 to 2 reads each record once")
def _rescaled(setup: SourceSetup, directory: Path, mode: str) -> None:
    records = filled(setup, COUNT)
    shelf = FolderSink(directory / "shelf")
    tap = Tap(f"{directory} {mode}", pause_s=0.005, batch_size=3)
    savepoint: str | None = None
    for parallelism, part in ((1, 0.35), (3, 0.7), (2, None)):
        name = f"the job at parallelism {parallelism}"
        options = {} if savepoint is None else {"execution.state-recovery.path": savepoint}
        tap.allowance = float("inf") if part is None else int(part * len(records))
        env = environment(directory / str(parallelism), mode, parallelism, options)
        with step(name):
            reads(env, tapped_source(setup.create(), tap)).sink_to(shelf).uid("sink")
            with running(env) as client:
                if part is not None:
                    enough = int(part * len(records))
                    _wait_for_part(setup, shelf, client, enough, name)
                    target = str(directory / f"savepoint-{parallelism}")
                    savepoint = client.stop_with_savepoint(False, target).result(setup.wait_s)
                elif setup.bounded:
                    wait_for_end(client, setup.wait_s, name)
                else:
                    _wait_for_records(setup, shelf, client, len(records))
        if part is not None and setup.appends:
            more = [setup.record(len(records) + number) for number in range(COUNT // 3)]
            setup.add(more)
            records += more
    expect_each_once(setup, "after the last of the three jobs", records, shelf.records())


def _wait_for_part(
    setup: SourceSetup, shelf: FolderSink, client: Any, enough: int, name: str
) -> None:
    wait_until(
        lambda: len(shelf.records()) >= enough,
        client,
        setup.wait_s,
        name,
        f"{enough} records are committed",
    )


@SOURCE_RULES.rule_in_both_modes("whatever call fails, each record is read once after recovery")
def _crashes(setup: SourceSetup, directory: Path, mode: str) -> None:
    records = filled(setup, COUNT)
    for call in _CALLS:
        tap = Tap(
            f"{directory} {mode} {call}", injected_failures(call), pause_s=0.004, batch_size=4
        )
        name = f"recovery from failures before and after {call}"
        try:
            with step(name):
                source = tapped_source(setup.create(), tap)
                place = directory / call
                found = _read(setup, source, place, mode, len(records))
        finally:
            tap.close()
        expect_each_once(setup, f"{name} ({'; '.join(tap.struck)})", records, found)
        if call == "reader.batch" and not tap.struck:
            raise broken(name, "the kit's failures did not strike: no batch was read")


@SOURCE_RULES.rule_in_both_modes("a driver that is killed resumes where it stopped")
def _killed(setup: SourceSetup, directory: Path, mode: str) -> None:
    if setup.in_process:
        raise does_not_apply("what the source reads is memory of this process")
    records = filled(setup, 3 * COUNT)
    shelf = FolderSink(directory / "shelf")
    job = ReadingJob(
        mode, str(directory), source=setup.create(), shelf=shelf, bounded=setup.bounded
    )
    job.count = len(records)
    run_killed(job, KILLS, setup.wait_s)
    expect_each_once(setup, "after the last driver", records, shelf.records())


@SOURCE_RULES.rule(
    "an idle source does not busy-loop, wakes up, and does not hold back the watermark"
)
def _idle(setup: SourceSetup, directory: Path) -> None:
    if setup.bounded or not setup.appends:
        raise does_not_apply("the source is never idle: it ends")
    tap = Tap(str(directory))
    shelf = FolderSink(directory / "shelf")
    records = filled(setup, 10)
    env = environment(directory, "pipelined", 2)
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(_Never())
        .with_idleness(Duration.of_millis(100))
    )
    source = tapped_source(setup.create(), tap)
    _marks.clear()
    stream = reads(env, source, strategy)
    clock = env.from_source(_ticks(), WatermarkStrategy.for_monotonous_timestamps(), "clock")
    stream.map(_wrapped).union(clock).process(_Watermarks()).sink_to(shelf)

    def found() -> list[Any]:
        return [record[0] for record in shelf.records() if isinstance(record, tuple)]

    with step("a job whose source is idle"), running(env) as client:
        wait_until(
            lambda: len(found()) >= len(records),
            client,
            setup.wait_s,
            "a job whose source is idle",
            "the first records are committed",
        )
        _expect_quiet(tap, splits=max(1, len({*_splits(setup)})))
        wait_until(
            lambda: bool(_marks) and max(_marks) > _Never.TIME,
            client,
            setup.wait_s,
            "an idle source with with_idleness",
            "the watermark goes on with the other source's",
        )
        more = [setup.record(number) for number in range(10, 20)]
        setup.add(more)
        wait_until(
            lambda: len(found()) >= len(records) + len(more),
            client,
            setup.wait_s,
            "records for a source that was idle",
            "they are read",
        )
        time.sleep(_SETTLE_S)
    tap.close()
    expect_each_once(setup, "records for a source that was idle", [*records, *more], found())


def _expect_quiet(tap: Tap, splits: int) -> None:
    """Look for readers that announce records and have none, and for a moment in which an idle source is read too often."""
    end = time.monotonic() + _IDLE_S
    while time.monotonic() < end:
        announced = max(tap.announced.values(), default=0)
        if announced > _MOST_ANNOUNCED:
            raise broken(
                "an idle source",
                f"next_ready has announced records {announced} times in a row for a split that has none: it is read without a pause",
            )
        begun, before = time.monotonic(), tap.calls["reader.read"]
        time.sleep(_MOMENT_S)
        # The clock last: the time in which this thread had to wait belongs to the reads.
        read, passed = tap.calls["reader.read"] - before, time.monotonic() - begun
        if read > splits * (1 + _MOST_READS_A_SECOND * passed):
            raise broken(
                "an idle source",
                f"its {splits} splits are read {read} times in {passed * 1000:.0f} ms: next_ready or wake say that there is something",
            )


def _splits(setup: SourceSetup) -> list[str]:
    enumerator = setup.create().create_enumerator(2)
    found = [split.split_id for split in enumerator.discover()]
    enumerator.close()
    return found


_marks: list[int] = []
_marks_lock = threading.Lock()


class _Never(TimestampAssigner):
    """All records of the source under test are from long ago."""

    TIME = 1000

    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return self.TIME


def _wrapped(record: Record) -> tuple[Any]:
    return (record,)


def _ticks() -> Source:
    from penstock.connectors.datagen.source import DataGeneratorSource

    return DataGeneratorSource(_same, rate_per_second=100, timestamp=_tick_time)


def _same(index: int) -> int:
    return index


def _tick_time(index: int) -> int:
    return _Never.TIME + 10 * index


class _Watermarks(ProcessFunction):
    """Notes the watermarks; slots are threads of this process."""

    def process_element(self, value: Record, ctx: Any) -> Any:
        mark = ctx.timer_service().current_watermark()
        with _marks_lock:
            _marks.append(mark)
        yield value


@SOURCE_RULES.rule_in_both_modes(
    "a malformed record fails the job with its origin, or becomes a dead letter"
)
def _malformed(setup: SourceSetup, directory: Path, mode: str) -> None:
    if type(setup).add_malformed is SourceSetup.add_malformed:
        raise does_not_apply("the setup cannot add a malformed record")
    records = filled(setup, 10)
    text = setup.add_malformed()
    more = [setup.record(number) for number in range(10, 20)]
    setup.add(more)
    _check_refusal(setup, directory / "fails", mode, text)
    shelf = FolderSink(directory / "aside" / "shelf")
    env = environment(directory / "aside", mode, 2)
    where = "a job with on_error and a malformed record"
    with step(where):
        stream = reads(env, setup.create()).on_error(_DEAD)
        letters = stream.get_side_output(_DEAD).map(_letter)
        stream.map(_wrapped).union(letters).sink_to(shelf)
        with running(env) as client:
            if setup.bounded:
                wait_for_end(client, setup.wait_s, where)
            else:
                _wait_for_records(setup, shelf, client, 21)
    found = shelf.records()
    dead = [record for record in found if len(record) == 3]
    good = [record[0] for record in found if len(record) == 1]
    expect_each_once(setup, where, [*records, *more], good)
    if len(dead) != 1:
        raise broken(where, f"{len(dead)} dead letters instead of one")
    data, origin, message = dead[0]
    if data is None or not origin:
        raise broken(where, f"the dead letter has data {data!r} and origin {origin!r}")
    if text not in message:
        raise broken(where, f"the dead letter says {message!r}, without {text!r}")


def _letter(letter: Any) -> tuple[Any, Any, str]:
    return letter.record, letter.origin, f"{letter.error_type} {letter.message}"


def _check_refusal(setup: SourceSetup, directory: Path, mode: str, text: str) -> None:
    where = "a job without on_error and a malformed record"
    env = environment(directory, mode, 2, {"restart-strategy.type": "none"})
    reads(env, setup.create()).sink_to(FolderSink(directory / "shelf"))
    with running(env) as client:
        try:
            client.get_job_execution_result().result(setup.wait_s)
        except JobExecutionError as error:
            if text not in str(error):
                raise broken(where, f"the error does not say {text!r}: {error}") from error
            return
        except TimeoutError as error:
            raise broken(where, "the job continues without an error") from error
    raise broken(where, "the job ends without an error")
