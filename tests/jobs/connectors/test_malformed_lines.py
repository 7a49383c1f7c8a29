"""Malformed lines of files: they go to a side output with their location, or the job fails and names it."""

from __future__ import annotations

import json

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import DeserializationSchema
from penstock.connectors.base.source import ReadLimits
from penstock.connectors.filesystem.source import FileSource
from penstock.datastream import OutputTag
from penstock.errors import JobExecutionError
from penstock.formats.base.file_formats import StreamFormat
from penstock.formats.csv.files import CsvReaderFormat
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.json.rows import JsonLinesFormat
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.modes import MODES, runs_in
from tests.builders.scripted import collect

DEAD = OutputTag("dead")
COUNT = 3000


class Numbers(DeserializationSchema):
    def deserialize(self, message):
        return json.loads(message)["n"]


def csv_format():
    return CsvReaderFormat(
        CsvSchema.builder().add_number_column("n").add_string_column("s").build()
    )


FORMATS = {
    "text": (StreamFormat.text_line_format(), lambda n: b"%d" % n, b"\xff%d", int),
    "csv": (csv_format(), lambda n: b"%d,a" % n, b"x%d,a", lambda row: row[0]),
    "quoted csv": (csv_format(), lambda n: b'%d,"a\nb"' % n, b'%d,"a\nb",c', lambda row: row[0]),
    "broken csv": (csv_format(), lambda n: b'%d,"a"' % n, b'"%d"x,a', lambda row: row[0]),
    "json": (JsonLinesFormat(), lambda n: b'{"n": %d}' % n, b'{"n": %d', lambda value: value["n"]),
    "json rows": (
        JsonLinesFormat(Types.ROW_NAMED(["n"], [Types.INT()])),
        lambda n: b'{"n": %d}' % n,
        b'{"n": "x%d"}',
        lambda row: row[0],
    ),
    "schema": (
        StreamFormat.of_deserialization_schema(Numbers()),
        lambda n: b'{"n": %d}' % n,
        b'{"m": %d}',
        int,
    ),
}
BAD = {0, 1, 17, 999, 1000, *range(1500, 1600), *range(COUNT - 250, COUNT)}


def write(directory, good, bad):
    """Two files; what is malformed in each, by its offset."""
    expected = []
    for name in "ab":
        data = b""
        for n in range(COUNT):
            line = bad % n if n in BAD else good(n)
            if n in BAD:
                expected.append((str(directory / name), len(data), line))
            data += line + b"\n"
        (directory / name).write_bytes(data)
    return expected


def stream_of(mode, file_format, directory, **options):
    env = configured({"execution.checkpointing.interval": "10 ms", **runs_in(mode), **options}, 2)
    source = FileSource.for_record_stream_format(file_format, str(directory)).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "files")


class FailsOnce:
    """Fails once, when a record is seen: what was found after the last checkpoint is found again."""

    def __init__(self, marker, number):
        self.marker = marker
        self.number = number

    def __call__(self, record):
        if record == self.number and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("once")
        return record


@pytest.mark.parametrize(("file_format", "good", "bad", "number"), FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_malformed_lines_go_to_the_side_output_once_also_after_a_failure(
    tmp_path, mode, file_format, good, bad, number
):
    directory = tmp_path / "in"
    directory.mkdir()
    expected = write(directory, good, bad)
    stream = stream_of(mode, file_format, directory, **restarts(3)).on_error(DEAD)
    letters = stream.get_side_output(DEAD).map(
        lambda letter: (letter.origin["file"], letter.origin["offset"], letter.record)
    )
    fails = FailsOnce(tmp_path / "failed", 2000)
    records = stream.map(lambda record: number(record)).map(lambda record: fails(record))
    with MiniCluster():
        found = collect(records.map(lambda n: ("good", n, b"")).union(letters))
    assert fails.marker.exists()
    assert sorted(found) == sorted(
        [("good", n, b"") for n in range(COUNT) if n not in BAD] * 2 + expected
    )


@pytest.mark.parametrize(("file_format", "good", "bad", "number"), FORMATS.values(), ids=FORMATS)
def test_reader_resumed_after_any_batch_finds_malformed_lines_once(
    tmp_path, file_format, good, bad, number
):
    expected = write(tmp_path, good, bad)
    source = FileSource.for_record_stream_format(file_format, str(tmp_path)).build()
    found, records = [], []
    for split in source.create_enumerator(1).discover():
        position = split.start
        while True:
            reading = source.create_reader().read(split, position, ReadLimits(batch_size=100))
            batch = next(reading, None)
            if batch is None:
                break
            assert batch.position != position
            position = batch.position
            records += map(number, batch.records)
            found += [(e.origin["file"], e.origin["offset"], e.data) for e in batch.malformed]
    assert found == expected
    assert records == [n for n in range(COUNT) if n not in BAD] * 2


@pytest.mark.parametrize(("file_format", "good", "bad", "number"), FORMATS.values(), ids=FORMATS)
def test_without_a_side_output_a_malformed_line_fails_the_job_and_is_named(
    tmp_path, file_format, good, bad, number
):
    (tmp_path / "a").write_bytes(good(1) + b"\n" + bad % 2 + b"\n" + good(3) + b"\n")
    stream = stream_of(MODES[0], file_format, tmp_path, **{"restart-strategy.type": "none"})
    with MiniCluster(), pytest.raises(JobExecutionError) as caught:
        collect(stream)
    text = str(caught.value)
    assert f"file {tmp_path}/a, offset {len(good(1)) + 1}" in text
    assert "on_error='skip'" in text
    assert "stream.on_error" in text
