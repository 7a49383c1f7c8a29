"""Every operator gives through Spark what it gives in one process, with one subtask and with several.

The programs are those of the fault suite's zoo, all in one job of about a dozen epochs.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.datastream import KeyedProcessFunction
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.modes import EPOCHS, MODES, PIPELINED, runs_in
from tests.builders.steps import at_step

sys.path.insert(0, str(Path(__file__).parents[1] / "faults" / "jobs"))

import zoo
from zoo_inputs import next_turn, splits_of

# Pipelined tasks need a core each. A single source subtask reads its splits one after another in epochs, and side by side otherwise.
RUNS = [(EPOCHS, 1), (EPOCHS, 3), (PIPELINED, 2)]
HOUR_MS = 3_600_000
NONE = {"lost": Counter(), "surplus": Counter()}


class PastTimers(KeyedProcessFunction):
    """Registers processing-time timers that are due at once."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


# The program of each family that `make test` runs; all others run in process there, in tests/zoo.
FAMILIES = {
    "windows": "tumbling_aggregate_with_lateness",
    "merging windows": "session_process_with_lateness",
    "count windows": "sliding_count_window",
    "windows without keys": "window_of_all",
    "evictors": "time_evictor",
    "aggregation in two stages": "local_global_aggregate",
    "watermarks": "watermarks_within_the_program",
    "keyed state": "map_state",
    "timers": "event_time_timers",
    "rolling aggregation": "rolling_reduce",
    "connected streams": "keyed_co_process",
    "broadcast state": "keyed_broadcast_process",
    "interval joins": "interval_join",
    "window joins": "co_group",
    "operator state": "checkpointed_function",
    "asynchronous calls": "async_ordered",
    "partitions": "full_window_partition",
    "sources": "hybrid_source",
    "patterns": "pattern",
}
# What depends on the wall clock in the zoo does not here.
PROGRAMS = {name: zoo.PROGRAMS[name].build for name in zoo.TOGETHER}
PROGRAMS["state_with_a_long_ttl"] = lambda inputs: inputs.keyed.process(zoo.Keep("map", HOUR_MS))
PROGRAMS["processing_time_timers"] = lambda inputs: inputs.keyed.process(PastTimers())


def run(names, parallelism, mode, directory):
    """Run programs as one job; return the results of each."""
    options = {
        "penstock.debug.check-order": "true",
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "penstock.job-id": zoo.JOB_ID,
        **runs_in(mode),
    }
    env = configured(options, parallelism)
    turns = Path(directory, "turns")
    inputs = zoo.Inputs(env, turns=str(turns) if mode == PIPELINED else None)
    streams = [PROGRAMS[name](inputs).map(zoo.Labelled(name)) for name in names]
    results = {name: Counter() for name in names}
    store = ManifestStore(CheckpointFileSystem(f"{directory}/checkpoints"), zoo.JOB_ID)

    def follow(_):
        """Let the next batch be read when a checkpoint has those before it."""
        turn = next_turn(splits_of(store.latest()))
        if turn is not None:
            turns.with_suffix(".tmp").write_text(str(turn + 1))
            turns.with_suffix(".tmp").replace(turns)

    turns.write_text("1")
    union = streams[0].union(*streams[1:])
    with at_step("after write_manifest", follow), union.execute_and_collect() as found:
        for line in found:
            name, _, result = line.partition(": ")
            results[name][result] += 1
    return results


@cache
def through_spark(names, parallelism, mode):
    with tempfile.TemporaryDirectory() as directory:
        return run(names, parallelism, mode, directory)


@cache
def in_one_process(names, parallelism):
    with MiniCluster(), tempfile.TemporaryDirectory() as directory:
        return run(names, parallelism, EPOCHS, directory)


def differences(name, names, mode, parallelism):
    """Return what is lost and what is too much in the results of a program that ran in a job with others."""
    expected = in_one_process(names, parallelism)[name]
    found = through_spark(names, parallelism, mode)[name]
    assert expected.total() > 0, name
    return {"lost": expected - found, "surplus": found - expected}


@pytest.mark.parametrize(("mode", "parallelism"), RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_operator_gives_through_spark_what_it_gives_in_one_process(name, mode, parallelism):
    assert differences(name, tuple(PROGRAMS), mode, parallelism) == NONE


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_an_operator_of_each_family_gives_through_spark_what_it_gives_in_one_process(mode):
    names = tuple(FAMILIES.values())
    found = {family: differences(name, names, mode, 2) for family, name in FAMILIES.items()}
    assert {family: each for family, each in found.items() if each != NONE} == {}
