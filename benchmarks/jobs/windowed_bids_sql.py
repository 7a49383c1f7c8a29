"""The windowed job in Flink SQL, executed in the JVM: what Flink does without any Python."""

from __future__ import annotations

import argparse
import json
import time

from pyflink.table import EnvironmentSettings, TableEnvironment

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
parser.add_argument("--parallelism", default="2")
args = parser.parse_args()

tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
tables.get_config().set("parallelism.default", args.parallelism)
tables.execute_sql(f"""
    CREATE TABLE bids (
      auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts BIGINT,
      bid_time AS TO_TIMESTAMP_LTZ(ts, 3),
      WATERMARK FOR bid_time AS bid_time - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = '{args.input}', 'format' = 'csv')
""")
tables.execute_sql(f"""
    CREATE TABLE totals (total BIGINT, bids BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '{args.output}', 'format' = 'csv')
""")
start = time.perf_counter()
tables.execute_sql("""
    INSERT INTO totals
    SELECT SUM(price), COUNT(*)
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '10' SECONDS))
    WHERE price > 100
    GROUP BY auction, window_start, window_end
""").wait()
print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
