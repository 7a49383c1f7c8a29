"""HybridSource: one source after another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.common import Types
from penstock.connectors.base.source import ReadLimits
from penstock.datastream.connectors import CollectionSource, NumberSequenceSource
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.errors import ArgumentTypeError, InvalidProgramError
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from tests.builders.connector_helpers import hybrid
from tests.builders.scripted import Script


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
    coordinator.advance(0, [replace(first[0], finished=True)])
    coordinator.discover()  # the other subtask still reads
    assert len(coordinator._splits[0]) == 0
    assert not coordinator.no_more_splits
    coordinator.advance(1, [replace(first[1], finished=True)])
    coordinator.discover()
    second = [split for splits in coordinator._splits for split in splits]
    assert sorted(read_all(source, split)[0] for split in second) == [5, 6]
    assert coordinator.no_more_splits
    names = [progress.split.split_id for progress in (*first, *second)]
    assert len(set(names)) == 4


def test_restored_enumerator_continues_with_its_source():
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


def test_nothing_can_follow_an_unbounded_source():
    with pytest.raises(InvalidProgramError, match="is unbounded"):
        hybrid(Script([[1]], bounded=False), NumberSequenceSource(1, 2))


def test_only_sources_are_taken():
    with pytest.raises(ArgumentTypeError, match="not a source"):
        HybridSource.builder([1, 2])


def test_the_type_is_known_if_all_sources_have_the_same():
    numbers = NumberSequenceSource(1, 2)
    assert hybrid(numbers, numbers).get_produced_type() == Types.LONG()
    assert hybrid(numbers, CollectionSource([1])).get_produced_type() is None


def test_a_builder_can_be_used_twice():
    base = HybridSource.builder(NumberSequenceSource(1, 2))
    one = base.add_source(NumberSequenceSource(3, 4)).build()
    assert (len(one.sources), len(base.build().sources)) == (2, 1)
