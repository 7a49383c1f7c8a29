"""`python -m benchmarks.kafka`: JSON messages of 100 bytes from Kafka to Kafka, Penstock, PyFlink and Quix Streams on the same broker.

The topics have two partitions. How fast a job is comes from the broker: it stamps each message that it is given, so the time
from the first to the last of the output is the job's, without its start. Every message must be there, once if that is promised.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import peers, report
from benchmarks.runner import JOBS, PYFLINK, environment_of

# The connector is not a part of PyFlink.
CONNECTOR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
QUIX = "Quix Streams"
PARTITIONS = 2
USERS = 10_000
TITLES = {
    "plain": "as they are",
    "map": "through a Python function",
    "count": "counted by user",
}
GUARANTEES = ("AT_LEAST_ONCE", "EXACTLY_ONCE")
QUANTILES = (0.5, 0.99)


@dataclass(frozen=True)
class Engine:
    """A way to run the job."""

    name: str
    kind: str
    config: tuple[str, ...]
    alone: bool = False  # without Spark

    def command(self, jar: Path | None, *options: str) -> list[str]:
        """Return the command line that runs the job."""
        if self.kind == QUIX:
            return [*peers.command(QUIX, "kafka"), *options]
        python = str(PYFLINK) if self.kind == "pyflink" else sys.executable
        settings = [*self.config]
        if self.kind == "pyflink":
            settings.append(f"pipeline.jars=file://{jar}")
        configured = [part for setting in settings for part in ("--config", setting)]
        if self.alone:
            configured.append("--no-spark")
        return [
            python,
            str(JOBS / "kafka_to_kafka.py"),
            "--engine",
            self.kind,
            *configured,
            *options,
        ]


ENGINES = [
    Engine("Penstock, epochs", "penstock", ("penstock.execution.mode=epochs",)),
    Engine("Penstock, pipelined", "penstock", ("penstock.execution.mode=pipelined",)),
    Engine("PyFlink, process", "pyflink", ("python.execution-mode=process",)),
    Engine("PyFlink, thread", "pyflink", ("python.execution-mode=thread",)),
    Engine(QUIX, QUIX, ()),
]


class JobFailedError(RuntimeError):
    """A job did not come to its end."""


@dataclass(frozen=True)
class Rate:
    """How fast a job was, without its start, and how long it took with it."""

    job: str
    guarantee: str
    engine: str
    records: int
    per_second: float
    seconds: float


@dataclass(frozen=True)
class Ages:
    """How old messages are when a consumer of the output has them, in milliseconds, at some quantiles."""

    engine: str
    rate: int
    sent: int
    found: int
    quantiles: tuple[float, ...]


def message(number: int, due_ns: int = 0) -> bytes:
    """Return one message of about 100 bytes."""
    return (
        b'{"id": %d, "user": "user-%05d", "amount": %d, "city": "Springfield", "due": %d}'
        % (number, number % USERS, number % 997, due_ns)
    ).ljust(100)


def fill(servers: str, topic: str, count: int) -> None:
    """Write so many messages."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "linger.ms": 20,
            "log_level": 0,
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(topic, message(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("the broker has not taken all messages")


def read(servers: str, topic: str, count: int) -> tuple[int, int, float]:
    """Read all committed messages; return how many there are, the sum of their ids, and the seconds from the first to the last."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found = total = 0
    first, last = float("inf"), 0.0
    until = time.monotonic() + 30
    while found < count and time.monotonic() < until:
        messages = [each for each in consumer.consume(10_000, 1.0) if each.error() is None]
        for each in messages:
            total += json.loads(each.value())["id"]
        times = [each.timestamp()[1] for each in messages]
        first, last = min([first, *times]), max([last, *times])
        found += len(messages)
        until = time.monotonic() + 10 if messages else until
    found += sum(each.error() is None for each in consumer.consume(1_000, 0.5))
    consumer.close()
    return found, total, (last - first) / 1000


def throughput(
    broker: Any, engine: Engine, job: str, guarantee: str, source: str, count: int, jar: Path | None
) -> Rate:
    """Run a job over a topic, and check what it wrote."""
    output = broker.create_topic(
        f"out-{uuid.uuid4().hex[:8]}", PARTITIONS, {"message.timestamp.type": "LogAppendTime"}
    )
    addresses = [f"{broker.bootstrap}/{source}", f"{broker.bootstrap}/{output}"]
    options = ["--job", job, "--guarantee", guarantee]
    command = engine.command(jar, *options, "--input", addresses[0], "--output", addresses[1])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment_of(engine.kind),
        timeout=1800,
        check=False,
    )
    if done.returncode:
        raise JobFailedError(f"{engine.name}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    seconds = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    found, total, working = read(broker.bootstrap, output, count)
    if (found, total) != (count, count * (count - 1) // 2):
        raise AssertionError(f"{engine.name} wrote {found} of {count} messages, ids sum to {total}")
    broker.delete_topic(output)
    return Rate(job, guarantee, engine.name, count, count / max(working, 1e-3), seconds)


# Latency


class _Feed(threading.Thread):
    """Writes messages at a rate, each with the moment at which it was due."""

    def __init__(self, servers: str, topic: str, rate: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self._servers, self._topic, self._rate = servers, topic, rate
        self._count = int(rate * seconds)

    def run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 0, "log_level": 0})
        begun = time.time_ns()
        for number in range(self._count):
            due = begun + number * 1_000_000_000 // self._rate
            while (left := due - time.time_ns()) > 0:
                producer.poll(0)
                time.sleep(min(left / 1e9, 0.001))
            producer.produce(self._topic, message(number, due), partition=number % PARTITIONS)
        producer.flush(30)


@contextlib.contextmanager
def _running(command: Sequence[str], kind: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment_of(kind), start_new_session=True
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def latency(
    broker: Any, engine: Engine, rate: int, seconds: float, jar: Path | None, log: Path
) -> Ages:
    """Count messages by user, at a rate; return how old they are at a consumer. At least once: what it may read is out at once."""
    from confluent_kafka import Consumer, TopicPartition

    names = [f"{side}-{uuid.uuid4().hex[:8]}" for side in ("in", "out")]
    source, output = (broker.create_topic(name, PARTITIONS) for name in names)
    fill(broker.bootstrap, source, 1)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": uuid.uuid4().hex,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(output, number, 0) for number in range(PARTITIONS)])
    options = ["--job", "count", "--until", "killed"]
    addresses = [f"{broker.bootstrap}/{source}", f"{broker.bootstrap}/{output}"]
    if (
        engine.kind == "pyflink"
    ):  # its default collects records for up to a second before it hands them to Python
        options += ["--config", "python.fn-execution.bundle.time=10"]
    command = engine.command(jar, *options, "--input", addresses[0], "--output", addresses[1])
    ages: list[float] = []
    with _running(command, engine.kind, log) as process:
        _take(consumer, ages, lambda: bool(ages), 120.0, process)  # it runs
        for phase_s in (seconds / 2, seconds):  # the first warms up
            del ages[:]
            feed = _Feed(broker.bootstrap, source, rate, phase_s)
            feed.start()
            wanted = int(rate * phase_s)
            _take(consumer, ages, lambda: len(ages) >= wanted, phase_s + 30.0, process)  # noqa: B023
            feed.join()
    consumer.close()
    ages.sort()
    marks = tuple(ages[int(q * (len(ages) - 1))] if ages else float("inf") for q in QUANTILES)
    return Ages(engine.name, rate, wanted, len(ages), marks)


def _take(consumer: Any, ages: list[float], enough: Any, seconds: float, process: Any) -> None:
    until = time.monotonic() + seconds
    while not enough() and time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError("the job has ended")
        messages = [each for each in consumer.consume(1_000, 0.01) if each.error() is None]
        now = time.time_ns()
        ages += [(now - json.loads(each.value())["due"]) / 1e6 for each in messages]


# The whole


def connector_jar(work: Path) -> Path | None:
    """Return Flink's connector, fetched with Maven if it is not here yet; None without PyFlink."""
    if not PYFLINK.exists():
        return None
    _, name, version = CONNECTOR.split(":")
    jar = work / f"{name}-{version}.jar"
    if not jar.exists():
        fetch = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={CONNECTOR}"]
        subprocess.run([*fetch, f"-DoutputDirectory={work}"], check=True)
    return jar


def show_rates(rates: Sequence[Rate]) -> Table:
    """One line for each job, guarantee and engine; how many times PyFlink's is its faster one."""
    table = Table(title=f"Messages per second, Kafka to Kafka ({report.machine()})")
    for column in ("job", "guarantee", "engine"):
        table.add_column(column)
    for column in ("messages", "per second", "times PyFlink", "s, with the start"):
        table.add_column(column, justify="right")
    for rate in rates:
        same = [r for r in rates if (r.job, r.guarantee) == (rate.job, rate.guarantee)]
        theirs = max((r.per_second for r in same if r.engine.startswith("PyFlink")), default=None)
        ratio = rate.per_second / theirs if theirs and rate.engine.startswith("Penstock") else None
        table.add_row(
            TITLES[rate.job],
            rate.guarantee.replace("_", " ").lower(),
            rate.engine,
            f"{rate.records:,}",
            f"{rate.per_second:,.0f}",
            f"{ratio:.1f}x" if ratio else "",
            f"{rate.seconds:.1f}",
            end_section=rate is same[-1],
        )
    table.caption = (
        "The broker runs on the same cores. As they are: PyFlink's messages do not leave the JVM."
    )
    return table


def show_ages(ages: Sequence[Ages]) -> Table:
    """One line for each rate and engine."""
    table = Table(
        title=f"Age of a message behind a keyed count, Kafka to Kafka, ms ({report.machine()})"
    )
    for column in ("messages/s", "engine", "p50", "p99", "of all"):
        table.add_column(column, justify="right")
    for each in ages:
        shown = [f"{value:,.1f}" for value in each.quantiles]
        table.add_row(f"{each.rate:,}", each.engine, *shown, f"{each.found / each.sent:.0%}")
    return table


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument(
        "--pyflink-records", type=int, default=200_000, help="the part of PyFlink and Quix Streams"
    )
    parser.add_argument("--job", action="append", choices=list(TITLES))
    parser.add_argument("--guarantee", action="append", choices=GUARANTEES)
    parser.add_argument("--engine", action="append", choices=[each.name for each in ENGINES])
    parser.add_argument("--rate", type=int, action="append", help="of the latency; 0: none")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the latency")
    parser.add_argument("--no-spark", action="store_true", help="run Penstock in one process")
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / ".work")
    return parser.parse_args()


def main() -> None:
    from tools.servers.kafka import KafkaBroker

    args = parse()
    args.work.mkdir(parents=True, exist_ok=True)
    report.warn_if_busy()
    jar = connector_jar(args.work.resolve())
    engines = [each for each in ENGINES if not args.engine or each.name in args.engine]
    engines = [each for each in engines if each.kind != "pyflink" or jar is not None]
    engines = [each for each in engines if each.kind != QUIX or peers.is_installed(QUIX)]
    if args.no_spark:
        engines = [replace(each, alone=each.kind == "penstock") for each in engines]
    rates: list[Rate] = []
    ages: list[Ages] = []
    broker = KafkaBroker()
    broker.start()
    try:
        sources = {}
        for count in {args.records, args.pyflink_records}:
            sources[count] = broker.create_topic(f"payments-{count}", PARTITIONS)
            fill(broker.bootstrap, sources[count], count)
        for job in args.job or TITLES:
            for guarantee in args.guarantee or GUARANTEES:
                for engine in engines:
                    theirs = engine.kind == QUIX or (engine.kind == "pyflink" and job != "plain")
                    count = args.pyflink_records if theirs else args.records
                    try:
                        rate = throughput(
                            broker, engine, job, guarantee, sources[count], count, jar
                        )
                    except JobFailedError as error:
                        if engine.kind == "penstock":
                            raise
                        report.console.print(f"{job:6} {guarantee:14} {str(error)[-200:]}")
                        continue
                    rates.append(rate)
                    report.console.print(
                        f"{job:6} {guarantee:14} {engine.name:20} {rate.per_second:>10,.0f}/s",
                        highlight=False,
                    )
        for speed in args.rate or (1_000, 10_000):
            # In epochs a message waits for the end of its epoch.
            for engine in engines if speed else ():
                if "epochs" not in engine.name:
                    log = args.work / "kafka-latency.log"
                    ages.append(latency(broker, engine, speed, args.seconds, jar, log))
    finally:
        broker.stop()
    if rates:
        report.console.print(show_rates(rates))
    if ages:
        report.console.print(show_ages(ages))
    figures = {"rates": list(map(asdict, rates)), "ages": list(map(asdict, ages))}
    (args.work / "kafka.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
