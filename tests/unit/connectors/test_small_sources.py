"""Collections, sequences of numbers, generators."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.base import collection as collection_module
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.source import Boundedness, ReadLimits
from penstock.connectors.datagen.source import DataGeneratorSource, RateLimiterStrategy
from penstock.connectors.number_sequence.source import NumberSequenceSource
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from tests.builders.connector_helpers import read_all, read_resuming, read_split


@given(st.integers(-50, 50), st.integers(0, 100), st.integers(1, 9), st.integers(1, 20))
def test_a_sequence_holds_both_ends_and_every_number_once(start, length, parallelism, batch_size):
    source = NumberSequenceSource(start, start + length)
    parts = read_all(source, parallelism, batch_size, through_pickles=False)
    assert [n for part in parts for n in part] == list(range(start, start + length + 1))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert read_resuming(source, parallelism, batch_size) == list(range(start, start + length + 1))


def test_a_restored_sequence_plans_no_split_again():
    source = NumberSequenceSource(1, 3)
    enumerator = source.create_enumerator(2)
    assert enumerator.snapshot() is None
    assert len(enumerator.discover()) == 2
    restored = source.create_enumerator(2, enumerator.snapshot())
    assert restored.discover() == []
    assert restored.no_more_splits()
    assert source.get_boundedness() is Boundedness.BOUNDED


@pytest.mark.parametrize(
    ("start", "end", "error"),
    [
        (2, 1, ArgumentError),
        ("1", 2, ArgumentTypeError),
        (1, 2.0, ArgumentTypeError),
        (True, 2, ArgumentTypeError),
    ],
)
def test_sequence_rejects_invalid_ranges(start, end, error):
    with pytest.raises(error):
        NumberSequenceSource(start, end)


@pytest.mark.parametrize("splits", [1, 3, 50])
@pytest.mark.parametrize("size", [0, 1, 10, 10_000])
def test_a_collection_is_read_in_order(size, splits):
    elements = [(n, str(n)) for n in range(size)]
    source = CollectionSource(elements, splits=splits)
    assert [e for part in read_all(source, batch_size=999) for e in part] == elements
    assert read_resuming(source, batch_size=4000) == elements


def test_a_collection_may_have_timestamps():
    source = CollectionSource(["a", "b", "c"], timestamps=[1, 2, 3])
    (split,) = source.create_enumerator(4).discover()
    batches = list(source.create_reader().read(split, split.start, ReadLimits(batch_size=2)))
    assert [(batch.records, batch.timestamps) for batch in batches] == [
        (["a", "b"], [1, 2]),
        (["c"], [3]),
    ]


def test_small_collections_travel_in_their_splits_only(tmp_path):
    source = CollectionSource(["x" * 1000] * 100)
    source.attach_storage(str(tmp_path))
    (split,) = source.create_enumerator(1).discover()
    assert split.payload.file is None
    assert list(tmp_path.iterdir()) == []
    assert len(pickle.dumps(source)) < 1000


def test_large_collections_are_stored_once(tmp_path):
    elements = [random.Random(n).randbytes(1000) for n in range(3000)]
    source = CollectionSource(elements, splits=2)
    source.attach_storage(str(tmp_path / "job"))
    splits = source.create_enumerator(1).discover()
    assert all(len(pickle.dumps(split)) < 1000 for split in splits)
    reader = pickle.loads(pickle.dumps(source)).create_reader()
    assert [e for split in splits for e in read_split(reader, split)] == elements
    assert read_split(reader, splits[0], 1234) == elements[1234:1500]
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "job").iterdir()}
    assert len(files) == 2
    source.create_enumerator(1).discover()
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "job").iterdir()}


def test_missing_stored_elements_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(collection_module, "INLINE_LIMIT", 1)
    source = CollectionSource([1])
    source.attach_storage(str(tmp_path))
    (split,) = source.create_enumerator(1).discover()
    next(tmp_path.iterdir()).unlink()
    with pytest.raises(RecordError, match="no longer exist"):
        read_split(source.create_reader(), split)


def test_a_collection_that_came_from_another_process_cannot_be_planned():
    source = pickle.loads(pickle.dumps(CollectionSource([1])))
    with pytest.raises(RecordError, match="are missing"):
        source.create_enumerator(1)
    assert source.create_enumerator(1, "planned").discover() == []


def test_an_element_that_cannot_be_pickled_is_refused():
    with pytest.raises(RecordError, match="pickled"):
        CollectionSource([(n for n in [])]).create_enumerator(1)


@pytest.mark.parametrize("elements", ["text", b"bytes", 3, None])
def test_a_collection_source_needs_a_collection(elements):
    with pytest.raises(ArgumentTypeError):
        CollectionSource(elements)


def test_timestamps_must_be_as_many_as_elements():
    with pytest.raises(ArgumentError):
        CollectionSource([1, 2], timestamps=[1])


class Clock:
    """A clock that advances only on sleep, or explicitly."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += max(seconds, 1e-4)


