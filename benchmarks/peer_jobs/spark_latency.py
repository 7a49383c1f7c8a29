"""Lines from a socket, counted by key behind one exchange, in Spark's Structured Streaming, as fast as its batches come."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)

from measuring import ages_of, arguments  # noqa: E402

os.environ["PYSPARK_PYTHON"] = sys.executable
args = arguments()
output = args.output
spark = (
    SparkSession.builder.master(f"local[{args.parallelism}]")
    .config("spark.sql.shuffle.partitions", args.parallelism)
    .config("spark.ui.enabled", "false")
    .config("spark.executorEnv.PYTHONPATH", HERE)
    .getOrCreate()
)
host, port = args.input.split(":")
lines = spark.readStream.format("socket").option("host", host).option("port", port).load()
parts = f.split("value", ",")
records = lines.select(
    parts[0].alias("key"), parts[1].cast("long").alias("due"), parts[2].cast("int").alias("phase")
)


def count(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    number = state.get[0] if state.exists else 0
    ages = ages_of(output)
    for frame in frames:
        number += len(frame)
        for due, phase in zip(frame["due"], frame["phase"], strict=True):
            ages.note(int(due), int(phase))
    state.update((number,))
    yield pd.DataFrame({"key": [key[0]], "count": [number]})


counts = records.groupBy("key").applyInPandasWithState(
    count, "key string, count long", "count long", "append", GroupStateTimeout.NoTimeout
)
# A socket source has no end: the parent process ends it.
(
    counts.writeStream.format("noop")
    .outputMode("append")
    .option("checkpointLocation", f"{output}/checkpoints")
    .start()
    .awaitTermination()
)
