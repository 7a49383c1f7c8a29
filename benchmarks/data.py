"""Bids as CSV files: the same rows for the same arguments, on every machine."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

CHUNK = 1_000_000
START_MS = 1_700_000_000_000
JITTER_MS = 2_000
CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])


@dataclass(frozen=True)
class DataSet:
    """`records` bids on `auctions` auctions, one bid per millisecond of event time, up to 2 s out of order.

    There are as many files as readers, and each spans the whole time: whichever reader takes which file,
    no bid is late, so that every engine must find the same windows.
    """

    records: int
    auctions: int
    files: int = 2

    @property
    def name(self) -> str:
        return f"bids-{self.records}-{self.auctions}-{self.files}"

    def write(self, root: Path) -> Path:
        """Generate the files below `root`, unless they are there."""
        home = root / self.name
        marker = home.with_suffix(".json")
        if marker.exists():
            return home
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        sinks = [(home / f"part-{i}.csv").open("wb") for i in range(self.files)]
        options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
        for start in range(0, self.records, CHUNK):
            table = self._chunk(start, min(CHUNK, self.records - start))
            for i, sink in enumerate(sinks):
                rows = pa.array(np.arange(i, table.num_rows, self.files))
                pa.csv.write_csv(table.take(rows), sink, options)
        for sink in sinks:
            sink.close()
        marker.write_text(json.dumps(asdict(self)))
        return home

    def _chunk(self, start: int, n: int) -> pa.Table:
        # One seed per chunk: a data set is a prefix of every larger one with the same auctions.
        random = np.random.default_rng((7, self.auctions, start))
        return pa.table(
            {
                "auction": random.integers(1000, 1000 + self.auctions, CHUNK)[:n],
                "bidder": random.integers(0, 100_000, CHUNK)[:n],
                "price": random.integers(1, 1_000_000, CHUNK)[:n],
                "channel": pa.array(CHANNELS[random.integers(0, 4, CHUNK)[:n]]),
                "ts": START_MS
                + np.arange(start, start + n)
                + random.integers(-JITTER_MS, JITTER_MS, CHUNK)[:n],
            }
        )
