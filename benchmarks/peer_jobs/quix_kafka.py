"""JSON messages from Kafka to Kafka in Quix Streams: as they are, through a Python function, or counted by user.

It is one process for each partition, as its users run it. A stream that is grouped by a field goes through a topic of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from typing import Any

from quixstreams import Application
from quixstreams.models import TopicConfig

IDLE_S = 15.0  # without messages, after which the job is at its end
PARTITIONS = 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--job", choices=["plain", "map", "count"], default="plain")
    parser.add_argument("--guarantee", default="AT_LEAST_ONCE")
    parser.add_argument("--until", choices=["end", "killed"], default="end")
    return parser.parse_args()


def count(value: dict[str, Any], state: Any) -> dict[str, Any]:
    number = state.get("count", 0) + 1
    state.set("count", number)
    return {"id": value["id"], "user": value["user"], "count": number, "due": value["due"]}


def work(args: argparse.Namespace, state_dir: str) -> None:
    servers, _, source = args.input.partition("/")
    application = Application(
        servers,
        consumer_group=f"reader-of-{source}-for-{args.output.rpartition('/')[2]}",
        auto_offset_reset="earliest",
        commit_interval=1.0,
        consumer_poll_timeout=0.05,
        state_dir=state_dir,
        processing_guarantee=args.guarantee.lower().replace("_", "-"),
        loglevel="ERROR",
    )
    config = TopicConfig(PARTITIONS, 1)
    stream = application.dataframe(
        application.topic(source, value_deserializer="json", config=config)
    )
    if args.job == "map":
        stream = stream.apply(lambda value: value)
    elif args.job == "count":
        stream = stream.group_by("user").apply(count, stateful=True)
    output = args.output.partition("/")[2]
    stream.to_topic(application.topic(output, value_serializer="json", config=config))
    application.run(timeout=0.0 if args.until == "killed" else IDLE_S, collect=False)


if __name__ == "__main__":
    args = arguments()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as state_dir:
        processes = [
            multiprocessing.Process(target=work, args=(args, state_dir)) for _ in range(PARTITIONS)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(1)
    print(json.dumps({"seconds": time.perf_counter() - begun - IDLE_S}), flush=True)
