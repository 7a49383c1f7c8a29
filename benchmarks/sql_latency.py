"""`python -m benchmarks.sql_latency`: how long after its watermark does a window of a SQL query give its row, in pipelined mode?

Rows come from `datagen` at a rate, with the time at which they are made; a window ends when a row of the next one comes. What is measured is the time from the end of the window to the moment
when its row has come to the operator behind the query, in the same job on Spark.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import time
from typing import Any

import numpy as np

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import StreamTableEnvironment

SOURCE = """
CREATE TABLE events (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
  'rows-per-second' = '{rate}', 'fields.k.min' = '0', 'fields.k.max' = '99')
"""
QUERY = """
SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))
GROUP BY window_start, window_end
"""
EPOCH = dt.datetime(1970, 1, 1)


def lateness(row: Any) -> float:
    """Milliseconds since the end of a window."""
    end = row[0].replace(tzinfo=None) - EPOCH
    return time.time() * 1000 - end.total_seconds() * 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sql_latency", description=__doc__)
    parser.add_argument("--rate", type=int, default=10_000, help="rows per second")
    parser.add_argument("--windows", type=int, default=300)
    parser.add_argument("--skip", type=int, default=50, help="the first windows do not count")
    args = parser.parse_args()
    configuration = Configuration()
    options = {"spark.master": "local[2]", "penstock.execution.mode": "pipelined"}
    options |= {"execution.checkpointing.interval": "60 s"}
    # Every batch of rows is followed by its watermark.
    options |= {"pipeline.auto-watermark-interval": "1 ms"}
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(SOURCE.format(rate=args.rate))
    stream = tables.to_data_stream(tables.sql_query(QUERY)).map(lateness)
    with stream.execute_and_collect() as found:
        late = np.array(list(itertools.islice(found, args.windows + args.skip))[args.skip :])
    shown = ", ".join(f"p{share} {np.percentile(late, share):.1f} ms" for share in (50, 90, 99))
    print(
        f"{args.rate:,} rows/s, {len(late)} windows of 100 ms: {shown}, at most {late.max():.1f} ms"
    )


if __name__ == "__main__":
    main()
