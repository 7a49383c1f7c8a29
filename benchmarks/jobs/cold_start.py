"""Word count over six words, with the moments at which each part of the work was done."""

from __future__ import annotations

import json
import time

marks = [("starting Python", time.time())]

from penstock.datastream import StreamExecutionEnvironment  # noqa: E402

marks.append(("importing the API", time.time()))

from penstock.spark.session import get_context  # noqa: E402

get_context()
marks.append(("starting Spark", time.time()))

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
counts = (
    env.from_collection(["to", "be", "or", "not", "to", "be"])
    .map(lambda word: (word, 1))
    .key_by(lambda pair: pair[0])
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
)
assert ("be", 2) in list(counts.execute_and_collect())
marks.append(("running the job", time.time()))
print(json.dumps(marks), flush=True)
