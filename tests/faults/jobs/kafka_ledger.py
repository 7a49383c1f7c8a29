"""The job between real systems that the fault suite kills: numbers the messages of each key, from Kafka to Kafka or PostgreSQL.

    python kafka_ledger.py '{"directory": "/tmp/run", "bootstrap": "127.0.0.1:9092", "topic": "in", "sink": {"topic": "out"}, ...}'

It ends when there is a file `stop` in the directory. With `master` null it runs in this process, without Spark.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.state import ValueStateDescriptor

PARALLELISM = 2


class Number(KeyedProcessFunction):
    """Numbers the messages of a key; one that was lost or came twice is seen in the numbers of all after it."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{ctx.get_current_key()} number {count}"


def key_of(message: str) -> str:
    return message.partition(" ")[0]


def source(options: dict[str, Any]) -> Any:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(options["bootstrap"])
        .set_topics(options["topic"])
        .set_group_id(f"{options['topic']}-readers")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


def topic_sink(options: dict[str, Any]) -> Any:
    topic = options["sink"]["topic"]
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(options["bootstrap"])
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"{topic}-tx")
        .set_property("transaction.timeout.ms", "120000")
        .build()
    )


def table_sink(options: dict[str, Any]) -> Any:
    from penstock.datastream.connectors.jdbc import (
        JdbcConnectionOptions,
        JdbcExactlyOnceOptions,
        JdbcExecutionOptions,
        JdbcSink,
    )

    target = options["sink"]
    connection = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(target["url"])
        .with_user_name(target["user"])
        .with_password(target["password"])
        .build()
    )
    return JdbcSink.exactly_once_sink(
        f"INSERT INTO {target['table']} (line) VALUES (?)",
        Types.ROW([Types.STRING()]),
        connection,
        JdbcExecutionOptions.builder().with_batch_size(50).build(),
        JdbcExactlyOnceOptions.defaults(),
    )


def environment(options: dict[str, Any]) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": f"{options['directory']}/checkpoints",
        "penstock.job-id": options["job_id"],
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "100 ms",
        **options["way"],
    }
    if options["master"]:
        settings["spark.master"] = options["master"]
        settings["spark.ui.enabled"] = "false"
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(PARALLELISM)
    return env


def run(env: StreamExecutionEnvironment, stop: Path) -> None:
    client = env.execute_async("kafka ledger")
    result = client.get_job_execution_result()
    while not stop.exists() and not result.done():
        time.sleep(0.05)
    if result.done():
        result.result(0)
        raise RuntimeError("the job has ended by itself")
    client.cancel().result(240)


def main(options: dict[str, Any]) -> None:
    env = environment(options)
    stream = env.from_source(source(options), WatermarkStrategy.no_watermarks(), "messages")
    numbered = stream.uid("messages").key_by(key_of).process(Number()).uid("numbers")
    if "topic" in options["sink"]:
        numbered.sink_to(topic_sink(options)).uid("out")
    else:
        from penstock.common import Row

        numbered.map(Row).sink_to(table_sink(options)).uid("out")
    with contextlib.ExitStack() as stack:
        if options["master"] is None:
            from penstock.testing import MiniCluster

            stack.enter_context(MiniCluster())
        run(env, Path(options["directory"], "stop"))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