def generator(source, clock, parallelism=1):
    """The splits (planned at the clock's time) and a reader."""
    enumerator = source.create_enumerator(parallelism)
    enumerator.clock = clock
    splits = enumerator.discover()
    splits = [type(s)(s.split_id, s.payload, (s.start[0], clock.now)) for s in splits]
    reader = source.create_reader()
    reader.clock, reader.sleep = clock, clock.sleep
    return enumerator, splits, reader


def with_random(index, generator):
    return index, generator.randrange(10**9), generator.random()


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 5), st.integers(1, 70))
def test_a_generator_gives_the_same_records_at_any_parallelism_and_after_any_restart(
    count, parallelism, batch_size
):
    source = DataGeneratorSource(with_random, count=count, seed=7)
    once = [record for part in read_all(source, 1, through_pickles=False) for record in part]
    assert [record[0] for record in once] == list(range(count))
    assert sorted(read_resuming(source, parallelism, batch_size)) == once


@given(st.integers(0, 300), st.integers(1, 5), st.integers(1, 70))
def test_subtasks_of_a_generator_take_turns(count, parallelism, batch_size):
    source = DataGeneratorSource(lambda index: index, count=count)
    parts = read_all(source, parallelism, batch_size, through_pickles=False)
    assert parts == [list(range(count))[share::parallelism] for share in range(parallelism)]


def test_another_seed_gives_other_records():
    one, two = (read_all(DataGeneratorSource(with_random, 10, seed=seed)) for seed in (1, 2))
    assert one != two


def test_an_object_with_a_map_method_is_a_generator_function():
    class Squares:
        opened = False

        def open(self, context):
            self.opened = True

        def map(self, index):
            return index * index, self.opened

    source = DataGeneratorSource(Squares(), count=3)
    (split,) = source.create_enumerator(1).discover()
    reader = source.create_reader()
    reader.open(None)
    assert read_split(reader, split) == [(0, True), (1, True), (4, True)]


def test_timestamps_are_computed_and_disordered_within_the_bound():
    source = DataGeneratorSource(
        lambda index: index * 10,
        count=500,
        timestamp=lambda value: value,
        out_of_order_ms=50,
        seed=3,
    )
    (split,) = source.create_enumerator(1).discover()
    (batch,) = source.create_reader().read(split, split.start, ReadLimits())
    delays = [
        record - timestamp
        for record, timestamp in zip(batch.records, batch.timestamps, strict=True)
    ]
    assert min(delays) >= 0
    assert max(delays) <= 50
    assert len(set(delays)) > 30
    assert batch.timestamps != sorted(batch.timestamps)
    (again,) = source.create_reader().read(split, split.start, ReadLimits())
    assert again.timestamps == batch.timestamps


def test_unbounded_generator_emits_due_records_and_returns():
    clock = Clock()
    source = DataGeneratorSource(lambda index: index, rate_per_second=10)
    enumerator, (split,), reader = generator(source, clock)
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    position, found = split.start, []
    for step, expected in ((0.05, 0), (0.05, 1), (1.0, 10), (0.25, 2), (0.05, 1)):
        clock.now += step
        assert enumerator.has_data([position]) is (expected > 0)
        for batch in reader.read(split, position, ReadLimits(batch_size=4)):
            found.append(len(batch.records))
            position = batch.position
        assert sum(found) == expected
        found = []


def test_the_rate_holds_for_all_subtasks_together():
    clock = Clock()
    source = DataGeneratorSource(lambda index: index, rate_per_second=100)
    _, splits, reader = generator(source, clock, parallelism=4)
    clock.now += 2
    counts = [len(read_split(reader, split)) for split in splits]
    assert counts == [50, 50, 50, 50]


