"""Every operator gives through Spark what it gives in one process, with one subtask and with several.

The programs are those of the fault suite's zoo, all in one job of about a dozen epochs.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.testing.mini_cluster import MiniCluster

sys.path.insert(0, str(Path(__file__).parents[1] / "faults" / "jobs"))

import zoo

PARALLELISMS = [1, 3]
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


def run(parallelism):
    """Run all programs as one job; return the results of each."""
    options = {"penstock.debug.check-order": "true", "execution.checkpointing.interval": "1 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(parallelism)
    inputs = zoo.Inputs(env)
    streams = [build(inputs).map(zoo.Labelled(name)) for name, build in PROGRAMS.items()]
    results = {name: Counter() for name in PROGRAMS}
    with streams[0].union(*streams[1:]).execute_and_collect() as found:
        for line in found:
            name, _, result = line.partition(": ")
            results[name][result] += 1
    return results


@cache
def through_spark(parallelism):
    return run(parallelism)


@cache
def in_one_process(parallelism):
    with MiniCluster():
        return run(parallelism)


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_operator_gives_through_spark_what_it_gives_in_one_process(name, parallelism):
    expected, found = in_one_process(parallelism)[name], through_spark(parallelism)[name]
    assert expected.total() > 0
    assert {"lost": expected - found, "surplus": found - expected} == {
        "lost": Counter(),
        "surplus": Counter(),
    }
