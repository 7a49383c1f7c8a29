"""Runs the job between Kafka and another system, feeds it, kills parts of it and of the systems, and counts with independent readers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_harness import TIMEOUT_S, LedgerRun
from fault_log import KillLog

from tests.builders.modes import Way
from tools.servers.kafka import KafkaBroker
from tools.servers.postgres import PASSWORD, USER, PostgresServer
from tools.servers.process import ServerProcess

JOBS = Path(__file__).parent / "jobs"
KEYS = 13
PARTITIONS = 3
_PAUSE_S = 0.02
_BURST = 5
_AWAY_S = 0.5  # how long a server is away, at least
_LAST = "last"  # the key of messages after all others


class Feeder:
    """Writes messages to a topic, by a thread, until it is told to stop. A broker that is away is waited for."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        from confluent_kafka import Producer

        self.sent: Counter[str] = Counter()  # messages by key, which the broker has acknowledged
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 180_000,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._stop = threading.Event()
        self._failed: list[str] = []
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(_PAUSE_S):
            for _ in range(_BURST):
                key = f"k{number * 7919 % KEYS}"
                value = f"{key} message {number}"
                self._producer.produce(
                    self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)
        self._producer.flush(120)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))
        else:
            self.sent[message.value().decode().partition(" ")[0]] += 1

    def stop(self) -> Counter[str]:
        """End feeding; return the lines that the job has to put out."""
        self._stop.set()
        self._thread.join(150)
        return self._lines()

    def send_last(self) -> Counter[str]:
        """Write one more message to each partition; return the lines that the job has to put out for them."""
        before = self._lines()
        for partition in range(PARTITIONS):
            self._producer.produce(
                self._topic, _LAST, partition=partition, on_delivery=self._delivered
            )
        self._producer.flush(120)
        return self._lines() - before

    def _lines(self) -> Counter[str]:
        assert not self._failed, self._failed[:3]
        return Counter(
            f"{key} number {number}"
            for key, count in self.sent.items()
            for number in range(1, count + 1)
        )


class SystemsRun(LedgerRun):
    """One job from Kafka to Kafka or PostgreSQL, over as many drivers, brokers and databases as that takes."""

    script = JOBS / "kafka_ledger.py"

    def __init__(
        self,
        directory: Path,
        log: KillLog,
        *,
        way: Way,
        master: str | None,
        broker: KafkaBroker,
        database: PostgresServer | None = None,
    ) -> None:
        name = f"t{uuid.uuid4().hex[:10]}"
        self.job_id = uuid.uuid4().hex
        self.broker, self.database = broker, database
        self._source = broker.create_topic(f"{name}-in", PARTITIONS)
        self.seen = directory / "seen"
        if database is None:
            sink: dict[str, Any] = {"topic": broker.create_topic(f"{name}-out", 2)}
            self._watch = ["topic", str(self.seen), broker.bootstrap, sink["topic"]]
        else:
            sink = _table(database, name)
            self._watch = ["table", str(self.seen), database.dsn, name]
        super().__init__(
            directory,
            log,
            way=way,
            master=master,  # type: ignore[arg-type]
            job_id=self.job_id,
            bootstrap=broker.bootstrap,
            topic=self._source,
            sink=sink,
        )
        self.feeder = Feeder(broker, self._source)
        self._watcher: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start the reader, the feeder and the first driver."""
        self.directory.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, str(JOBS / "watchers.py"), *self._watch]
        with (self.directory / "watcher.log").open("ab") as log:
            self._watcher = subprocess.Popen(program, stdout=log, stderr=log)
        self.feeder.start()
        self.start()

    def restart_server(self, server: ServerProcess) -> None:
        """Kill a server and start it again on its data, while the job runs."""
        server.kill()
        self.strike(f"{server.name} killed")
        time.sleep(_AWAY_S)
        server.start()

    def found(self) -> Counter[str]:
        """What the reader has seen so far, each place once."""
        lines = self.seen.read_text().splitlines() if self.seen.exists() else []
        places: dict[str, str] = {}
        for line in lines:
            place, tab, text = line.partition("\t")
            if not tab or place == "looked":
                continue
            assert place != "gone", text
            assert places.setdefault(place, text) == text, f"{place} has two values"
        return Counter(places.values())

    def finish(self, seed: object) -> None:
        """Feed no more, wait until all is out, stop the job, and judge."""
        expected = self.feeder.stop()
        assert expected.total() > 0
        self._wait_for(lambda: self.found().total() >= expected.total())
        # What is doubled would come in the next checkpoints, before these.
        ended = self.wait_for_epochs(3)
        expected += self.feeder.send_last()
        self._wait_for(lambda: self.found().total() >= expected.total())
        (self.directory / "stop").touch()
        ended = ended and self.is_running and self.wait() == 0
        found = self.found()
        lost, twice = expected - found, found - expected
        for fault in self.faults:
            fault.lost, fault.duplicated = lost.total(), twice.total()
        problems = []
        if lost:
            problems.append(f"{lost.total()} of {expected.total()} lost: {sorted(lost)[:5]}")
        if twice:
            problems.append(f"{twice.total()} too many: {sorted(twice)[:5]}")
        if not ended:
            problems.append("the last driver did not end in order")
        if problems:
            raise AssertionError("\n".join([f"seed {seed}", *problems, self.story()]))

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait for something, not for ever: what is lost is reported later."""
        end = time.monotonic() + TIMEOUT_S
        while not condition() and time.monotonic() < end:
            self._observe()
            time.sleep(0.1)

    def leftovers(self, timeout_s: float) -> list[str]:
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
        return super().leftovers(timeout_s)


def _table(database: PostgresServer, name: str) -> dict[str, Any]:
    import psycopg

    with psycopg.connect(database.dsn, autocommit=True) as session:
        # No constraint: what is written twice is there twice.
        session.execute(f"CREATE TABLE {name} (id bigserial, line text)")
    return {
        "url": f"jdbc:postgresql://127.0.0.1:{database.port}/postgres",
        "user": USER,
        "password": PASSWORD,
        "table": name,
    }
