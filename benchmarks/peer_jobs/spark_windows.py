"""The windowed job in Spark's Structured Streaming: bids are parsed in Python, summed up by Spark."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

sys.path.insert(0, str(Path(__file__).parent))

from measuring import arguments

os.environ["PYSPARK_PYTHON"] = sys.executable
args = arguments()
spark = (
    SparkSession.builder.master(f"local[{args.parallelism}]")
    .config("spark.sql.shuffle.partitions", args.parallelism)
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)


def parse(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        rows = []
        for line in frame["value"]:
            auction, _, price, _, ts = line.split(",")
            if int(price) > 100:
                rows.append((int(auction), int(price), int(ts)))
        bids = pd.DataFrame(rows, columns=["auction", "price", "ts"])
        bids["at"] = pd.to_datetime(bids["ts"], unit="ms")
        yield bids[["auction", "price", "at"]]


start = time.perf_counter()
bids = spark.readStream.text(args.input).mapInPandas(
    parse, "auction long, price long, at timestamp"
)
totals = (
    bids.withWatermark("at", "5 seconds")
    .groupBy("auction", f.window("at", "10 seconds"))
    .agg(f.sum("price").alias("total"), f.count("*").alias("bids"))
    .select(f.concat_ws(",", "total", "bids").alias("value"))
)
# All windows are given out at the end: in append mode the last ones would wait for a watermark that never comes.
(
    totals.writeStream.outputMode("complete")
    .foreachBatch(lambda frame, _: frame.write.mode("overwrite").text(args.output))
    .option("checkpointLocation", f"{args.output}-checkpoints")
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
