"""What a program collects of its job."""

from __future__ import annotations

import pytest

from penstock.common import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_keyed_stream_is_collected_in_the_order_of_its_source(parallelism):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    words = [(letter, number) for number, letter in enumerate("bacabdecb")]
    keyed = env.from_collection(words).key_by(lambda word: word[0])
    with MiniCluster():
        rows = list(keyed.execute_and_collect())
    assert rows == [Row(f0=word[0], f1=word) for word in words]


def test_a_record_that_cannot_be_collected_is_named():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)  # nothing travels between tasks
    stream = env.from_collection([1, 2]).map(lambda n: (each for each in [n]) if n == 2 else n)
    with MiniCluster(), pytest.raises(JobExecutionError) as failed:
        list(stream.execute_and_collect())
    message, detail, hint, *_ = str(failed.value).splitlines()
    assert message == "cannot send a record to the collecting program"
    assert detail.startswith("detail: record <generator object")
    assert "TypeError: cannot pickle 'generator' object" in detail
    assert "a list instead of a generator" in hint
