"""How many rows a second of CPU time columnar operators take, one by one, in this process: Nexmark-like bids in batches of several sizes.

POLARS_MAX_THREADS=1 python benchmarks/columnar_operators.py [name ...]
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import datetime as dt
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.operator_specs.columnar.aggregates import (
    ColumnarLocalAggregateSpec,
    GroupAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.graph.operator_specs.columnar.stateless import CalcSpec, WatermarkSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.keys import ColumnsKey
from penstock.runtime.network.buffers import decode
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.types import (
    BigIntType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    TimestampType,
    VarCharType,
)
from penstock.testing.harness import OperatorHarness

ROWS = 500_000
TEXT = VarCharType(2**31 - 1)
TYPES: tuple[DataType, ...] = (
    BigIntType(),  # auction
    BigIntType(),  # bidder
    BigIntType(),  # price
    TEXT,  # channel
    TEXT,  # url
    TimestampType(3),  # dateTime
    TEXT,  # extra
)


def bids(rows: int = ROWS, seed: int = 1) -> pl.DataFrame:
    """Bids of which half go to a few hot auctions and half are made by a few bidders, 100 a millisecond."""
    rng = np.random.default_rng(seed)
    number = np.arange(rows)
    hot = rng.random(rows) < 0.5
    auction = np.where(hot, number // 5_000 * 100, number // 16 + rng.integers(0, 100, rows))
    bidder = np.where(rng.random(rows) < 0.5, number // 3_000, rng.integers(0, 200_000, rows))
    channels = np.array(["Google", "Facebook", "Baidu", "Apple", "channel-1", "channel-9134"])
    return pl.DataFrame(
        {
            "c0": auction,
            "c1": bidder,
            "c2": rng.integers(1, 10_000_000, rows),
            "c3": channels[rng.integers(0, len(channels), rows)],
            "c4": "https://www.nexmark.com/item.htm?query=1&channel_id="
            + pl.Series(rng.integers(0, 10_000, rows)).cast(pl.String),
            "c5": pl.Series(1_600_000_000_000 + number // 100).cast(pl.Datetime("ms")),
            "c6": "x" * 50,
        }
    )


def column(index: int) -> InputRef:
    """A column of a bid."""
    return InputRef(TYPES[index], index)


def number(value: int) -> Literal:
    """A constant."""
    return Literal(BigIntType(nullable=False), value)


def call(function: str, *operands: Rex) -> Call:
    """An expression."""
    kind = BooleanType() if function in {"=", ">"} else BigIntType()
    return Call(kind, function, operands)


def count(**more: Any) -> AggregateCall:
    """COUNT(*)."""
    return AggregateCall("COUNT", (), BigIntType(nullable=False), **more)


def aggregate(function: str, index: int, **more: Any) -> AggregateCall:
    """An aggregate of a column."""
    return AggregateCall(function, (column(index),), BigIntType(), **more)


HOP = WindowDefinition("HOP", 10_000, 2_000, time=5)
LOW = call(">", number(10_000), column(2))
SPECS: dict[str, OperatorSpec] = {
    "projection": CalcSpec(
        TYPES, projection=(column(0), column(1), call("*", column(2), number(3)), column(5))
    ),
    "filter": CalcSpec(
        TYPES,
        projection=(column(0), column(2)),
        condition=call("=", call("%", column(0), number(123)), number(0)),
    ),
    "watermark": WatermarkSpec(
        TYPES,
        5,
        Call(
            TYPES[5],
            "-",
            (column(5), Literal(DayTimeIntervalType(nullable=False), dt.timedelta(seconds=4))),
        ),
    ),
    "local count by bidder": ColumnarLocalAggregateSpec(
        TYPES, (1,), (count(), aggregate("SUM", 2))
    ),
    "count by bidder": GroupAggregateSpec(
        TYPES, (1,), (count(), aggregate("SUM", 2)), update_before=False
    ),
    "count by bidder, all changes": GroupAggregateSpec(TYPES, (1,), (count(), aggregate("SUM", 2))),
    "q17-like by auction": GroupAggregateSpec(
        TYPES,
        (0,),
        (
            count(),
            count(filter=LOW),
            aggregate("MIN", 2),
            aggregate("MAX", 2),
            aggregate("AVG", 2),
            aggregate("SUM", 2),
        ),
        update_before=False,
    ),
    "q16-like distinct by channel": GroupAggregateSpec(
        TYPES,
        (3,),
        (
            count(),
            aggregate("COUNT", 1, distinct=True),
            aggregate("COUNT", 1, distinct=True, filter=LOW),
            aggregate("COUNT", 0, distinct=True),
        ),
        update_before=False,
    ),
    "hop count by auction": WindowAggregateSpec(TYPES, (0,), (count(),), HOP),
    "local hop count by auction": ColumnarLocalAggregateSpec(TYPES, (0,), (count(),), window=HOP),
    "session count by bidder": WindowAggregateSpec(
        TYPES, (1,), (count(),), WindowDefinition("SESSION", gap=1_000, time=5)
    ),
}


class Nowhere:
    """Counts what is emitted."""

    rows = 0

    def emit(self, batch: Any) -> None:
        """Count rows."""
        self.rows += len(batch)

    def emit_watermark(self, watermark: int) -> None:
        """Do nothing."""

    emit_status = emit_watermark


def batches(size: int) -> Iterator[pl.DataFrame]:
    """All bids, in batches."""
    everything = bids()
    for at in range(0, ROWS, size):
        yield everything.slice(at, size)


def run_operator(spec: OperatorSpec, size: int) -> float:
    """Return rows a second of an operator, with a watermark after each batch where time matters."""
    harness = OperatorHarness(spec, output=Nowhere())
    timed = isinstance(spec, WindowAggregateSpec)
    parts = list(batches(size))
    begun = time.process_time()
    for part in parts:
        harness.operator.process(ColumnBatch(part))
        if timed:
            harness.process_watermark(part["c5"].to_physical()[-1] - 4_000)
    if timed:
        harness.finish()
    harness.operator.barrier()
    return ROWS / (time.process_time() - begun)


def run_exchange(size: int) -> float:
    """Return rows a second that are routed by bidder to two slots, half of them through buffers."""
    parts = list(batches(size))
    begun = time.process_time()
    pending: dict[int, ColumnBatch] = {}
    for part in parts:
        batch = ColumnBatch(part)
        for target in batch.scatter(batch.routes_of(ColumnsKey((1,)), 2, 128), pending):
            if len(pending[target]) >= 8_192:
                sent = pending.pop(target)
                if target:
                    decode(sent.encode())
    return ROWS / (time.process_time() - begun)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of those that are measured")
    parser.add_argument("--sizes", default="1000,10000,50000")
    given = parser.parse_args()
    sizes = [int(each) for each in given.sizes.split(",")]
    runs: dict[str, Callable[[int], float]] = {
        name: (lambda size, spec=spec: run_operator(spec, size))  # type: ignore[misc]
        for name, spec in SPECS.items()
    }
    runs["exchange of two"] = run_exchange
    print(f"{'million rows/s in batches of':32}" + "".join(f"{size:>9}" for size in sizes))
    for name, run in runs.items():
        if not given.names or any(each in name for each in given.names):
            shown = "".join(f"{run(size) / 1e6:9.2f}" for size in sizes)
            print(f"{name:32}{shown}", flush=True)


if __name__ == "__main__":
    main()
