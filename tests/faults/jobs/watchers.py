"""Independent readers of a job's output, each a process of its own that watches from the beginning to the end.

    python watchers.py topic FILE BOOTSTRAP TOPIC
    python watchers.py table FILE CONNECTION TABLE

Every line that they see goes to the file, with its place. They know nothing of Penstock.
"""

from __future__ import annotations

import sys
import time


def watch_topic(file: str, bootstrap: str, topic: str) -> None:
    """Read committed messages for ever; the consumer comes back by itself when the broker does."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"watcher-{topic}",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic, timeout=120).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    with open(file, "w") as output:
        while True:
            messages = consumer.consume(500, timeout=0.2)
            for message in messages:
                if message.error() is None:
                    text = message.value().decode()
                    output.write(f"{message.partition()}:{message.offset()}\t{text}\n")
            output.flush()


def watch_table(file: str, connection: str, table: str) -> None:
    """Look at a table again and again; what was there must stay, and each row counts once by its place."""
    import psycopg

    last = 0
    with open(file, "w") as output:
        while True:
            try:
                with psycopg.connect(connection, autocommit=True, connect_timeout=5) as session:
                    while True:
                        rows = session.execute(f"SELECT id, line FROM {table}").fetchall()
                        if len(rows) < last:
                            output.write(f"gone\t{last - len(rows)} rows are gone\n")
                        if len(rows) != last:
                            last = len(rows)
                            output.write(f"looked\t{last}\n")
                            output.writelines(f"{place}\t{line}\n" for place, line in rows)
                            output.flush()
                        time.sleep(0.2)
            except psycopg.OperationalError:
                time.sleep(0.1)


if __name__ == "__main__":
    {"topic": watch_topic, "table": watch_table}[sys.argv[1]](*sys.argv[2:])
