"""The connectors that need no server, put through the kit that users' connectors are put through."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import pytest

from penstock.common import Duration
from penstock.common.serialization import Encoder
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.datagen.source import DataGeneratorSource
from penstock.connectors.function.sink import FunctionSink
from penstock.connectors.number_sequence.source import NumberSequenceSource
from penstock.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from penstock.testing import (
    Guarantee,
    SinkConformance,
    SinkSetup,
    SourceConformance,
    SourceSetup,
)
from tests.builders.conformance import in_mode
from tests.builders.guide import guide_package
from tests.builders.modes import EPOCHS, PIPELINED


class Collection(SourceSetup):
    in_process = True  # the elements are planned where the collection is

    def __init__(self):
        self.elements = []

    def add(self, records):
        self.elements += records

    def create(self):
        return CollectionSource(self.elements, splits=3)

    def wrong_arguments(self):
        return [
            lambda: CollectionSource("text"),
            lambda: CollectionSource([1], splits=0),
            lambda: CollectionSource([1], timestamps=[]),
        ]


class TestCollection(SourceConformance):
    rules = in_mode(EPOCHS, SourceConformance.rules)

    @pytest.fixture
    def connector(self):
        return Collection()


class Numbers(SourceSetup):
    may_be_empty = False

    def __init__(self):
        self.count = 0

    def record(self, number):
        return number

    def big_record(self):
        return None

    def add(self, records):
        self.count += len(records)

    def create(self):
        return NumberSequenceSource(0, self.count - 1)


class TestNumberSequence(SourceConformance):
    rules = in_mode(PIPELINED, SourceConformance.rules)

    @pytest.fixture
    def connector(self):
        return Numbers()


class Generator(Numbers):
    may_be_empty = True

    def record(self, number):
        return f"generated {number}"

    def create(self):
        return DataGeneratorSource(lambda index: f"generated {index}", count=self.count)

    def wrong_arguments(self):
        return [
            lambda: DataGeneratorSource(1),
            lambda: DataGeneratorSource(str, count=-1),
            lambda: DataGeneratorSource(str, out_of_order_ms=5),
        ]


class TestDataGenerator(SourceConformance):
    rules = in_mode(EPOCHS, SourceConformance.rules)

    @pytest.fixture
    def connector(self):
        return Generator()


class Files(SourceSetup):
    """Lines of text files; each call of `add` makes two of them, under their names at once."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.directory.mkdir()
        self.names = itertools.count()

    def add(self, records):
        for part in (records[0::2], records[1::2]):
            hidden = self.directory / f".{next(self.names)}"
            hidden.write_text("".join(f"{line}\n" for line in part))
            hidden.rename(self.directory / hidden.name[1:])

    def builder(self):
        return FileSource.for_record_stream_format(
            StreamFormat.text_line_format(), str(self.directory)
        )

    def create(self):
        return self.builder().build()

    def wrong_arguments(self):
        return [
            lambda: FileSource.for_record_stream_format(StreamFormat.text_line_format()),
            lambda: self.builder().set_split_size(0),
        ]


class TestFiles(SourceConformance):
    rules = in_mode(EPOCHS, SourceConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return Files(tmp_path / "input")


class WatchedFiles(Files):
    bounded = False
    appends = True

    def create(self):
        return self.builder().monitor_continuously(Duration.of_millis(20)).build()


class TestWatchedFiles(SourceConformance):
    rules = in_mode(PIPELINED, SourceConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return WatchedFiles(tmp_path / "input")


class GuideSource(Files):
    def create(self):
        from lines.source import LineSource

        return LineSource(self.directory)

    def wrong_arguments(self):
        return []


class TestSourceOfTheGuide(SourceConformance):
    rules = in_mode(PIPELINED, SourceConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        with guide_package():
            yield GuideSource(tmp_path / "input")


class PartFiles(SinkSetup):
    def __init__(self, directory: Path):
        self.directory = directory

    def create(self):
        builder = FileSink.for_row_format(str(self.directory), Encoder.simple_string_encoder())
        return builder.with_rolling_policy(self.policy()).build()

    def policy(self):
        return RollingPolicy.on_checkpoint_rolling_policy()

    def _files(self):
        return [path for path in self.directory.rglob("*") if path.is_file()]

    def shown(self):
        parts = [path for path in self._files() if not path.name.startswith(".")]
        return [line for path in parts for line in path.read_text().splitlines()]

    def left_over(self):
        return [path.name for path in self._files() if path.name.startswith(".")]


class RollingFiles(PartFiles):
    """Files that wait until they are full: what is pending goes from commit to commit."""

    def policy(self):
        return RollingPolicy.default_rolling_policy(
            part_size=300, rollover_interval=60_000, inactivity_interval=60_000
        )


class TestFileSinkThatRollsAtEachCheckpoint(SinkConformance):
    rules = in_mode(EPOCHS, SinkConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return PartFiles(tmp_path / "out")


class TestFileSinkThatRollsWhenFilesAreFull(SinkConformance):
    rules = in_mode(PIPELINED, SinkConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return RollingFiles(tmp_path / "out")


class GuideSink(PartFiles):
    def create(self):
        from lines.sink import LineSink

        return LineSink(self.directory)

    def left_over(self):
        return []


class TestSinkOfTheGuide(SinkConformance):
    rules = in_mode(EPOCHS, SinkConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        with guide_package():
            yield GuideSink(tmp_path / "out")


class Append:
    """A function with an effect: a line at the end of a file, for each caller."""

    def __init__(self, file):
        self.file = str(file)

    def invoke(self, value, context):
        with open(self.file, "ab") as stream:
            stream.write(pickle.dumps(value))


class Function(SinkSetup):
    guarantee = Guarantee.AT_LEAST_ONCE

    def __init__(self, file: Path):
        self.file = file

    def create(self):
        return FunctionSink(Append(self.file))

    def shown(self):
        found = []
        if self.file.exists():
            with self.file.open("rb") as stream:
                while stream.peek(1):
                    found.append(pickle.load(stream))
        return found

    def wrong_arguments(self):
        return [lambda: FunctionSink(5)]


class TestFunctionSink(SinkConformance):
    rules = in_mode(PIPELINED, SinkConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return Function(tmp_path / "called")
