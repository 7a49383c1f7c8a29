"""Programs that read one source after another."""

from __future__ import annotations

import pytest

from penstock.connectors.base.source import Boundedness
from penstock.datastream.connectors import CollectionSource, NumberSequenceSource
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults
from tests.builders.connector_helpers import hybrid
from tests.builders.scripted import MONOTONOUS, NONE, Script, collect, environment, take


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("checkpoints", [None, 10], ids=["one epoch", "checkpoints"])
def test_a_bounded_program_reads_all_sources(parallelism, checkpoints):
    source = hybrid(
        NumberSequenceSource(0, 9), CollectionSource([10, 11, 12]), NumberSequenceSource(13, 19)
    )
    with MiniCluster():
        env = environment(parallelism, checkpoints=checkpoints)
        stream = env.from_source(source, NONE, "hybrid")
        assert sorted(collect(stream)) == list(range(20))


def test_a_crash_at_the_switch_loses_and_repeats_nothing():
    for step in range(1, 5):
        fault = StepFault("before write_manifest", step)
        with MiniCluster(), protocol_faults(fault) as faults:
            env = environment(2, checkpoints=10)
            source = hybrid(Script([[1, 2], [3]], [[4]]), Script([[(5, 50)], [(6, 60)]]))
            stream = env.from_source(source, MONOTONOUS, "hybrid")
            assert sorted(collect(stream)) == [1, 2, 3, 4, 5, 6]
        assert faults.struck == [fault]


def test_an_unbounded_source_may_come_last():
    live = Script([[7], [8], [9]], bounded=False)
    source = hybrid(NumberSequenceSource(1, 3), live)
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    with MiniCluster():
        env = environment(2, checkpoints=10)
        assert sorted(take(env.from_source(source, NONE, "hybrid"), 6)) == [1, 2, 3, 7, 8, 9]


def test_history_comes_before_the_live_stream():
    source = hybrid(NumberSequenceSource(1, 3), Script([[7], [8]], bounded=False))
    with MiniCluster():
        env = environment(1, checkpoints=10)
        assert take(env.from_source(source, NONE, "hybrid"), 5) == [1, 2, 3, 7, 8]
