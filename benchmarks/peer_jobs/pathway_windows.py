"""The windowed job in Pathway: bids are parsed in Python, summed up by its engine."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from pathlib import Path

import pathway as pw
from measuring import arguments

args = arguments()


@pw.udf
def auction_of(line: str) -> int:
    return int(line.split(",", maxsplit=1)[0])


@pw.udf
def price_of(line: str) -> int:
    return int(line.split(",")[2])


@pw.udf
def time_of(line: str) -> int:
    return int(line.split(",")[4])


start = time.perf_counter()
lines = pw.io.plaintext.read(args.input, mode="static")
bids = lines.select(
    auction=auction_of(pw.this.data), price=price_of(pw.this.data), ts=time_of(pw.this.data)
).filter(pw.this.price > 100)
totals = bids.windowby(
    pw.this.ts, window=pw.temporal.tumbling(duration=10_000), instance=pw.this.auction
).reduce(total=pw.reducers.sum(pw.this.price), bids=pw.reducers.count())
Path(args.output).mkdir(parents=True, exist_ok=True)
table = Path(args.output, ".totals.csv")
pw.io.csv.write(totals, str(table))
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
seconds = time.perf_counter() - start

# It writes every change of a sum: what counts is what is left of them.
left: Counter[tuple[str, str]] = Counter()
with table.open() as file:
    for row in csv.DictReader(file):
        left[row["total"], row["bids"]] += int(row["diff"])
with Path(args.output, "totals").open("w") as out:
    out.writelines(f"{total},{bids}\n" for total, bids in left.elements())
print(json.dumps({"seconds": seconds}), flush=True)
