"""Avro files as the input of a job."""

from __future__ import annotations

from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.formats.avro import (
    AvroInputFormat,
)
from penstock.testing import MiniCluster
from tests.builders.avro_files import PAIR, pairs, write_file


def test_an_input_format_is_a_stream(tmp_path):
    write_file(tmp_path / "f.avro", pairs(5))
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.create_input(AvroInputFormat(str(tmp_path / "f.avro"), PAIR))
    with MiniCluster():
        found = list(stream.map(lambda record: record["s"]).execute_and_collect())
    assert found == [f"text {n}" for n in range(5)]
