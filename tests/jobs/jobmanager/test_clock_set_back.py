"""A clock that is put back between any two of its readings holds no epoch up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.testing import MiniCluster
from penstock.time import clock
from tests.builders.endless import EndlessSource
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

HOUR_S = 3600


class Waiting(EndlessSource):
    """Has one split, whose reader waits for records until its time is up."""

    def create_reader(self) -> SourceReader:
        return WaitingReader()


class WaitingReader(SourceReader):
    def read(self, split: SourceSplit, position: Any, limits: ReadLimits) -> Iterator[SourceBatch]:
        while not limits.expired:
            time.sleep(0.001)
        while True:  # it is up to the caller to stop, too
            yield SourceBatch([], 1)
            time.sleep(0.001)


@pytest.fixture
def set_back_at() -> Iterator[Any]:
    """Puts the clock back at one of the readings to come."""
    before = clock.set_reader(None)
    clock.set_reader(before)

    def arrange(reading: int) -> None:
        readings = iter(range(reading))

        def read() -> float:
            return before() if next(readings, None) is not None else before() - HOUR_S

        clock.set_reader(read)

    yield arrange
    clock.set_reader(before)


@pytest.mark.parametrize("reading", range(14))
def test_a_clock_that_is_put_back_at_any_reading_holds_no_epoch_up(
    reading: int, set_back_at: Any
) -> None:
    env = configured({"execution.checkpointing.interval": "10 ms"}, 1)
    env.from_source(Waiting(), WatermarkStrategy.no_watermarks(), "waiting").print()
    with MiniCluster():
        job = env.execute_async("waiting")
        master = job._controller.master

        def wait_for(epochs: int) -> None:
            last = (master.manifest.checkpoint_id if master.manifest else 0) + epochs
            wait_until(
                lambda: master.manifest is not None and master.manifest.checkpoint_id >= last
            )

        try:
            wait_for(1)
            set_back_at(reading)
            wait_for(4)
        finally:
            set_back_at(0)
            job.cancel().result()
