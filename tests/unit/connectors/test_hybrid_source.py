"""HybridSource: one source after another."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.connectors.source import Boundedness, ReadLimits
from penstock.datastream.connectors import CollectionSource, NumberSequenceSource
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.errors import ArgumentTypeError, InvalidProgramError
from penstock.jobmanager.sources import SourceCoordinator
from penstock.testing.faults import StepFault, protocol_faults
from penstock.testing.mini_cluster import MiniCluster
from tests.builders.scripted import MONOTONOUS, NONE, Script, collect, environment, take


def hybrid(*sources):
    builder = HybridSource.builder(sources[0])
    for source in sources[1:]:
        builder = builder.add_source(source)
    return builder.build()


def read_all(source, progress):
    reader = source.create_reader()
    reader.open(None)
    return [
        record
        for batch in reader.read(progress.split, progress.position, ReadLimits())
        for record in batch.records
    ]


def test_the_next_source_has_its_turn_when_all_splits_before_are_finished():
    source = hybrid(NumberSequenceSource(1, 4), NumberSequenceSource(5, 6))
    coordinator = SourceCoordinator("op", "vertex", source, 2)
    coordinator.restore(None)
    coordinator.discover()
    first = [split for splits in coordinator._splits for split in splits]
    assert [read_all(source, split) for split in first] == [[1, 2], [3, 4]]
    coordinator.advance(0, [])
    coordinator.discover()  # the other subtask still reads
    assert len(coordinator._splits[0]) == 0
    assert not coordinator.no_more_splits
    coordinator.advance(1, [])
    coordinator.discover()
    second = [split for splits in coordinator._splits for split in splits]
    assert sorted(read_all(source, split)[0] for split in second) == [5, 6]
    assert coordinator.no_more_splits
    names = [progress.split.split_id for progress in (*first, *second)]
    assert len(set(names)) == 4


def test_the_enumerator_goes_on_where_it_was():
    sources = [NumberSequenceSource(1, 2), NumberSequenceSource(3, 4)]
    enumerator = hybrid(*sources).create_enumerator(1)
    (split,) = enumerator.discover()
    restored = hybrid(*sources).create_enumerator(1, enumerator.snapshot())
    restored.observe([split])
    assert restored.discover() == []
    restored.observe([])
    (next_split,) = restored.discover()
    assert next_split.split_id.startswith("1/")
    again = hybrid(*sources).create_enumerator(1, restored.snapshot())
    again.observe([next_split])
    assert (again.discover(), again.no_more_splits()) == ([], True)


def test_sources_without_splits_are_skipped():
    enumerator = hybrid(
        Script(bounded=True), Script(bounded=True), NumberSequenceSource(1, 1)
    ).create_enumerator(1)
    (split,) = enumerator.discover()
    assert split.split_id.startswith("2/")


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


def test_nothing_can_follow_an_unbounded_source():
    with pytest.raises(InvalidProgramError, match="never ends"):
        hybrid(Script([[1]], bounded=False), NumberSequenceSource(1, 2))


def test_only_sources_are_taken():
    with pytest.raises(ArgumentTypeError, match="made of sources"):
        HybridSource.builder([1, 2])


def test_the_type_is_known_if_all_sources_have_the_same():
    numbers = NumberSequenceSource(1, 2)
    assert hybrid(numbers, numbers).get_produced_type() == Types.LONG()
    assert hybrid(numbers, CollectionSource([1])).get_produced_type() is None


def test_a_builder_can_be_used_twice():
    base = HybridSource.builder(NumberSequenceSource(1, 2))
    one = base.add_source(NumberSequenceSource(3, 4)).build()
    assert (len(one.sources), len(base.build().sources)) == (2, 1)
