"""Rules for sinks that are seen in whole jobs: crashes, kills, rescaling, what cannot be written."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import JobExecutionError
from penstock.testing.conformance.jobs import (
    ScriptedSource,
    environment,
    reads,
    running,
    wait_for_end,
    wait_until,
)
from penstock.testing.conformance.killed_jobs import (
    KILLS,
    UNCOMMITTED,
    WritingJob,
    run_killed,
)
from penstock.testing.conformance.rules import broken, does_not_apply, step
from penstock.testing.conformance.setups import SinkSetup
from penstock.testing.conformance.sink_rules import SINK_RULES, expect_shown, records_of
from penstock.testing.conformance.taps import Tap, injected_failures, tapped_sink

COUNT = 80
# Every call of the contract that a job makes; clean_up only where there is something to go back to.
_CALLS = (
    "sink.create_writer",
    "writer.begin",
    "writer.write",
    "writer.prepare_commit",
    "writer.snapshot",
    "sink.create_committer",
    "committer.commit",
    "committer.clean_up",
)


@SINK_RULES.rule_in_both_modes(
    "a job writes each record once, also with checkpoints without records"
)
def _whole(setup: SinkSetup, directory: Path, mode: str) -> None:
    records = records_of(setup, 0, COUNT)
    env = environment(
        directory, mode, 3
    )  # one subtask more than there are splits: it has no record
    tap = Tap(f"{directory} {mode}")
    where = "a job over all records"
    with step(where):
        reads(env, ScriptedSource(records)).sink_to(tapped_sink(setup.create(), tap)).uid("sink")
        with running(env) as client:
            wait_for_end(client, setup.wait_s, where)
    tap.close()
    expect_shown(setup, "after the job's end", records)
    _expect_nothing_left(setup, "after the job's end")


def _expect_nothing_left(setup: SinkSetup, where: str) -> None:
    with step("left_over of the setup"):
        rest = list(setup.left_over())
    if rest:
        raise broken(where, f"left behind: {', '.join(map(repr, rest[:5]))}")


@SINK_RULES.rule_in_both_modes("a job that is rescaled from 1 to 3 to 2 writes each record once")
def _rescaled(setup: SinkSetup, directory: Path, mode: str) -> None:
    records = records_of(setup, 0, 2 * COUNT)
    hold = directory / "hold"
    savepoint: str | None = None
    # Each job has enough records of both splits for a few checkpoints, however much the one before has read.
    for parallelism, allowed in ((1, COUNT // 3), (3, 2 * COUNT // 3), (2, None)):
        if allowed is None:
            hold.unlink()
        else:
            hold.write_text(str(allowed))
        name = f"the job at parallelism {parallelism}"
        options = {} if savepoint is None else {"execution.state-recovery.path": savepoint}
        env = environment(directory / str(parallelism), mode, parallelism, options)
        tap = Tap(f"{directory} {mode} {parallelism}")
        with step(name):
            sink = tapped_sink(setup.create(), tap)
            reads(env, ScriptedSource(records, hold, paced=True)).rebalance().sink_to(sink).uid(
                "sink"
            )
            with running(env) as client:
                if allowed is None:
                    wait_for_end(client, setup.wait_s, name)
                else:
                    wait_until(
                        lambda tap=tap: tap.calls["writer.prepare_commit"] > 3,  # type: ignore[misc]
                        client,
                        setup.wait_s,
                        name,
                        "a few checkpoints",
                    )
                    target = str(directory / f"savepoint-{parallelism}")
                    savepoint = client.stop_with_savepoint(False, target).result(setup.wait_s)
        tap.close()
    expect_shown(setup, "after the last of the three jobs", records)


@SINK_RULES.rule_in_both_modes("whatever call fails, each record is written once after recovery")
def _crashes(setup: SinkSetup, directory: Path, mode: str) -> None:
    expected = []
    for number, call in enumerate(_CALLS):
        records = records_of(setup, 1000 * number, 1000 * number + COUNT)
        expected += records
        tap = Tap(
            f"{directory} {mode} {call}",
            injected_failures(call),
        )
        name = f"recovery from failures before and after {call}"
        env = environment(directory / call, mode, 2)
        try:
            with step(name):
                reads(env, ScriptedSource(records)).sink_to(tapped_sink(setup.create(), tap)).uid(
                    "sink"
                )
                with running(env) as client:
                    wait_for_end(client, setup.wait_s, name)
        finally:
            tap.close()
        expect_shown(setup, f"{name} ({'; '.join(tap.struck)})", expected)
        if call == "writer.write" and not tap.struck:
            raise broken(name, "the kit's failures did not strike: nothing was written")
    _expect_nothing_left(setup, "after all recoveries")


@SINK_RULES.rule_in_both_modes("a driver that is killed at any step of a commit loses nothing")
def _killed(setup: SinkSetup, directory: Path, mode: str) -> None:
    if setup.in_process:
        raise does_not_apply("what the sink writes to is memory of this process")
    records = records_of(setup, 0, 2 * COUNT)
    job = WritingJob(mode, str(directory), sink=setup.create(), records=records)
    committer = job.sink.create_committer()
    if committer is not None:
        committer.close()
    run_killed(job, KILLS if committer is not None else UNCOMMITTED, setup.wait_s)
    expect_shown(setup, "after the last driver", records)
    _expect_nothing_left(setup, "after the last driver")


@SINK_RULES.rule_in_both_modes("a value that cannot be written fails the job, and is not lost")
def _unwritable(setup: SinkSetup, directory: Path, mode: str) -> None:
    value = setup.unwritable()
    if value is None:
        raise does_not_apply("the setup has no value that cannot be written")
    where = "a job with a value that cannot be written"
    env = environment(directory, mode, 1, {"restart-strategy.type": "none"})
    reads(env, ScriptedSource([setup.record(0), value])).sink_to(setup.create())
    with running(env) as client:
        try:
            wait_for_end(client, setup.wait_s, where)
        except JobExecutionError:
            return
    raise broken(where, "the job ends without an error")
