"""The same pattern in Flink SQL's MATCH_RECOGNIZE, executed in the JVM."""

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
    CREATE TABLE payments (
      card BIGINT, party BIGINT, price BIGINT, channel STRING, ts BIGINT,
      paid_at AS TO_TIMESTAMP_LTZ(ts, 3),
      WATERMARK FOR paid_at AS paid_at - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = '{args.input}', 'format' = 'csv')
""")
tables.execute_sql(f"""
    CREATE TABLE alerts (party BIGINT, price BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '{args.output}', 'format' = 'csv')
""")
start = time.perf_counter()
tables.execute_sql("""
    INSERT INTO alerts
    SELECT party, price FROM payments
    MATCH_RECOGNIZE (
      PARTITION BY card
      ORDER BY paid_at
      MEASURES A.party AS party, C.price AS price
      ONE ROW PER MATCH
      AFTER MATCH SKIP TO NEXT ROW
      PATTERN (A B*? C) WITHIN INTERVAL '10' MINUTE
      DEFINE
        A AS A.price / 190 > 5000,
        B AS MOD(B.party, 20) <> 0,
        C AS MOD(C.party, 20) = 0
    )
""").wait()
print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
