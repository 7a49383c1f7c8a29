"""Patterns that come from a stream, in a whole program."""

from __future__ import annotations

import pytest

from penstock.cep import CEP
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing import MiniCluster
from tests.builders.letter_patterns import Show, pattern_of


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_whole_program(parallelism):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    events = env.from_collection([("k", "a", 1), ("l", "b", 2), ("k", "b", 3)])
    events = events.assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda event, _: event[2])
    )
    rules = env.from_collection([("x", "ab")]).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda rule, _: 0)
    )
    found = CEP.dynamic_patterns(events.key_by(lambda e: e[0]), rules, pattern_of).process(Show())
    with MiniCluster(), found.execute_and_collect() as results:
        assert list(results) == [("x", "ab")]
