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
from penstock.checkpoint.storage import CheckpointStorage
from penstock.datastream import KeyedProcessFunction
from penstock.testing.mini_cluster import MiniCluster
from tests.builders.environments import configured
from tests.builders.modes import EPOCHS, PIPELINED, runs_in
from tests.builders.steps import at_step

sys.path.insert(0, str(Path(__file__).parents[1] / "faults" / "jobs"))

import zoo
from zoo_inputs import next_turn, splits_of

# Tasks that stay need a core each. A single source subtask reads its splits one after another in epochs, and side by side otherwise.
RUNS = [(EPOCHS, 1), (EPOCHS, 3), (PIPELINED, 2)]
HOUR_MS = 3_600_000


class PastTimers(KeyedProcessFunction):
    """Registers processing-time timers that are due at once."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


# What depends on the wall clock in the zoo does not here.
PROGRAMS = {name: zoo.PROGRAMS[name].build for name in zoo.TOGETHER}
PROGRAMS["state_with_a_long_ttl"] = lambda inputs: inputs.keyed.process(zoo.Keep("map", HOUR_MS))
PROGRAMS["processing_time_timers"] = lambda inputs: inputs.keyed.process(PastTimers())


def run(parallelism, mode, directory):
    """Run all programs as one job; return the results of each."""
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
    streams = [build(inputs).map(zoo.Labelled(name)) for name, build in PROGRAMS.items()]
    results = {name: Counter() for name in PROGRAMS}
    store = ManifestStore(CheckpointStorage(f"{directory}/checkpoints"), zoo.JOB_ID)

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
def through_spark(parallelism, mode):
    with tempfile.TemporaryDirectory() as directory:
        return run(parallelism, mode, directory)


@cache
def in_one_process(parallelism):
    with MiniCluster(), tempfile.TemporaryDirectory() as directory:
        return run(parallelism, EPOCHS, directory)


@pytest.mark.parametrize(("mode", "parallelism"), RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_operator_gives_through_spark_what_it_gives_in_one_process(name, mode, parallelism):
    expected, found = in_one_process(parallelism)[name], through_spark(parallelism, mode)[name]
    assert expected.total() > 0
    assert {"lost": expected - found, "surplus": found - expected} == {
        "lost": Counter(),
        "surplus": Counter(),
    }
