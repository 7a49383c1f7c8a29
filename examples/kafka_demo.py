"""The orders job end to end: starts Kafka and PostgreSQL, sends orders, shows what comes out, and counts at the end.

make demo-kafka                     # about a minute
make demo-kafka DEMO="--seconds 10 --no-spark"
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import kafka_orders  # noqa: E402 - it stands beside this file

from penstock.common import Configuration  # noqa: E402
from penstock.datastream import StreamExecutionEnvironment  # noqa: E402
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions  # noqa: E402
from tools.servers.kafka import KafkaBroker  # noqa: E402
from tools.servers.postgres import PASSWORD, USER, PostgresServer  # noqa: E402

COUNTRIES = ("DE", "FR", "IT", "NL", "PL")
CUSTOMERS = 500
LATE_SHARE, MALFORMED_SHARE = 0.01, 0.005
TIMEOUT_S = 90.0


class Shop(threading.Thread):
    """Sends orders for a while: some late by a minute, some that are not orders."""

    def __init__(self, bootstrap: str, seconds: float, rate: int) -> None:
        super().__init__(name="shop", daemon=True)
        self._servers, self.seconds, self._rate = bootstrap, seconds, rate
        self.orders = self.malformed = self.cents = 0

    def run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, "log_level": 0}
        )
        chance, end = random.Random(5), time.monotonic() + self.seconds
        while time.monotonic() < end:
            for _ in range(max(1, self._rate // 20)):
                producer.produce(kafka_orders.ORDERS, self._message(chance))
            producer.poll(0)
            time.sleep(0.05)
        producer.flush(60)

    def _message(self, chance: random.Random) -> bytes:
        if chance.random() < MALFORMED_SHARE:
            self.malformed += 1
            return b'{"id": "not a nu'
        self.orders += 1
        cents = chance.randint(100, 50_000)
        self.cents += cents
        late = 60_000 if chance.random() < LATE_SHARE else 0
        order = {
            "id": self.orders,
            "customer": chance.randint(1, CUSTOMERS + 20),  # some are not known
            "cents": cents,
            "time": int(time.time() * 1000) - late,
        }
        return json.dumps(order).encode()


class Reader(threading.Thread):
    """Reads what is committed, as any consumer would, and keeps count."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="reader", daemon=True)
        self._servers = bootstrap
        self.enriched: Counter[int] = Counter()
        self.malformed = self.late = self.late_cents = self.window_cents = 0
        self.totals: Counter[str] = Counter()
        self.example: dict[str, Any] = {}
        self.last = time.monotonic()

    def run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "demo-reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        topics = [kafka_orders.ENRICHED, kafka_orders.TOTALS, kafka_orders.DEAD_LETTERS]
        consumer.subscribe(topics)
        while True:
            for message in consumer.consume(1000, timeout=0.2):
                if message.error() is None:
                    self.last = time.monotonic()
                    self._take(message.topic(), json.loads(message.value()))

    def _take(self, topic: str, value: dict[str, Any]) -> None:
        if topic == kafka_orders.ENRICHED:
            self.enriched[value["id"]] += 1
        elif topic == kafka_orders.TOTALS:
            self.totals[value["country"]] += value["cents"]
            self.window_cents += value["cents"]
        elif value["why"] == "late":
            self.late += 1
            self.late_cents += value["cents"]
        else:
            self.malformed += 1
            self.example = value

    def __str__(self) -> str:
        totals = "  ".join(
            f"{name} {cents / 100:,.0f}" for name, cents in sorted(self.totals.items())
        )
        return (
            f"enriched {len(self.enriched):>7,}   late {self.late:>4}   malformed {self.malformed:>4}"
            f"   by country: {totals}"
        )


def make_customers(database: PostgresServer) -> JdbcConnectionOptions:
    """Fill the table that orders are joined with."""
    import psycopg

    with psycopg.connect(database.dsn, autocommit=True) as session:
        session.execute("CREATE TABLE customers (id int PRIMARY KEY, name text, country text)")
        rows = [
            (n, f"customer {n}", COUNTRIES[n % len(COUNTRIES)]) for n in range(1, CUSTOMERS + 1)
        ]
        session.cursor().executemany("INSERT INTO customers VALUES (%s, %s, %s)", rows)
    return (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(f"jdbc:postgresql://127.0.0.1:{database.port}/postgres")
        .with_user_name(USER)
        .with_password(PASSWORD)
        .build()
    )


def environment(directory: str) -> StreamExecutionEnvironment:
    options = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "spark.ui.enabled": "false",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    return env


def watch(shop: Shop, reader: Reader, client: Any, begun: float) -> None:
    """Show the figures every two seconds until all orders are out."""
    result = client.get_job_execution_result()
    end = time.monotonic() + TIMEOUT_S + shop.seconds
    while time.monotonic() < end and not result.done():
        time.sleep(2)
        print(f"{time.monotonic() - begun:>4.0f} s   sent {shop.orders:>7,}   {reader}", flush=True)
        done = len(reader.enriched) >= shop.orders and reader.malformed >= shop.malformed
        if not shop.is_alive() and done:
            return
    if result.done():
        result.result(0)


def judge(shop: Shop, reader: Reader) -> bool:
    """Count: every order once, every cent in a window or in a dead letter."""
    doubled = sum(count - 1 for count in reader.enriched.values())
    cents = reader.window_cents + reader.late_cents
    print(f"\nOrders enriched: {len(reader.enriched):,} of {shop.orders:,}, {doubled} twice")
    print(f"Dead letters: {reader.late} late, {reader.malformed} of {shop.malformed} malformed")
    if reader.example:
        print(f"  such as {json.dumps(reader.example)}")
    print(f"Cents in windows and late orders: {cents:,} of {shop.cents:,}")
    return (
        len(reader.enriched) == shop.orders
        and not doubled
        and reader.malformed == shop.malformed
        and cents == shop.cents
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30, help="how long orders are sent")
    parser.add_argument("--rate", type=int, default=500, help="orders per second, about")
    parser.add_argument("--no-spark", action="store_true", help="run the job in this process")
    options = parser.parse_args()
    with ExitStack() as stack:
        print("starting Kafka and PostgreSQL", flush=True)
        broker = stack.enter_context(KafkaBroker())
        database = stack.enter_context(PostgresServer())
        for topic in (kafka_orders.ORDERS, kafka_orders.ENRICHED):
            broker.create_topic(topic, 2)
        for topic in (kafka_orders.TOTALS, kafka_orders.DEAD_LETTERS):
            broker.create_topic(topic)
        connection = make_customers(database)
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-"))
        if options.no_spark:
            from penstock.testing import MiniCluster

            stack.enter_context(MiniCluster(mode="pipelined"))
        env = environment(directory)
        kafka_orders.build(env, broker.bootstrap, connection)
        begun = time.monotonic()
        client = env.execute_async("orders")
        shop = Shop(broker.bootstrap, options.seconds, options.rate)
        reader = Reader(broker.bootstrap)
        shop.start()
        reader.start()
        watch(shop, reader, client, begun)
        # The watermark goes to its end, so that the last windows come out.
        client.stop_with_savepoint(True, f"{directory}/savepoint").result(60)
        while time.monotonic() - reader.last < 3:
            time.sleep(0.2)
        return 0 if judge(shop, reader) else 1


if __name__ == "__main__":
    sys.exit(main())