def test_the_rate_stays_when_the_parallelism_changes():
    clock = Clock()
    source = DataGeneratorSource(lambda index: index, rate_per_second=10)
    enumerator, splits, reader = generator(source, clock, parallelism=2)
    restored = source.create_enumerator(5, pickle.loads(pickle.dumps(enumerator.snapshot())))
    restored.clock = clock
    assert restored.discover() == []
    positions = [split.start for split in splits]
    clock.now += 0.19
    assert not restored.has_data(positions)
    clock.now += 0.02
    assert restored.has_data(positions)
    assert [read_split(reader, split) for split in splits] == [[0], [1]]


def test_a_pause_is_not_made_up_for():
    clock = Clock()
    source = DataGeneratorSource(lambda index: index, rate_per_second=10)
    _, (split,), reader = generator(source, clock)
    clock.now += 3600
    batches = list(reader.read(split, split.start, ReadLimits()))
    assert sum(len(batch.records) for batch in batches) == 50  # five seconds' worth
    clock.now += 1
    assert len(read_split(reader, split, batches[-1].position)) == 10


@pytest.mark.parametrize("count", [None, 1000], ids=["endless", "bounded"])
def test_a_clock_that_is_put_back_does_not_stop_the_generator(count):
    clock = Clock()
    source = DataGeneratorSource(lambda index: index, count=count, rate_per_second=10)
    enumerator, (split,), reader = generator(source, clock)
    clock.now += 1
    position = next(reader.read(split, split.start, ReadLimits())).position
    clock.now -= 3600
    assert enumerator.has_data([position])
    batch = next(reader.read(split, position, ReadLimits(deadline=clock.now + 1)))
    assert batch.records == [10]
    clock.now += 1
    (_, *rest) = next(reader.read(split, batch.position, ReadLimits())).records
    assert len(rest) == 9


def test_a_slow_rate_is_kept_although_it_is_slower_than_the_longest_pause():
    clock = Clock()
    source = DataGeneratorSource(lambda index: index, rate_per_second=0.1)
    _, (split,), reader = generator(source, clock)
    clock.now += 9
    assert read_split(reader, split) == []
    clock.now += 2
    assert read_split(reader, split) == [0]


def test_a_bounded_generator_waits_instead_of_ending_early():
    clock = Clock()
    source = DataGeneratorSource(
        lambda index: index, count=25, rate_limiter_strategy=RateLimiterStrategy.per_second(10)
    )
    _, (split,), reader = generator(source, clock)
    assert read_split(reader, split) == list(range(25))
    assert clock.now == pytest.approx(1002.5, abs=0.2)


def test_a_bounded_generator_offers_to_stop_at_the_deadline():
    clock = Clock()
    source = DataGeneratorSource(lambda index: index, count=25, rate_per_second=10)
    _, (split,), reader = generator(source, clock)
    batches = reader.read(split, split.start, ReadLimits(deadline=1000.05))
    first = next(batches)
    assert first.records == []
    assert clock.now == pytest.approx(1000.05)
    assert read_split(reader, split, first.position) == list(range(25))


@pytest.mark.parametrize(
    ("build", "error"),
    [
        pytest.param(lambda: DataGeneratorSource(3), ArgumentTypeError, id="no function"),
        pytest.param(
            lambda: DataGeneratorSource(str, count=-1), ArgumentError, id="negative count"
        ),
        pytest.param(lambda: DataGeneratorSource(str, count=1.5), ArgumentError, id="count 1.5"),
        pytest.param(
            lambda: DataGeneratorSource(str, rate_per_second=0), ArgumentError, id="rate 0"
        ),
        pytest.param(
            lambda: RateLimiterStrategy.per_second("1"), ArgumentTypeError, id="rate text"
        ),
        pytest.param(
            lambda: DataGeneratorSource(str, None, RateLimiterStrategy.no_op(), rate_per_second=1),
            ArgumentError,
            id="two rates",
        ),
        pytest.param(
            lambda: DataGeneratorSource(str, out_of_order_ms=5), ArgumentError, id="no time"
        ),
    ],
)
def test_a_generator_refuses_bad_arguments(build, error):
    with pytest.raises(error):
        build()


def test_stored_elements_that_were_altered_are_not_unpickled(tmp_path):
    source = CollectionSource([random.Random(n).randbytes(1000) for n in range(3000)])
    source.attach_storage(str(tmp_path / "job"))
    (split,) = source.create_enumerator(1).discover()
    path = Path(split.payload.file)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordError, match="do not match their checksum"):
        read_split(source.create_reader(), split)
