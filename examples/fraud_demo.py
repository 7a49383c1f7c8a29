"""Card fraud on a made-up stream of transactions: windows, keyed state, timers, late data, exactly once.

    python examples/fraud_demo.py                 about 60 seconds; Ctrl-C stops it cleanly
    python examples/fraud_demo.py --resume DIR    goes on where an interrupted run stopped

The job reads card transactions that arrive out of order, and writes three kinds of files:

- aggregates: what each card spent in each minute of event time,
- alerts: a charge under 1.00 and, within the minute after it, one of 500.00 or more on the same card,
- late: transactions that came after their minute was closed.

Everything follows from the number of a transaction, so two runs with the same arguments write the same records,
interrupted or not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Duration, Encoder, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.rest.publish import page_address

START = 1_767_225_600_000  # event time of the first transaction: 2026-01-01 00:00:00 UTC
STEP_MS = 4  # event time between two transactions: at 5,000 a second, time runs 20 times as fast
CARDS = 1_000
SMALL, LARGE = 1_00, 500_00  # cents
MINUTE = 60_000
DISORDER_MS = 5_000  # transactions arrive up to this much out of order
LATE_MS = 10 * MINUTE  # some come from terminals that were offline for so long
LATE = OutputTag("late", Types.PICKLED_BYTE_ARRAY())
OUTPUTS = ("alerts", "aggregates", "late")


@dataclass(frozen=True)
class Settings:
    """What decides about the records of a run; kept beside its results, for resuming."""

    records: int
    rate: int
    seed: int = 7


# The data


def transaction(index: int, rng: random.Random) -> dict[str, Any]:
    """Return transaction number `index`."""
    card, cents = rng.randrange(CARDS), round(rng.lognormvariate(8, 1))
    place, step = divmod(index, 2_000)
    if step in {0, 1_500}:  # a thief tries a card, and empties it a little later
        card = place * 37 % CARDS
        cents = rng.randrange(1, SMALL) if step == 0 else rng.randrange(LARGE, 4 * LARGE)
    moment = START + index * STEP_MS - rng.randrange(DISORDER_MS)
    if step % 500 == 250 and moment > START + 3 * MINUTE:
        moment -= LATE_MS
    return {"id": index, "card": f"card-{card:04}", "cents": cents, "time": moment}


class EventTime(TimestampAssigner):
    """A transaction carries its own time."""

    def extract_timestamp(self, value: dict[str, Any], record_timestamp: int) -> int:
        return value["time"]


# The job


class Spending(AggregateFunction):
    """Adds up what is spent: (cents, number of transactions)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: dict[str, Any], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value["cents"], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class ForMinute(ProcessWindowFunction):
    """Says which card and which minute a sum belongs to."""

    def process(self, key: str, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        for cents, count in elements:
            minute = show(context.window().start)
            yield {"card": key, "minute": minute, "cents": cents, "transactions": count}


class FraudDetector(KeyedProcessFunction):
    """Raises an alert when a small charge is followed by a large one within a minute.

    Transactions arrive out of order, so each waits in state until the watermark has passed it: then a timer takes it out,
    and timers fire in the order of event time. A second timer forgets the small charge after a minute.
    """

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_map_state(
            MapStateDescriptor("waiting", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
        )
        self.probe = runtime_context.get_state(
            ValueStateDescriptor("probe", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: dict[str, Any], ctx: Any) -> None:
        moment = ctx.timestamp()
        if moment <= ctx.timer_service().current_watermark():
            return  # too late; the windows put it aside
        self.waiting.put(moment, [*(self.waiting.get(moment) or ()), value])
        ctx.timer_service().register_event_time_timer(moment)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[dict[str, Any]]:
        probe = self.probe.value()
        if probe is not None and timestamp >= probe["time"] + MINUTE:
            self.probe.clear()
            probe = None
        due = self.waiting.get(timestamp)
        if due is None:
            return
        self.waiting.remove(timestamp)
        for payment in sorted(due, key=lambda payment: payment["id"]):
            if payment["cents"] < SMALL:
                self.probe.update(payment)
                probe = payment
                ctx.timer_service().register_event_time_timer(timestamp + MINUTE)
            elif payment["cents"] >= LARGE and probe is not None:
                yield {
                    "card": payment["card"],
                    "time": show(payment["time"]),
                    "cents": payment["cents"],
                    "probe_cents": probe["cents"],
                    "seconds_after_probe": (payment["time"] - probe["time"]) / 1000,
                }


def build(env: StreamExecutionEnvironment, settings: Settings, out: Path) -> None:
    """Put the job together: one source, two keyed operators, three sinks."""
    source = DataGeneratorSource(
        transaction, count=settings.records, rate_per_second=settings.rate, seed=settings.seed
    )
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
    # The generator is one split, so one subtask reads all of it. A second one would hold the watermark back until it knows that there
    # is nothing for it to read, and how many transactions are late would depend on how fast it starts.
    transactions = (
        env.from_source(source, watermarks.with_timestamp_assigner(EventTime()), "transactions")
        .set_parallelism(1)
        .uid("transactions")
    )
    cards = transactions.key_by(lambda payment: payment["card"])

    aggregates = (
        cards.window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .side_output_late_data(LATE)
        .aggregate(Spending(), ForMinute())
        .name("spending per minute")
        .uid("spending")
    )
    alerts = cards.process(FraudDetector()).name("fraud detector").uid("detector")
    streams = (alerts, aggregates, aggregates.get_side_output(LATE))
    for stream, name in zip(streams, OUTPUTS, strict=True):
        stream.sink_to(json_files(out / name)).name(name).uid(name)


def json_files(directory: Path) -> FileSink:
    """Return a sink of JSON lines; every checkpoint publishes what it holds."""
    return (
        FileSink.for_row_format(str(directory), Encoder.of(json.dumps))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig("part", ".jsonl"))
        .build()
    )


# The run


def main() -> int:
    arguments = parse_arguments()
    resume = arguments.resume is not None
    out: Path = arguments.resume if resume else arguments.out
    settings = load_settings(out) if resume else new_settings(arguments, out)
    options = {
        "execution.checkpointing.dir": str(out / "checkpoints"),
        "execution.checkpointing.interval": "1 s",
        "parallelism.default": "2",
        # Records flow from task to task; the tasks stay, and each needs a core. Markers among the records measure how long they take.
        "penstock.execution.mode": "pipelined" if (os.cpu_count() or 1) >= 2 else "epochs",
        "metrics.latency.interval": "50 ms",
        "rest.bind-port": "8081-8099",  # of the web page: the first that is free
        "penstock.progress": "never" if arguments.no_live else "auto",
    }
    checkpoint = find_checkpoint(out)
    if resume:
        if checkpoint is None:
            say(f"{out} has no checkpoint to resume from: the job starts from the beginning")
        else:
            options["execution.state-recovery.path"] = str(checkpoint.parent)
            say(f"Resuming from {checkpoint}")
    say(
        f"{settings.records:,} card transactions at {settings.rate:,} a second, "
        f"{settings.records / settings.rate:.0f} seconds in all; "
        f"event time runs {settings.rate * STEP_MS / 1000:g} times as fast as the clock.",
        f"Results appear in {out}/: {', '.join(OUTPUTS)}. Ctrl-C stops the job after a checkpoint.",
    )
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    build(env, settings, out)
    threading.Thread(target=tell_page, daemon=True).start()
    started = time.monotonic()
    try:
        env.execute("fraud demo")
        finished = True
    except KeyboardInterrupt:
        finished = False
    summarize(out, settings, time.monotonic() - started, finished=finished)
    return 0


def tell_page() -> None:
    """Tell where the job can be watched, once that is known."""
    address = page_address()
    if address is not None:
        say(f"Watch it in a browser: {address}")


def parse_arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=positive, default=60, help="how long to run (60)")
    parser.add_argument("--rate", type=positive, default=5_000, help="transactions a second (5000)")
    parser.add_argument("--out", type=Path, default=default_directory(), help="where results go")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="results of an interrupted run")
    parser.add_argument("--no-live", action="store_true", help="no live table")
    return parser.parse_args()


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def default_directory() -> Path:
    return Path("out") / f"fraud-demo-{datetime.now():%Y%m%d-%H%M%S}"


