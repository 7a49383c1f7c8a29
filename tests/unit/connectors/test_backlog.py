"""What enumerators tell about data that waits."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.source import ReadLimits, SplitEnumerator, SplitProgress
from penstock.connectors.datagen.source import DataGeneratorSource
from penstock.connectors.filesystem.source import FileSource
from penstock.connectors.hybrid.source import HybridSource
from penstock.connectors.number_sequence.source import NumberSequenceSource
from penstock.connectors.stream_cache.blocks import StreamCacheSource
from penstock.formats.base.file_formats import FilePart, StreamFormat
from penstock.formats.columnar.files import ParquetColumnarRowInputFormat
from penstock.pickling.portable_pickles import dumps


class Reading:
    """A source that is read batch by batch; like the driver, it forgets finished splits."""

    def __init__(self, source, parallelism=1):
        self.source = source
        self.enumerator = source.create_enumerator(parallelism)
        self.open = []
        self.discover()

    def discover(self):
        self.enumerator.observe([each.split for each in self.open])
        self.open += [SplitProgress(each, each.start) for each in self.enumerator.discover()]

    def backlog(self):
        return self.enumerator.backlog(self.open)

    def restored(self, parallelism=1):
        """The backlog as it is after a restart."""
        remembered = pickle.loads(pickle.dumps(self.enumerator.snapshot()))
        enumerator = self.source.create_enumerator(parallelism, remembered)
        return enumerator.backlog(pickle.loads(pickle.dumps(self.open)))

    def read(self, batch_size):
        """Read one batch of the first open split; return how many records it had, None if there is no split."""
        if not self.open:
            return None
        progress = self.open[0]
        batches = self.source.create_reader().read(
            progress.split, progress.position, ReadLimits(batch_size=batch_size)
        )
        batch = next(batches, None)
        if batch is None:
            del self.open[0]
            return 0
        self.open[0] = dataclasses.replace(progress, position=batch.position)
        return len(batch.records)


def lines(*paths, **settings):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths)
    if "split_size" in settings:
        builder = builder.set_split_size(settings["split_size"])
    return builder.build()


COUNTED = [
    pytest.param(lambda: NumberSequenceSource(5, 304), id="numbers"),
    pytest.param(lambda: CollectionSource(range(300)), id="collection"),
    pytest.param(lambda: CollectionSource(range(300), splits=7), id="collection in parts"),
    pytest.param(lambda: DataGeneratorSource(str, count=300), id="generator"),
    pytest.param(
        lambda: DataGeneratorSource(lambda i, r: r.random(), count=300), id="random generator"
    ),
    pytest.param(
        lambda: HybridSource.builder(NumberSequenceSource(1, 300)).build(), id="hybrid of one"
    ),
]


@pytest.mark.parametrize("build", COUNTED)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 37, 1000])
def test_records_that_were_read_do_not_wait_any_more(build, parallelism, batch_size):
    reading = Reading(build(), parallelism)
    left = 300
    while True:
        assert reading.backlog() == left
        assert reading.restored(parallelism + 1) == left
        read = reading.read(batch_size)
        if read is None:
            break
        left -= read
    assert left == 0
    assert reading.enumerator.backlog_unit == "records"


def test_backlog_is_unknown_by_default():
    class Plain(SplitEnumerator):
        def discover(self):
            return []

        def no_more_splits(self):
            return False

    assert Plain().backlog([]) is None


# Generators with a rate


def rated(count=None, parallelism=1):
    reading = Reading(DataGeneratorSource(str, count=count, rate_per_second=10), parallelism)
    reading.now = 1_000.0
    reading.enumerator.clock = lambda: reading.now
    reading.open = [
        dataclasses.replace(each, position=(each.position[0], 1_000.0)) for each in reading.open
    ]
    return reading


@pytest.mark.parametrize(
    ("count", "parallelism", "seconds", "waiting"),
    [
        pytest.param(None, 1, 0.0, 0, id="nothing yet"),
        pytest.param(None, 1, 2.0, 20, id="two seconds"),
        pytest.param(None, 2, 2.0, 20, id="two splits"),
        pytest.param(None, 1, 3600, 50, id="a pause is not made up for"),
        pytest.param(None, 1, -5.0, 1, id="a clock that was put back begins again"),
        pytest.param(15, 1, 1.0, 10, id="bounded"),
        pytest.param(15, 1, 3.0, 15, id="bounded, all due"),
        pytest.param(15, 2, 3.0, 15, id="bounded, two splits"),
    ],
)
def test_backlog_is_the_number_of_records_due_by_the_rate(count, parallelism, seconds, waiting):
    reading = rated(count, parallelism)
    reading.now += seconds
    assert reading.backlog() == waiting


def test_the_rate_of_a_rescaled_generator_stays():
    reading = rated(parallelism=2)
    enumerator = reading.source.create_enumerator(5, reading.enumerator.snapshot())
    enumerator.clock = lambda: 1_002.0
    assert enumerator.backlog(reading.open) == 20


def test_an_endless_generator_without_a_rate_cannot_tell():
    assert Reading(DataGeneratorSource(str)).backlog() is None


@given(st.integers(0, 500), st.integers(1, 5), st.booleans(), st.integers(1, 90))
def test_generator_backlog_counts_the_rest_of_every_split(count, parallelism, random, batch_size):
    function = (lambda i, r: i) if random else (lambda i: i)
    reading = Reading(DataGeneratorSource(function, count=count), parallelism)
    left = count
    while (read := reading.read(batch_size)) is not None:
        left -= read
        assert reading.backlog() == left


# Files


def write(path, count, make=str):
    path.write_text("".join(f"{make(n)}\n" for n in range(count)))
    return path


@pytest.mark.parametrize("split_size", [1 << 20, 100])
def test_bytes_of_files_that_were_read_do_not_wait_any_more(tmp_path, split_size):
    sizes = [write(tmp_path / f"{name}.txt", 100, "{:07d}".format).stat().st_size for name in "abc"]
    reading = Reading(lines(tmp_path, split_size=split_size))
    assert reading.enumerator.backlog_unit == "bytes"
    assert reading.backlog() == reading.restored() == sum(sizes) == 2400
    before = reading.backlog()
    while (read := reading.read(10)) is not None:
        # a line of 8 bytes belongs to the part that it begins in
        assert abs(before - reading.backlog() - 8 * read) < 8
        before = reading.backlog()
    assert reading.backlog() == 0


def test_new_files_of_a_watched_directory_wait(tmp_path):
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path)
        .monitor_continuously(1)
        .build()
    )
    reading = Reading(source)
    reading.enumerator.clock = lambda: 4e9
    assert reading.backlog() == 0
    write(tmp_path / "a.txt", 10)
    assert reading.backlog() == 0  # not requested yet
    reading.discover()
    assert reading.backlog() == 20


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_compressed_file_waits_in_full_until_it_is_read(tmp_path, suffix, pack):
    packed = pack(b"abcdefgh\n" * 1000)
    (tmp_path / f"a{suffix}").write_bytes(packed)
    reading = Reading(lines(tmp_path))
    assert reading.backlog() == len(packed)
    reading.read(10)
    assert reading.backlog() == len(packed)
    while reading.read(10_000) is not None:
        pass
    assert reading.backlog() == 0


def test_row_groups_of_a_parquet_file_share_its_bytes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": list(range(4000))}), path, row_group_size=1000)
    size = path.stat().st_size
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(), path)
    reading = Reading(source.set_split_size(size // 4).build())
    assert len(reading.open) > 1
    assert size - len(reading.open) < reading.backlog() <= size
    while reading.read(10_000) is not None:
        pass
    assert reading.backlog() == 0
    whole = Reading(source.build())
    assert whole.backlog() == size


def test_splits_of_older_checkpoints_have_no_size(tmp_path):
    path = str(write(tmp_path / "a.txt", 10))
    source = lines(path)
    enumerator = source.create_enumerator(1)
    (split,) = enumerator.discover()
    old = FilePart(path, path, 0, None)
    object.__delattr__(old, "size")
    progress = SplitProgress(dataclasses.replace(split, payload=old), 4)
    assert enumerator.backlog([progress]) is None
    assert enumerator.backlog([SplitProgress(split, 4)]) == 16


def test_a_cached_stream_counts_bytes(tmp_path):
    blocks = [dumps((list(range(50)), None)) for _ in range(4)]
    (tmp_path / "0-0").write_bytes(b"".join(blocks))
    (tmp_path / ".hidden").write_bytes(b"xxx")
    reading = Reading(StreamCacheSource(str(tmp_path)))
    left = sum(map(len, blocks))
    assert reading.backlog() == reading.restored() == left
    assert reading.read(1000) == 50
    assert reading.backlog() == left - len(blocks[0])


# Several sources


def test_hybrid_source_reports_the_backlog_of_its_current_source(tmp_path):
    write(tmp_path / "a.txt", 10)
    source = (
        HybridSource.builder(lines(tmp_path))
        .add_source(NumberSequenceSource(1, 30))
        .add_source(DataGeneratorSource(str))
        .build()
    )
    reading = Reading(source)
    found = []
    for _ in range(20):
        found.append((reading.backlog(), reading.enumerator.backlog_unit))
        reading.read(10)
        reading.discover()
    assert found[:2] == [(20, "bytes"), (0, "bytes")]
    assert found[2:5] == [(30, "records"), (20, "records"), (10, "records")]
    assert found[-1] == (None, "records")
