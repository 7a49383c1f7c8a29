"""on_error in whole programs."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
)
from penstock.errors import (
    JobExecutionError,
)
from penstock.testing import MiniCluster
from tests.builders.scripted import collect, environment, read

DEAD = OutputTag("dead")


class Half(ProcessFunction):
    def process_element(self, value, ctx):
        yield 10 // (value % 5)


class KeyedHalf(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield 10 // (value % 5)


PROGRAMS = [
    pytest.param(lambda s: s.map(lambda v: 10 // (v % 5)), id="map"),
    pytest.param(lambda s: s.map(lambda v: 10 // (v % 5), Types.INT()), id="map, typed"),
    pytest.param(lambda s: s.flat_map(lambda v: [10 // (v % 5)]), id="flat_map"),
    pytest.param(lambda s: s.process(Half()), id="process"),
    pytest.param(lambda s: s.key_by(lambda v: v).process(KeyedHalf()), id="keyed process"),
    pytest.param(lambda s: s.key_by(lambda v: v).map(lambda v: 10 // (v % 5)), id="keyed map"),
]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("build", PROGRAMS)
def test_a_program_goes_on(build, parallelism):
    env = environment(parallelism)
    result = (
        build(read(env, [list(range(10))], [list(range(10, 20))])).name("divide").on_error(DEAD)
    )
    letters = result.get_side_output(DEAD).map(lambda letter: (letter.operator, letter.record))
    with MiniCluster():
        found = collect(result.map(lambda v: ("good", v)).union(letters))
    assert sorted(found) == sorted(
        ("good", 10 // (v % 5)) if v % 5 else ("divide", v) for v in range(20)
    )


def test_filters_have_it_too():
    env = environment()
    result = read(env, [[0, 1, 2]]).filter(lambda v: 1 // v).on_error(DEAD)
    with MiniCluster():
        found = collect(result.union(result.get_side_output(DEAD).map(lambda letter: -1)))
    assert sorted(found) == [-1, 1]


def test_an_error_behind_the_operator_still_fails_the_job():
    env = environment()
    result = read(env, [[1]]).map(lambda v: v).on_error(DEAD).map(lambda v: 1 // 0)
    with MiniCluster(), pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        collect(result)