def new_settings(arguments: argparse.Namespace, out: Path) -> Settings:
    settings = Settings(arguments.seconds * arguments.rate, arguments.rate)
    if (out / "demo.json").exists():
        sys.exit(f"{out} has the results of another run: resume it, or choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    (out / "demo.json").write_text(json.dumps(asdict(settings)) + "\n")
    return settings


def load_settings(out: Path) -> Settings:
    try:
        return Settings(**json.loads((out / "demo.json").read_text()))
    except FileNotFoundError:
        sys.exit(f"{out} is not the directory of a run of this demo")


def find_checkpoint(out: Path) -> Path | None:
    """Return the newest checkpoint of a run: checkpoints/<job id>/chk-<epoch>."""
    found = (path.parent for path in out.glob("checkpoints/*/chk-*/_metadata"))
    return max(found, key=lambda path: int(path.name.removeprefix("chk-")), default=None)


def summarize(out: Path, settings: Settings, seconds: float, *, finished: bool) -> None:
    """Tell what happened, where it is, and what can be done next."""
    results = {name: read_lines(out / name) for name in OUTPUTS}
    counted = sum(line["transactions"] for line in results["aggregates"])
    say("", f"{'Finished' if finished else 'Stopped'} after {seconds:.0f} seconds.")
    say(
        f"  {out}/alerts      {len(results['alerts']):>7,} alerts",
        f"  {out}/aggregates  {len(results['aggregates']):>7,} sums of a card and a minute, "
        f"over {counted:,} transactions",
        f"  {out}/late        {len(results['late']):>7,} transactions after their minute was closed",
    )
    if results["alerts"]:
        say("", "The last alerts:")
    for alert in sorted(results["alerts"], key=lambda alert: alert["time"])[-5:]:
        say(
            f"  {alert['time']}  {alert['card']}  {alert['probe_cents'] / 100:>5.2f}, then "
            f"{alert['cents'] / 100:>8.2f} after {alert['seconds_after_probe']:.1f} s"
        )
    checkpoint = find_checkpoint(out)
    if finished:
        found = counted + len(results["late"])
        verdict = "each in one sum or among the late ones" if found == settings.records else "WRONG"
        say("", f"Transactions in the files: {found:,} of {settings.records:,}, {verdict}.")
    elif checkpoint is None:
        say("", "It was stopped before its first checkpoint: there is nothing to resume.")
    else:
        script = shlex.join([sys.executable, sys.argv[0], "--resume", str(out)])
        say("", f"The last checkpoint is {checkpoint}. To go on from there:")
        say(f"  make demo RESUME={out}", "or", f"  {script}")


def read_lines(directory: Path) -> list[dict[str, Any]]:
    """Return the records of all published files."""
    files = sorted(directory.glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def show(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def say(*lines: str) -> None:
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
