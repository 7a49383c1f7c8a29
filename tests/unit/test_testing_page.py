"""docs/how-to/testing.md: its programs run, and the harness takes streams as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.common import Row, Types
from penstock.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from penstock.errors import ArgumentError, RecordError
from penstock.testing import OperatorHarness

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"
NAMED = Types.ROW_NAMED(["n"], [Types.INT()])


@pytest.fixture
def stream():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([1], Types.INT())


def test_methods_that_the_page_names_exist():
    tables = [
        line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")
    ]
    named = re.findall(r"`(\w+)", " ".join(tables))
    assert "process_element" in named
    members = {*dir(OperatorHarness), "metrics"}
    assert [name for name in named if name not in members] == []


def test_the_harness_checks_declared_types(stream):
    harness = OperatorHarness(stream.map(Row, NAMED))
    harness.process_element(1)
    assert harness.values() == [Row(n=1)]
    with pytest.raises(RecordError, match="in field 'n'"):
        harness.process_element("x")


def test_the_harness_checks_types_of_side_outputs(stream):
    tag = OutputTag("side", NAMED)

    class Aside(ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, Row(value)

    processed = stream.process(Aside())
    processed.get_side_output(tag)
    harness = OperatorHarness(processed)
    harness.process_element(1)
    assert harness.side_output(tag) == [(Row(n=1), None)]


def test_a_stream_that_ends_with_no_operator_is_refused(stream):
    with pytest.raises(ArgumentError, match="does not end with an operator"):
        OperatorHarness(stream.key_by(lambda n: n))
