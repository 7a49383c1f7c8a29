"""The windowed job in Bytewax: sum and count of bids per auction in 10 s event-time windows."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
import bytewax.operators.windowing as w
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.run import cli_main
from measuring import arguments

args = arguments()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Bid = tuple[str, int, int]


class Lines(StatefulSourcePartition):
    def __init__(self, path: Path) -> None:
        self._file = path.open()

    def next_batch(self) -> list[str]:
        lines = self._file.readlines(64_000)
        if not lines:
            raise StopIteration
        return lines

    def snapshot(self) -> int:
        return 0


class Files(FixedPartitionedSource):
    def list_parts(self) -> list[str]:
        return [path.name for path in Path(args.input).glob("*.csv")]

    def build_part(self, step_id: str, for_part: str, resume_state: object) -> Lines:
        return Lines(Path(args.input, for_part))


class Part(StatelessSinkPartition):
    def __init__(self, number: int) -> None:
        Path(args.output).mkdir(parents=True, exist_ok=True)
        self._file = Path(args.output, f"part-{number}").open("w")  # noqa: SIM115

    def write_batch(self, items: list[str]) -> None:
        self._file.writelines(items)

    def close(self) -> None:
        self._file.close()


class Parts(DynamicSink):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
        return Part(worker_index)


def parse(line: str) -> Bid:
    auction, _, price, _, ts = line.split(",")
    return auction, int(price), int(ts)


def add(total: tuple[int, int], bid: Bid) -> tuple[int, int]:
    return total[0] + bid[1], total[1] + 1


flow = Dataflow("windows")
parsed = op.map("parse", op.input("bids", flow, Files()), parse)
bids = op.filter("large", parsed, lambda bid: bid[1] > 100)
clock = w.EventClock(
    ts_getter=lambda bid: EPOCH + timedelta(milliseconds=bid[2]),
    # Its watermarks follow each key, not the slowest file: with less, bids of a file that is read more slowly would be late.
    wait_for_system_duration=timedelta(days=1),
)
totals = w.fold_window(
    "windows",
    op.key_on("auction", bids, lambda bid: bid[0]),
    clock,
    w.TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH),
    lambda: (0, 0),
    add,
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
)
lines = op.map("write", totals.down, lambda each: f"{each[1][1][0]},{each[1][1][1]}\n")
op.output("totals", lines, Parts())
start = time.perf_counter()
cli_main(flow, workers_per_process=args.parallelism)
print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
