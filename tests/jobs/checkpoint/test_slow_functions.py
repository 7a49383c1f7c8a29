"""A slow function behind small records: little is under way to it, so that an aligned savepoint waits for few records."""

from __future__ import annotations

import hashlib

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.base.source import SourceBatch, SourceReader, SourceSplit
from penstock.datastream import MapFunction
from penstock.testing import MiniCluster
from tests.builders.endless import EndlessSource
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

MEASURED = 4000  # records after which the function's speed is known
# A thousand records a second and subtask are possible at most: twice that, and what is read at once, is far from what buffers of 64 KB hold.
BOUND = 8000


class Numbers(EndlessSource):
    """Counts as fast as its numbers are taken."""

    def splits(self):
        return [SourceSplit(f"s{n}", n, start=0) for n in range(2)]

    def create_reader(self):
        return _Reader()


class _Reader(SourceReader):
    def read(self, split, position, limits):
        while True:
            end = position + limits.batch_size
            Slow.sent += end - position
            yield SourceBatch(list(range(position, end)), end, None)
            position = end


class Slow(MapFunction):
    """Takes about a millisecond for each record."""

    sent = 0
    processed = 0

    def map(self, value):
        hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 2500)
        Slow.processed += 1
        return value


@pytest.mark.parametrize("exchange", ["rebalance", "key_by"])
def test_a_savepoint_waits_for_few_records(exchange, tmp_path):
    Slow.sent = Slow.processed = 0
    env = configured({"parallelism.default": "2"})
    numbers = env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers")
    spread = numbers.rebalance() if exchange == "rebalance" else numbers.key_by(lambda n: n % 64)
    spread.map(Slow()).print()
    with MiniCluster(mode="pipelined"):
        client = env.execute_async("slow")
        wait_until(lambda: Slow.processed >= MEASURED)
        assert Slow.sent - Slow.processed <= BOUND
        before = Slow.processed
        client.trigger_savepoint(str(tmp_path / "savepoints")).result()
        assert Slow.processed - before <= 2 * BOUND
        client.cancel().result()
