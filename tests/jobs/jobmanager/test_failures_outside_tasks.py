"""What fails on the driver, outside of any task, follows the restart strategy too."""

from __future__ import annotations

import pytest

from penstock.common import RestartStrategies, WatermarkStrategy
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster


class Flaky(Source):
    """Its enumerator fails a number of times before it finds its only split."""

    failures_left = 0

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return FlakyEnumerator()

    def create_reader(self):
        return OneRecord()


class FlakyEnumerator(SplitEnumerator):
    found = False

    def discover(self):
        if Flaky.failures_left > 0:
            Flaky.failures_left -= 1
            raise OSError("the directory is not there just now")
        if not self.found:
            self.found = True
            yield SourceSplit("only", start=0)

    def no_more_splits(self):
        return self.found


class OneRecord(SourceReader):
    def read(self, split, position, limits):
        if position == 0:
            yield SourceBatch(["record"], position=1)


def run(failures, restarts):
    Flaky.failures_left = failures
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(restarts, 0))
    stream = env.from_source(Flaky(), WatermarkStrategy.no_watermarks(), "flaky")
    with MiniCluster(), stream.execute_and_collect() as found:
        return list(found)


def test_a_source_that_finds_its_splits_later_restarts_the_job():
    assert run(failures=2, restarts=2) == ["record"]


def test_a_source_that_never_finds_its_splits_fails_the_job_with_the_reason():
    with pytest.raises(JobExecutionError, match="the directory is not there just now") as failure:
        run(failures=5, restarts=2)
    assert isinstance(failure.value.__cause__, OSError)
